"""QKeras: weights and activations of a few bits, trained straight through their rounding."""
import numpy as np
import qkeras
import tensorflow as tf

from package_steps import cross_entropy, floats, keras_2, pictures

K = tf.keras
RNG = np.random.default_rng(0)


def net(weights, activation):
    def make():
        return K.Sequential([
            qkeras.QConv2D(8, 3, kernel_quantizer=weights(), bias_quantizer=qkeras.quantized_bits(8, 3), input_shape=(16, 16, 3)),
            qkeras.QBatchNormalization(), qkeras.QActivation(activation), K.layers.MaxPool2D(),
            qkeras.QDepthwiseConv2D(3, depthwise_quantizer=weights()), qkeras.QActivation(activation), K.layers.Flatten(),
            qkeras.QDense(4, kernel_quantizer=weights(), bias_quantizer=qkeras.quantized_bits(8, 3))])
    return keras_2(make, cross_entropy, pictures(RNG, 16, 4), rtol=5e-3)


def of_sequence(layer):
    return keras_2(lambda: K.Sequential([layer(), K.layers.Dense(4)]), cross_entropy,
                   {"x": floats(RNG, 4, 6, 8), "labels": RNG.integers(0, 4, 4).astype(np.int32)}, rtol=5e-3)


def recurrent(kind):
    bits = lambda: qkeras.quantized_bits(6, 1, alpha=1)
    return of_sequence(lambda: kind(6, kernel_quantizer=bits(), recurrent_quantizer=bits(), bias_quantizer=bits(), state_quantizer=bits(),
                                    activation=qkeras.quantized_tanh(6)))


def cases():
    bits = lambda **options: lambda: qkeras.quantized_bits(4, 0, **options)
    yield "bits", net(bits(alpha=1), "quantized_relu(4)")
    yield "bits_auto", net(bits(alpha="auto"), "quantized_relu(4, 1)")
    yield "bits_auto_po2", net(bits(alpha="auto_po2"), "quantized_bits(5, 1)")
    yield "bits_stochastic", net(bits(alpha=1, use_stochastic_rounding=True), "quantized_relu(4, use_stochastic_rounding=1)")
    yield "ternary", net(lambda: qkeras.ternary(alpha="auto"), "ternary(alpha=1)")
    yield "binary", net(lambda: qkeras.binary(alpha="auto"), "binary(alpha=1)")
    yield "stochastic_ternary", net(lambda: qkeras.stochastic_ternary(alpha="auto"), "quantized_sigmoid(5)")
    yield "stochastic_binary", net(lambda: qkeras.stochastic_binary(alpha="auto"), "quantized_ulaw(6, 1)")
    yield "bernoulli", net(lambda: qkeras.bernoulli(alpha=1), "quantized_relu(6)")
    yield "powers_of_two", net(lambda: qkeras.quantized_po2(4), "quantized_relu_po2(4)")
    yield "swish", net(bits(alpha=1), "quantized_hswish(6, 1)")
    yield "lstm", recurrent(qkeras.QLSTM)
    yield "conv_1d", of_sequence(lambda: K.Sequential([qkeras.QConv1D(6, 3, kernel_quantizer=qkeras.quantized_bits(4, 0, alpha="auto")),
                                                       K.layers.GlobalMaxPooling1D()]))
    yield "separable", keras_2(lambda: K.Sequential([qkeras.QSeparableConv2D(6, 3, depthwise_quantizer=qkeras.quantized_bits(4, 0, alpha=1),
                                                                             pointwise_quantizer=qkeras.quantized_bits(4, 0, alpha=1)),
                                                     qkeras.QGlobalAveragePooling2D(), K.layers.Dense(4)]), cross_entropy, pictures(RNG, 16, 4), rtol=5e-3)
