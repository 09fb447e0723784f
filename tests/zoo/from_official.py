"""TensorFlow's Model Garden: language models' layers and encoders, vision backbones and a detector of small sizes."""
import numpy as np
import official.nlp.modeling as nlp
import official.vision.modeling as vision
import tensorflow as tf

from official.nlp.modeling import models as language_models
from official.vision.modeling import backbones
from package_steps import floats, pictures, taped

RNG = np.random.default_rng(0)
LENGTH, WORDS = 8, 50


def words(**more):
    mask = np.ones((2, LENGTH), np.int32)
    mask[1, -3:] = 0
    return {"words": RNG.integers(1, WORDS, (2, LENGTH)).astype(np.int32), "mask": mask, "types": np.zeros((2, LENGTH), np.int32),
            "labels": RNG.integers(0, 3, 2).astype(np.int32), **more}


def spread(outputs):
    """A loss that every output takes part in, whatever they mean."""
    return tf.add_n([tf.reduce_mean(tf.math.squared_difference(tf.tanh(tf.cast(x, tf.float32)), 0.3)) for x in tf.nest.flatten(outputs)])


def model_case(make, call, feeds, **more):
    """make() -> model, call(model, **feeds) -> loss; trained by Adam."""
    def parts():
        model = make()
        best = tf.keras.optimizers.legacy.Adam(1e-3)

        def loss(**values):
            value = call(model, **values)
            return value + tf.add_n(model.losses) if model.losses else value
        loss(**{name: tf.constant(value) for name, value in feeds.items()})
        return loss, lambda: model.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))
    return taped(parts, feeds, **{"rtol": 2e-3, **more})


def encoder(make):
    return model_case(make, lambda model, words, mask, types, labels: spread(
        {k: v for k, v in model(dict(input_word_ids=words, input_mask=mask, input_type_ids=types), training=True).items()
         if k in ("sequence_output", "pooled_output")}), words())


def layer(make, *shapes, call=None):
    feeds = {f"x{i}": floats(RNG, *shape) for i, shape in enumerate(shapes or [(2, LENGTH, 16)])}
    call = call or (lambda model, *values: model(*values))

    def loss(model, **values):
        return spread([out for out in tf.nest.flatten(call(model, *values.values())) if out is not None])
    return model_case(make, loss, feeds)


def classified(make, size=32, loss=None, frames=None):
    feeds = pictures(RNG, size)
    if frames:
        feeds = {**feeds, "x": RNG.uniform(size=(2, frames, size, size, 3)).astype(np.float32)}
    return model_case(make, lambda model, x, labels: (loss or spread)(model(x, training=True)), feeds, rtol=5e-3, steps=2)


SIZES = dict(vocab_size=WORDS, hidden_size=16, num_attention_heads=2)


def language():
    net, layers = nlp.networks, nlp.layers
    yield "bert", encoder(lambda: net.BertEncoderV2(**SIZES, num_layers=2, inner_dim=32, max_sequence_length=LENGTH))
    yield "albert", encoder(lambda: net.AlbertEncoder(**SIZES, num_layers=2, intermediate_size=32, max_sequence_length=LENGTH, embedding_width=8,
                                                      dict_outputs=True))
    yield "f_net", encoder(lambda: net.FNet(vocab_size=WORDS, hidden_size=24, num_layers=2, inner_dim=32, max_sequence_length=LENGTH))
    yield "sparse_mixer", encoder(lambda: net.SparseMixer(vocab_size=WORDS, hidden_size=16, num_layers=3, moe_layers=(1,), attention_layers=(2,),
                                                          num_experts=2, num_attention_heads=2, inner_dim=32, max_sequence_length=LENGTH))
    yield "funnel", encoder(lambda: net.FunnelTransformerEncoder(**SIZES, num_layers=2, inner_dim=32, max_sequence_length=LENGTH, pool_stride=2))
    yield "mobile_bert", model_case(lambda: net.MobileBERTEncoder(word_vocab_size=WORDS, word_embed_size=8, type_vocab_size=2, max_sequence_length=LENGTH,
                                                                  num_blocks=2, hidden_size=16, num_attention_heads=2, intermediate_size=16,
                                                                  intra_bottleneck_size=8, num_feedforward_networks=2),
                                    lambda model, words, mask, types, labels: spread(model(
                                        dict(input_word_ids=words, input_mask=mask, input_type_ids=types))["sequence_output"]), words())
    yield "talking_heads", layer(lambda: layers.TalkingHeadsAttention(num_heads=2, key_dim=8), call=lambda m, x: m(x, x))
    yield "multi_query", layer(lambda: layers.MultiQueryAttention(num_heads=4, key_dim=4, num_kv_heads=1), call=lambda m, x: m(x, x))
    yield "kernel_attention", layer(lambda: layers.KernelAttention(num_heads=2, key_dim=8, feature_transform="exp", num_random_features=16,
                                                                   redraw=True), call=lambda m, x: m(x, x, training=True))
    yield "block_sparse", layer(lambda: layers.BlockSparseAttention(num_heads=2, key_dim=8, src_block_size=4, tgt_block_size=4),
                                call=lambda m, x: m(x, x))
    yield "re_zero", layer(lambda: layers.ReZeroTransformer(num_attention_heads=2, inner_dim=32, inner_activation="relu"))
    yield "gated_feed_forward", layer(lambda: layers.GatedFeedforward(inner_dim=32, inner_activation="gelu", dropout=0.1))
    yield "reuse", layer(lambda: layers.ReuseTransformer(num_attention_heads=2, inner_dim=32, inner_activation="relu"))
    yield "experts", layer(lambda: layers.MoeLayer(
        experts=layers.FeedForwardExperts(num_experts=4, d_ff=32, inner_dropout=0.0, output_dropout=0.0),
        router=layers.ExpertsChooseMaskedRouter(num_experts=4, jitter_noise=0.1), train_capacity_factor=1.0, eval_capacity_factor=1.0,
        examples_per_group=1.0), call=lambda m, x: m(x, training=True))
    yield "seq2seq", model_case(
        lambda: language_models.Seq2SeqTransformer(vocab_size=WORDS, embedding_width=16, dropout_rate=0.1, decode_max_length=LENGTH,
                                                   encoder_layer=language_models.TransformerEncoder(num_layers=1, num_attention_heads=2, intermediate_size=32),
                                                   decoder_layer=language_models.TransformerDecoder(num_layers=1, num_attention_heads=2, intermediate_size=32)),
        lambda model, words, mask, types, labels: spread(model(dict(inputs=words, targets=words), training=True)), words())


def retina_net():
    spec = tf.keras.layers.InputSpec(shape=[None, 64, 64, 3])
    backbone = backbones.ResNet(18, input_specs=spec)
    decoder = vision.decoders.FPN(backbone.output_specs, min_level=3, max_level=5, num_filters=8)
    head = vision.heads.dense_prediction_heads.RetinaNetHead(3, 5, num_classes=3, num_anchors_per_location=3, num_convs=1, num_filters=8)
    return vision.retinanet_model.RetinaNetModel(backbone, decoder, head, vision.layers.MultilevelDetectionGenerator())


def of_backbone(make):
    def model():
        backbone = make(tf.keras.layers.InputSpec(shape=[None, 32, 32, 3]))
        return vision.classification_model.ClassificationModel(backbone, num_classes=4, input_specs=tf.keras.layers.InputSpec(shape=[None, 32, 32, 3]),
                                                               dropout_rate=0.1)
    return classified(model)


def sight():
    yield "mobile_net_v3", of_backbone(lambda spec: backbones.MobileNet("MobileNetV3Small", filter_size_scale=0.25, input_specs=spec))
    yield "vit", of_backbone(lambda spec: backbones.VisionTransformer(input_specs=spec, patch_size=8, hidden_size=16, mlp_dim=32, num_layers=2,
                                                                      num_heads=2, init_stochastic_depth_rate=0.1))
    yield "res_net_rs", of_backbone(lambda spec: backbones.ResNet(18, se_ratio=0.25, stem_type="v1", resnetd_shortcut=True,
                                                                  init_stochastic_depth_rate=0.1, input_specs=spec))
    yield "retina_net", classified(retina_net, 64)


def cases():
    yield from language()
    yield from sight()
