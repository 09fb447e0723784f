"""Nets for pictures from packages: segmentation models, U-Nets, Vision Transformers, binarised nets of Larq, pruning-aware training."""
import os

os.environ["SM_FRAMEWORK"] = "tf.keras"
import keras_unet_collection.models as unets  # noqa: E402
import larq as lq  # noqa: E402
import numpy as np  # noqa: E402
import segmentation_models as sm  # noqa: E402
import tcn  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras_self_attention import SeqSelfAttention  # noqa: E402

from package_steps import cross_entropy, floats, keras_2, pictures  # noqa: E402

RNG = np.random.default_rng(0)


def pixels(size=32, classes=3):
    return {"x": RNG.uniform(size=(2, size, size, 3)).astype(np.float32),
            "labels": RNG.integers(0, classes, (2, size, size)).astype(np.int32)}


def of_pixels(outputs, labels, **feeds):
    outputs = outputs[-1] if isinstance(outputs, list) else outputs
    return tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, outputs))


def dice(outputs, labels, **feeds):
    return sm.losses.cce_dice_loss(tf.one_hot(labels, 3), outputs)


def segmentation(make, backbone, loss=of_pixels, size=32, **options):
    return keras_2(lambda: make(backbone, classes=3, activation="softmax", encoder_weights=None, input_shape=(size, size, 3), **options),
                   loss, pixels(size), rtol=5e-3, steps=2)


def unet(make, *arguments, **options):
    return keras_2(lambda: make((32, 32, 3), *arguments, n_labels=3, **options), of_pixels, pixels(), rtol=5e-3, steps=2)


def binarised(kernel, **options):
    shared = dict(kernel_quantizer=kernel, kernel_constraint="weight_clip", use_bias=False)

    def make():
        return tf.keras.Sequential([
            lq.layers.QuantConv2D(8, 3, input_shape=(16, 16, 3), **shared), tf.keras.layers.BatchNormalization(scale=False),
            lq.layers.QuantConv2D(8, 3, input_quantizer="ste_sign", padding="same", pad_values=1.0, **shared),
            tf.keras.layers.MaxPool2D(), tf.keras.layers.BatchNormalization(scale=False),
            lq.layers.QuantSeparableConv2D(8, 3, depthwise_quantizer=kernel, pointwise_quantizer=kernel, input_quantizer="approx_sign"),
            tf.keras.layers.Flatten(), lq.layers.QuantDense(4, input_quantizer="swish_sign", **shared)])
    return keras_2(make, cross_entropy, pictures(RNG, 16), **options)


def bop():
    def make():
        return tf.keras.Sequential([lq.layers.QuantDense(8, kernel_quantizer=lq.quantizers.NoOp(precision=1), input_shape=(6,), use_bias=False),
                                    tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(4)])
    best = lambda: lq.optimizers.CaseOptimizer((lq.optimizers.Bop.is_binary_variable, lq.optimizers.Bop()),
                                               default_optimizer=tf.keras.optimizers.legacy.Adam(0.01))
    return keras_2(make, cross_entropy, {"x": floats(RNG, 8, 6), "labels": RNG.integers(0, 4, 8).astype(np.int32)}, optimizer=best)


def of_sequence(*layers):
    return keras_2(lambda: tf.keras.Sequential([*(layer() for layer in layers), tf.keras.layers.Dense(4)]), cross_entropy,
                   {"x": floats(RNG, 4, 12, 5), "labels": RNG.integers(0, 4, 4).astype(np.int32)})


def cases():
    yield "sm_unet_resnet18", segmentation(sm.Unet, "resnet18")
    yield "sm_fpn_efficientnet", segmentation(sm.FPN, "efficientnetb0")
    yield "sm_linknet_mobilenet", segmentation(sm.Linknet, "mobilenetv2", dice)
    yield "sm_pspnet_seresnet", segmentation(sm.PSPNet, "seresnet18", size=48, downsample_factor=4)
    yield "sm_unet_transposed", segmentation(sm.Unet, "resnext50", decoder_block_type="transpose", decoder_filters=(16, 8, 8, 4, 4))
    yield "unet_2d", unet(unets.unet_2d, [4, 8, 16], batch_norm=True)
    yield "unet_plus", unet(unets.unet_plus_2d, [4, 8, 16], deep_supervision=False)
    yield "unet_3plus", unet(unets.unet_3plus_2d, filter_num_down=[4, 8, 16], filter_num_skip="auto", filter_num_aggregate="auto")
    yield "unet_attention", unet(unets.att_unet_2d, [4, 8, 16], attention="add", activation="LeakyReLU")
    yield "unet_recurrent", unet(unets.r2_unet_2d, [4, 8, 16], recur_num=2)
    yield "unet_residual_atrous", unet(unets.resunet_a_2d, [4, 8, 16], dilation_num=[2, 1, 1], aspp_num_down=8, aspp_num_up=4, activation="GELU")
    yield "unet_u2", unet(unets.u2net_2d, filter_num_down=[4, 8], filter_num_up="auto", filter_mid_num_down=[4, 4], filter_4f_num=[8, 8])
    yield "unet_swin", unet(unets.swin_unet_2d, filter_num_begin=8, depth=2, stack_num_down=2, stack_num_up=2, patch_size=(2, 2),
                            num_heads=[2, 2], window_size=[4, 2], num_mlp=16)
    yield "larq_ste_sign", binarised("ste_sign")
    yield "larq_magnitude", binarised("magnitude_aware_sign")
    yield "larq_tern", binarised("ste_tern")
    yield "larq_dorefa", binarised("dorefa_quantizer")
    yield "larq_bop", bop()
    yield "tcn", of_sequence(lambda: tcn.TCN(8, dilations=(1, 2, 4), use_layer_norm=True))
    yield "tcn_skip_batch_norm", of_sequence(lambda: tcn.TCN(8, dilations=(1, 2), use_skip_connections=True, use_batch_norm=True, dropout_rate=0.1))
    yield "self_attention_additive", of_sequence(lambda: SeqSelfAttention(8), tf.keras.layers.GlobalMaxPool1D)
    yield "self_attention_local", of_sequence(lambda: SeqSelfAttention(attention_width=3, attention_type=SeqSelfAttention.ATTENTION_TYPE_MUL),
                                              tf.keras.layers.Flatten)
