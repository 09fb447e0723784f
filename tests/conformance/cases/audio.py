"""Features of sound."""
import numpy as np

from case_builder import Case, Gen

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def spectrogram_cases():
    op = "AudioSpectrogram"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)).astype(np.float32)
    for window, stride, squared in ((64, 40, True), (100, 37, False), (2, 3, True), (3, 5, False), (400, 1, True)):
        yield Case(f"Spectrogram_{window}_{stride}", op, [x], {"window_size": window, "stride": stride, "magnitude_squared": squared}, **CLOSE)
    yield Case("Spectrogram_large", op, [Gen((20000, 1))], {"window_size": 512, "stride": 160}, rtol=1e-4, atol=1e-4)
    yield Case("Spectrogram_short", op, [x[:50]], {"window_size": 100, "stride": 1})
    yield Case("Spectrogram_none", op, [x[:0]], {"window_size": 4, "stride": 1})
    yield Case("Spectrogram_silent", op, [x[:, :0]], {"window_size": 4, "stride": 1})
    nan = x[:20].copy()
    nan[7, 0] = np.nan
    yield Case("Spectrogram_nan", op, [nan], {"window_size": 4, "stride": 4}, **CLOSE)
    yield Case("Spectrogram_window", op, [x], {"window_size": 1, "stride": 1}, error="window size must be > 1, got 1")
    yield Case("Spectrogram_stride", op, [x], {"window_size": 4, "stride": 0}, error="stride must be strictly positive, got 0")
    yield Case("Spectrogram_rank", op, [x[:, 0]], {"window_size": 4, "stride": 1}, error="")


def mfcc_cases():
    spectrogram = np.abs(np.random.default_rng(1).normal(size=(2, 5, 129))).astype(np.float32) ** 2
    rate = np.int32(16000)
    yield Case("Mfcc", "Mfcc", [spectrogram, rate], **CLOSE)
    fewer = {"upper_frequency_limit": 3000.0, "lower_frequency_limit": 100.0, "filterbank_channel_count": 20, "dct_coefficient_count": 7}
    yield Case("Mfcc_fewer", "Mfcc", [spectrogram, np.int32(8000)], fewer, **CLOSE)
    yield Case("Mfcc_all", "Mfcc", [spectrogram, rate], {"upper_frequency_limit": 8000.0, "dct_coefficient_count": 40}, **CLOSE)
    yield Case("Mfcc_many_bands", "Mfcc", [spectrogram[:, :, :17], rate], {"lower_frequency_limit": 0.0}, **CLOSE)
    yield Case("Mfcc_beyond", "Mfcc", [spectrogram, np.int32(4000)])
    yield Case("Mfcc_zeros", "Mfcc", [spectrogram * 0, rate], **CLOSE)
    yield Case("Mfcc_negative", "Mfcc", [-spectrogram, rate], **CLOSE)
    yield Case("Mfcc_none", "Mfcc", [spectrogram[:, :0], rate])
    yield Case("Mfcc_large", "Mfcc", [Gen((3, 400, 257), low=0.1), rate], rtol=1e-4, atol=1e-4)
    for name, inputs, attrs in (("rate", [spectrogram, np.int32(0)], {}), ("one", [spectrogram[:, :, :1], rate], {}),
                                ("limits", [spectrogram, rate], {"upper_frequency_limit": 10.0}),
                                ("lower", [spectrogram, rate], {"lower_frequency_limit": -1.0}),
                                ("bands", [spectrogram, rate], {"filterbank_channel_count": 0}),
                                ("coefficients", [spectrogram, rate], {"dct_coefficient_count": 41})):
        yield Case(f"Mfcc_error_{name}", "Mfcc", inputs, attrs, error="Mfcc initialization failed for")
    yield Case("Mfcc_error_rank", "Mfcc", [spectrogram[0], rate], error="")
    yield Case("Mfcc_error_rates", "Mfcc", [spectrogram, np.array([16000, 1], np.int32)], error="")


def cases():
    yield from spectrogram_cases()
    yield from mfcc_cases()
