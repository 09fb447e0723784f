"""Links trained through their channels: codes, constellations, OFDM and detectors of Sionna."""
import numpy as np
import tensorflow as tf
from sionna import channel, fec, mapping, mimo, ofdm, signal
from sionna.fec.conv import BCJRDecoder, ConvEncoder
from sionna.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder
from sionna.fec.polar import PolarBPDecoder, PolarEncoder, PolarSCDecoder
from sionna.fec.turbo import TurboDecoder, TurboEncoder

from package_steps import floats, taped

K = tf.keras
RNG = np.random.default_rng(0)


def bits(*shape):
    return RNG.integers(0, 2, shape).astype(np.float32)


def trained(make, feeds):
    """make() -> (loss(**feeds), objects that hold what is trained); a first call makes their variables."""
    def parts():
        loss, owners = make()
        loss(**{name: tf.constant(value) for name, value in feeds.items()})
        best = K.optimizers.legacy.Adam(1e-2)
        weights = [w for owner in owners for w in owner.trainable_variables]
        return loss, lambda: weights, lambda grads, used: best.apply_gradients(zip(grads, used))
    return taped(parts, feeds, rtol=2e-3)


def bce(wanted, logits):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits))


class Points(tf.Module):
    """A constellation that is trained, with a scale of the noise that the receiver believes in."""

    def __init__(self, count):
        super().__init__()
        self.constellation = mapping.Constellation("qam", count, trainable=True)
        self.scale = tf.Variable(1.0)

    @property
    def trainable_variables(self):
        return [*self.constellation.trainable_variables, self.scale]


def coded(encoder, decoder, information):
    """Bits through a code, a trained constellation, noise, a demapper and the code's decoder."""
    def make():
        points, encode = Points(2), encoder()
        decode = decoder(encode)
        mapper, demapper = mapping.Mapper(constellation=points.constellation), mapping.Demapper("app", constellation=points.constellation)

        def loss(sent):
            symbols = channel.AWGN()([mapper(encode(sent)), tf.constant(1.5)])
            return bce(sent, decode(points.scale * demapper([symbols, tf.constant(1.5)])))
        return loss, [points] + ([decode] if decode.trainable_variables else [])
    return trained(make, {"sent": bits(4, information)})


def grid():
    return ofdm.ResourceGrid(num_ofdm_symbols=14, fft_size=24, subcarrier_spacing=30e3, num_tx=1, num_streams_per_tx=2, cyclic_prefix_length=4,
                             pilot_pattern="kronecker", pilot_ofdm_symbol_indices=[2, 11])


class Receiver(K.layers.Layer):
    """A convolutional net that corrects the estimates of the bits."""

    def __init__(self):
        super().__init__()
        self.net = K.Sequential([K.layers.Dense(8, activation="relu"), K.layers.Dense(2)])

    def call(self, llr):
        return tf.squeeze(llr[..., None], -1) + tf.reshape(self.net(tf.reshape(llr, [-1, 2])), tf.shape(llr))


def over_ofdm(equalizer, estimate=True):
    def make():
        resources = grid()
        streams = mimo.StreamManagement(np.array([[1]]), 2)
        points, net = Points(2), Receiver()
        mapper, demapper = mapping.Mapper(constellation=points.constellation), mapping.Demapper("app", constellation=points.constellation)
        to_grid = ofdm.ResourceGridMapper(resources)
        fading = channel.RayleighBlockFading(1, 4, 1, 2)
        through = channel.OFDMChannel(fading, resources, add_awgn=True, normalize_channel=True, return_channel=True)
        guess, equalize = ofdm.LSChannelEstimator(resources, interpolation_type="lin"), equalizer(resources, streams)

        def loss(sent):
            noise = tf.constant(0.1)
            received, response = through([to_grid(mapper(sent)), noise])
            if estimate:
                response, error = guess([received, noise])
            else:
                error = tf.constant(0.0)
            symbols, left = equalize([received, response, error, noise])
            return bce(sent, net(demapper([symbols, left])))
        return loss, [points, net]
    return trained(make, {"sent": bits(2, 1, 2, 2 * grid().num_data_symbols)})


def detected(detector):
    """A detector of several antennas, through whose estimates the constellation is trained."""
    def make():
        points = Points(2)
        mapper, detect = mapping.Mapper(constellation=points.constellation), detector(points.constellation)
        fade = channel.FlatFadingChannel(3, 4, return_channel=True)

        def loss(sent):
            received, response = fade([mapper(sent)[..., 0], tf.constant(0.1)])
            noise = tf.cast(tf.linalg.eye(4, batch_shape=[8]) * 0.1, tf.complex64)
            return bce(sent, points.scale * detect([received, response, noise]))
        return loss, [points]
    return trained(make, {"sent": bits(8, 3, 2)})


def prior_detected(iterations):
    def make():
        points = Points(2)
        mapper = mapping.Mapper(constellation=points.constellation)
        detect = mimo.MMSEPICDetector("bit", num_iter=iterations, constellation=points.constellation)
        fade = channel.FlatFadingChannel(3, 4, return_channel=True)

        def loss(sent, before):
            received, response = fade([mapper(sent)[..., 0], tf.constant(0.1)])
            noise = tf.cast(tf.linalg.eye(4, batch_shape=[8]) * 0.1, tf.complex64)
            return bce(sent, points.scale * detect([received, response, before, noise]))
        return loss, [points]
    return trained(make, {"sent": bits(8, 3, 2), "before": floats(RNG, 8, 3, 2)})


def pulses():
    """A filter of pulses that is trained against what it spills into its neighbours."""
    def make():
        shape = signal.RootRaisedCosineFilter(6, 4, 0.3, trainable=True)
        points = Points(2)
        mapper, demapper = mapping.Mapper(constellation=points.constellation), mapping.Demapper("maxlog", constellation=points.constellation)
        up, down = signal.Upsampling(4), signal.Downsampling(4, 24, 16)

        def loss(sent):
            wave = shape(up(mapper(sent)), padding="full")
            wave = channel.AWGN()([wave, tf.constant(0.2)])
            back = down(shape(wave, padding="full"))
            spill = signal.empirical_aclr(wave, oversampling=4.0)
            return bce(sent, demapper([back, tf.constant(0.2)])) + spill
        return loss, [shape, points]
    return trained(make, {"sent": bits(4, 32)})


def ldpc(**options):
    return coded(lambda: LDPC5GEncoder(12, 24), lambda encoder: LDPC5GDecoder(encoder, num_iter=3, hard_out=False, **options), 12)


def _frozen(length, information):
    frozen = fec.polar.utils.generate_5g_ranking(information, length)[0]
    return frozen, length


def cases():
    yield "ldpc_boxplus", ldpc(cn_type="boxplus", trainable=True)
    yield "ldpc_phi", ldpc(cn_type="boxplus-phi", trainable=True)
    yield "ldpc_minsum", ldpc(cn_type="minsum")
    yield "polar_bp", coded(lambda: PolarEncoder(*_frozen(32, 16)),
                            lambda encoder: PolarBPDecoder(encoder.frozen_pos, encoder.n, 3, hard_out=False), 16)
    yield "turbo", coded(lambda: TurboEncoder(rate=1 / 2, constraint_length=3, terminate=False),
                         lambda encoder: TurboDecoder(encoder, num_iter=2, hard_out=False), 16)
    yield "bcjr", coded(lambda: ConvEncoder(rate=1 / 2, constraint_length=3), lambda encoder: BCJRDecoder(encoder, hard_out=False), 12)
    yield "bcjr_maxlog", coded(lambda: ConvEncoder(rate=1 / 2, constraint_length=3, rsc=True),
                               lambda encoder: BCJRDecoder(encoder, hard_out=False, algorithm="maxlog"), 12)
    yield "polar_sc", coded(lambda: PolarEncoder(*_frozen(32, 16)), lambda encoder: PolarSCDecoder(encoder.frozen_pos, encoder.n), 16)
    yield "ofdm_lmmse", over_ofdm(ofdm.LMMSEEqualizer)
    yield "ofdm_zf_perfect", over_ofdm(ofdm.ZFEqualizer, estimate=False)
    yield "ofdm_mf", over_ofdm(ofdm.MFEqualizer)
    yield "detector_linear", detected(lambda points: mimo.LinearDetector("lmmse", "bit", "app", constellation=points))
    yield "detector_maximum", detected(lambda points: mimo.MaximumLikelihoodDetector("bit", "app", 3, constellation=points))
    yield "detector_k_best", detected(lambda points: mimo.KBestDetector("bit", 3, 4, constellation=points))
    yield "detector_ep", detected(lambda points: mimo.EPDetector("bit", 2, l=3))
    yield "detector_pic", prior_detected(2)
    yield "pulses", pulses()
