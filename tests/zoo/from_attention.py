"""Small nets of pictures and words from keras-cv-attention-models."""
import importlib

import numpy as np
import tensorflow as tf

from package_steps import cross_entropy, keras_2, pictures

RNG = np.random.default_rng(0)
PACKAGE = "keras_cv_attention_models"

# family: what builds a net of it, and what makes it small
SMALL = {
    "beit": ("Beit", dict(depth=2, embed_dim=16, num_heads=2, patch_size=8)),
    "caformer": ("CAFormer", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 8, 16, 16], head_dim=8)),
    "cmt": ("CMT", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 16, 16, 16], stem_width=8)),
    "coat": ("CoaT", dict(serial_depths=[1, 1, 1, 1], embed_dims=[16, 16, 16, 16], mlp_ratios=[2, 2, 2, 2], parallel_depth=1, num_heads=8)),
    "coatnet": ("CoAtNet", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 16, 32, 32], stem_width=8, head_dimension=8)),
    "convnext": ("ConvNeXt", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 8, 16, 16], use_grn=True)),
    "cspnext": ("CSPNeXt", dict(num_blocks=[1, 1, 1, 1], out_channels=[16, 16, 16, 16], stem_width=8)),
    "davit": ("DaViT", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 8, 16, 16], num_heads=[1, 1, 2, 2], stem_width=8)),
    "edgenext": ("EdgeNeXt", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 16, 16, 16], num_heads=2)),
    "efficientformer": ("EfficientFormer", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 8, 16, 16])),
    "efficientvit": ("EfficientViT_M", dict(num_blocks=[1, 1, 1], out_channels=[16, 16, 32], stem_width=16, num_heads=[2, 2, 2])),
    "fasternet": ("FasterNet", dict(num_blocks=[1, 1, 1, 1], embed_dim=16)),
    "gcvit": ("GCViT", dict(num_blocks=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], embed_dim=8)),
    "hiera": ("Hiera", dict(num_blocks=[1, 1, 1, 1], embed_dim=8, num_heads=[1, 1, 1, 2])),
    "hornet": ("HorNet", dict(num_blocks=[1, 1, 1, 1], embed_dim=16)),
    "maxvit": ("MaxViT", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 16, 16, 16], stem_width=8, head_dimension=8)),
    "moganet": ("MogaNet", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 8, 16, 16])),
    "nat": ("NAT", dict(num_blocks=[1, 1, 1, 1], out_channels=[8, 8, 16, 16], num_heads=[1, 1, 2, 2])),
    "nfnets": ("NormFreeNet", dict(num_blocks=[1, 1, 1, 1], width_factor=0.25, channel_ratio=0.25, group_size=8)),
    "pvt": ("PyramidVisionTransformerV2", dict(num_blocks=[1, 1, 1, 1], embed_dims=[8, 8, 16, 16], num_heads=[1, 1, 2, 2],
                                           mlp_ratios=[2, 2, 2, 2], sr_ratios=[4, 2, 1, 1])),
}


def module(name):
    return importlib.import_module(f"{PACKAGE}.{name}")


def small(name):
    maker, options = SMALL[name]
    return keras_2(lambda: getattr(module(name), maker)(input_shape=(64, 64, 3), num_classes=4, classifier_activation=None,
                                                            pretrained=None, **options),
                   cross_entropy, pictures(RNG, 64), rtol=5e-3)


def words(name, maker, **options):
    feeds = {"x": RNG.integers(0, 30, (2, 8)).astype(np.int32), "labels": RNG.integers(0, 30, (2, 8)).astype(np.int32)}
    return keras_2(lambda: getattr(module(name), maker)(max_block_size=8, vocab_size=30, include_top=True, pretrained=None, **options),
                   cross_entropy, feeds)


def cases():
    for name in SMALL:
        yield name, small(name)
    yield "gpt2", words("gpt2", "GPT2", num_blocks=2, embedding_size=16, num_heads=2)
    yield "llama2", words("llama2", "LLaMA2", num_blocks=2, embedding_size=16, num_heads=2)
