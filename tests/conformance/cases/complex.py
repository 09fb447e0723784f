"""Complex numbers: parts, elementwise ops, sums, products, Fourier transforms."""
import numpy as np

from case_builder import Case, Gen, L, bfloat16

C64, C128 = np.complex64, np.complex128


def numbers(shape, dtype=C64, seed=1):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def reals(shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def parts():
    for name, real, whole in (("64", np.float32, C64), ("128", np.float64, C128)):
        yield Case(f"Complex_{name}", "Complex", [reals((2, 3), real), reals((3,), real, 2)], {"Tout": whole})
        x = np.append(numbers(6, whole), np.array([0, -1, 1j, -2j], whole))
        for op in ("Real", "Imag", "ComplexAbs", "Angle"):
            yield Case(f"{op}_{name}", op, [x], {"Tout": real}, rtol=1e-6, atol=1e-6)
        yield Case(f"Conj_{name}", "Conj", [numbers((2, 3), whole)])
    yield Case("Real_empty", "Real", [np.zeros((0, 3), C64)])
    yield Case("Complex_scalar", "Complex", [np.float32(1), np.float32(-2)])


def elementwise():
    for name, dtype, tol in (("64", C64, 2e-6), ("128", C128, 1e-12)):
        x, y = numbers((3, 4), dtype), numbers((3, 4), dtype, 2)
        for op in ("Neg", "Square", "Reciprocal", "Inv", "Sqrt", "Rsqrt", "Exp", "Log", "Sin", "Cos", "Tanh", "Sigmoid",
                   "Sign", "OnesLike", "ZerosLike"):
            yield Case(f"{op}_{name}", op, [x], rtol=tol, atol=tol)
        # TensorFlow's loses digits near 0; of -1 it makes an imaginary NaN.
        yield Case(f"Log1p_{name}", "Log1p", [x + dtype(3)], rtol=10 * tol, atol=10 * tol)
        for op in ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan", "SquaredDifference", "Pow"):
            yield Case(f"{op}_{name}", op, [x, y], rtol=5 * tol, atol=tol)
        for op in ("ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad"):
            yield Case(f"{op}_{name}", op, [x, y], rtol=5 * tol, atol=5 * tol)
        for op in ("Equal", "NotEqual"):
            yield Case(f"{op}_{name}", op, [np.array([1, 1j, 2 + 1j], dtype), np.array([1, -1j, 2 + 1j], dtype)])
        yield Case(f"AddN_{name}", "AddN", [L([x, y, x])], rtol=tol, atol=tol)
        y = np.array([0, complex(-0.0, -0.0), complex(np.inf, 0), complex(np.nan, np.nan), complex(np.nan, 1), 2, 1e20, complex(np.inf, np.nan)], dtype)
        for op in ("ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad"):
            yield Case(f"{op}_of_zero_{name}", op, [y, np.array([0, complex(-0.0, -0.0)] * 4, dtype)])
    yield Case("Sign_zero", "Sign", [np.array([0, 3 + 4j], C64)], rtol=1e-6)
    yield Case("Mul_broadcast", "Mul", [numbers((4, 1, 3)), numbers((2, 1), seed=3)], rtol=2e-6, atol=2e-6)
    yield Case("Mul_scalar", "Mul", [numbers((2, 5)), C64(2j)], rtol=2e-6, atol=2e-6)
    yield Case("Mul_large", "Mul", [numbers((20, 1)), numbers((1000,), seed=3)], rtol=2e-6, atol=2e-6)
    yield Case("Mul_empty", "Mul", [numbers((0, 5)), C64(2j)])


def casts():
    x = np.array([1.5, -2.25, 0, 100], np.float64)
    for kind in (np.float32, np.float64, np.int32, np.int64):
        yield Case(f"Cast_{np.dtype(kind).name}", "Cast", [x.astype(kind)], {"DstT": C64})
        yield Case(f"Cast_to_{np.dtype(kind).name}", "Cast", [numbers(5) * C64(4)], {"DstT": kind})
    yield Case("Cast_bool", "Cast", [np.array([True, False])], {"DstT": C128})
    yield Case("Cast_half", "Cast", [x.astype(np.float16)], {"DstT": C64})
    yield Case("Cast_wider", "Cast", [numbers((2, 2))], {"DstT": C128})
    yield Case("Cast_narrower", "Cast", [numbers((2, 2), C128)], {"DstT": C64})
    fine = np.array([1.0039 - 1.999j, 65519.9 + 2j, 0.1 + 0.3j, complex(np.nan, np.inf), -70000 + 1j])
    for source in (C64, C128):
        for target in (C64, C128, np.float32, np.float64, np.float16, bfloat16):
            yield Case(f"Cast_truncate_{np.dtype(source).name}_{np.dtype(target).name}", "Cast", [fine.astype(source)],
                       {"DstT": target, "Truncate": True})
    # Of double to complex64 TensorFlow clears bits of the exponent.
    yield Case("Cast_truncate_float64_complex128", "Cast", [fine.real], {"DstT": C128, "Truncate": True})
    yield Case("Cast_large", "Cast", [reals((1300,))], {"DstT": C64})


def sums():
    for name, dtype, tol in (("64", C64, 5e-6), ("128", C128, 1e-12)):
        x = numbers((3, 4, 5), dtype)
        for op in ("Sum", "Mean", "Prod"):
            for axes in ([], [0], [1], [-1, 0], [0, 1, 2]):
                where = "_".join(str(a).replace("-", "m") for a in axes) or "none"
                yield Case(f"{op}_{name}_{where}", op, [x, np.array(axes, np.int32)], rtol=tol, atol=tol)
        yield Case(f"Sum_keep_{name}", "Sum", [x, np.array([1], np.int32)], {"keep_dims": True}, rtol=tol, atol=tol)
        for a in (False, True):
            for b in (False, True):
                left = numbers((3, 2) if a else (2, 3), dtype)
                right = numbers((4, 3) if b else (3, 4), dtype, 2)
                yield Case(f"MatMul_{name}_{a}_{b}", "MatMul", [left, right], {"transpose_a": a, "transpose_b": b}, rtol=tol, atol=tol)
                yield Case(f"BatchMatMul_{name}_{a}_{b}", "BatchMatMulV2",
                           [np.stack([left, right.T.reshape(-1)[:left.size].reshape(left.shape)]), right[None]],
                           {"adj_x": a, "adj_y": b}, rtol=tol, atol=tol)
        for i, (equation, *shapes) in enumerate((("bixy,ioxy->boxy", (2, 3, 4, 2), (3, 5, 4, 2)), ("ij,jk->ki", (3, 4), (4, 2)), ("ij,ij->", (3, 4), (3, 4)),
                                                 ("ij,ij->ij", (3, 4), (3, 4)), ("aecd,abcd->acbe", (2, 7, 3, 4), (2, 5, 3, 4)), ("ii->i", (3, 3)), ("ijk->k", (2, 3, 4)))):
            yield Case(f"Einsum_{name}_{i}", "Einsum", [L([numbers(s, dtype, 1 + k) for k, s in enumerate(shapes)])], {"equation": equation}, rtol=tol, atol=tol)
        for op in ("Cumsum", "Cumprod"):
            for exclusive, reverse in ((False, False), (True, True)):
                yield Case(f"{op}_{name}_{exclusive}_{reverse}", op, [x, np.int32(-2)],
                           {"exclusive": exclusive, "reverse": reverse}, rtol=tol, atol=tol)
        yield Case(f"UnsortedSegmentSum_{name}", "UnsortedSegmentSum",
                   [x, np.array([2, 0, 2], np.int32), np.int32(4)], rtol=tol, atol=tol)
        yield Case(f"Mean_empty_{name}", "Mean", [np.zeros((0, 3), dtype), np.array([0], np.int32)])
        yield Case(f"Mean_empty_all_{name}", "Mean", [np.zeros((2, 0), dtype), np.array([0, 1], np.int32)])
    yield Case("Sum_empty", "Sum", [np.zeros((0, 3), C64), np.array([0], np.int32)])
    # Around what registers hold of rows and columns, and what a strip holds of depth.
    for rows, depth, columns in ((1, 65, 16), (5, 64, 17), (7, 66, 3), (9, 5, 33), (3, 0, 2), (3, 2, 0)):
        left, right = numbers((rows, depth)), numbers((depth, columns), seed=2)
        yield Case(f"MatMul_{rows}_{depth}_{columns}", "MatMul", [left, right], rtol=2e-5, atol=2e-5)
        left, right = numbers((1, depth, rows), C128), numbers((2, columns, depth), C128, 2)
        yield Case(f"BatchMatMul_{rows}_{depth}_{columns}", "BatchMatMulV2", [left, right], {"adj_x": True, "adj_y": True}, rtol=1e-12, atol=1e-12)
    yield Case("BatchMatMul_broadcast", "BatchMatMulV2", [numbers((2, 1, 3, 4)), numbers((5, 4, 2), seed=2)], rtol=5e-6, atol=5e-6)


def moves():
    x = numbers((3, 4))
    yield Case("Transpose", "Transpose", [x, np.array([1, 0], np.int32)])
    yield Case("ConjugateTranspose", "ConjugateTranspose", [x, np.array([1, 0], np.int32)])
    yield Case("StridedSlice", "StridedSlice", [x, np.array([0, 1], np.int32), np.array([3, 4], np.int32), np.array([2, 1], np.int32)])
    yield Case("StridedSliceGrad", "StridedSliceGrad", [np.array([5], np.int32), np.array([1], np.int32), np.array([4], np.int32),
                                                       np.array([1], np.int32), numbers(3)])
    yield Case("ConcatV2", "ConcatV2", [L([x, x]), np.int32(0)])
    yield Case("Pad", "Pad", [x, np.array([[0, 1], [2, 0]], np.int32)])
    yield Case("Tile", "Tile", [x, np.array([1, 2], np.int32)])
    yield Case("Fill", "Fill", [np.array([2, 2], np.int32), C64(1 - 2j)])
    yield Case("GatherV2", "GatherV2", [x, np.array([2, 0], np.int32), np.int32(0)])
    yield Case("Select", "SelectV2", [np.array([True, False, True, False]), x, -x])
    yield Case("BroadcastTo", "BroadcastTo", [x[:1], np.array([2, 4], np.int32)])
    yield Case("Roll", "Roll", [x, np.array([1], np.int32), np.array([1], np.int32)])


def fourier():
    for name, dtype, tol in (("64", C64, 2e-5), ("128", C128, 1e-11)):
        for n in (1, 2, 3, 8, 12, 17, 30, 49, 97):
            x = numbers((2, n), dtype)
            yield Case(f"FFT_{name}_{n}", "FFT", [x], rtol=tol, atol=tol)
            yield Case(f"IFFT_{name}_{n}", "IFFT", [x], rtol=tol, atol=tol)
        # Large primes, alone and as factors; 67 is the first.
        for shape in ((1, 1009), (20, 67), (2, 8 * 67), (3, 2 * 127)):
            x = numbers(shape, dtype)
            yield Case(f"FFT_{name}_{shape[0]}x{shape[1]}", "FFT", [x], rtol=tol, atol=tol)
            yield Case(f"IFFT_{name}_{shape[0]}x{shape[1]}", "IFFT", [x], rtol=tol, atol=tol)
        yield Case(f"FFT2D_{name}_prime", "FFT2D", [numbers((2, 67, 5), dtype)], rtol=tol, atol=tol)
        for dims in (2, 3):
            x = numbers((2, 3, 4, 5), dtype)
            yield Case(f"FFT{dims}D_{name}", f"FFT{dims}D", [x], rtol=tol, atol=tol)
            yield Case(f"IFFT{dims}D_{name}", f"IFFT{dims}D", [x], rtol=tol, atol=tol)
    yield Case("FFT_vector", "FFT", [numbers(16)], rtol=2e-5, atol=2e-5)
    # More lines than a vector has lanes, lines long enough to be taken in parts, a long prime, lines across memory.
    yield Case("FFT_lines", "FFT", [numbers((20, 12))], rtol=2e-5, atol=2e-5)
    yield Case("IFFT2D_lines", "IFFT2D", [numbers((14, 18))], rtol=2e-5, atol=2e-5)
    for shape, name in (((2, 6000), "parts"), ((40, 96), "lines"), ((1, 10007), "prime"), ((1, 32749), "long_prime"),
                        ((1, 8 * 4099), "part_prime"), ((3, 999), "odd"), ((1, 20000), "long")):
        yield Case(f"RFFT_{name}", "RFFT", [Gen(shape), np.array(shape[-1:], np.int32)], rtol=5e-5, atol=2e-4)
    yield Case("RFFT_parts_double", "RFFT", [Gen((2, 9000), np.float64), np.array([9000], np.int32)], {"Tcomplex": C128}, rtol=1e-12, atol=1e-11)
    yield Case("IRFFT_parts", "IRFFT", [numbers((1, 65)), np.array([128], np.int32)], rtol=2e-5, atol=2e-5)
    yield Case("FFT_scalar", "FFT", [C64(1)], error="rank")
    for name, real, whole, tol in (("32", np.float32, C64, 2e-5), ("64", np.float64, C128, 1e-11)):
        for n in (1, 2, 7, 8, 15, 16, 101, 202):
            yield Case(f"RFFT_{name}_{n}", "RFFT", [reals((3, n), real), np.array([n], np.int32)],
                       {"Treal": real, "Tcomplex": whole}, rtol=tol, atol=tol)
            yield Case(f"IRFFT_{name}_{n}", "IRFFT", [numbers((3, n // 2 + 1), whole), np.array([n], np.int32)],
                       {"Treal": real, "Tcomplex": whole}, rtol=tol, atol=tol)
        yield Case(f"RFFT_cropped_{name}", "RFFT", [reals((2, 20), real), np.array([12], np.int32)],
                   {"Treal": real, "Tcomplex": whole}, rtol=tol, atol=tol)
        yield Case(f"IRFFT_cropped_{name}", "IRFFT", [numbers((2, 20), whole), np.array([12], np.int32)],
                   {"Treal": real, "Tcomplex": whole}, rtol=tol, atol=tol)
        for dims, lengths in ((2, (4, 6)), (2, (3, 5)), (3, (2, 3, 4)), (3, (2, 4, 5))):
            where = "x".join(map(str, lengths))
            yield Case(f"RFFT{dims}D_{name}_{where}", f"RFFT{dims}D", [reals((2,) + lengths, real), np.array(lengths, np.int32)],
                       {"Treal": real, "Tcomplex": whole}, rtol=tol, atol=tol)
            yield Case(f"IRFFT{dims}D_{name}_{where}", f"IRFFT{dims}D",
                       [numbers((2,) + lengths[:-1] + (lengths[-1] // 2 + 1,), whole), np.array(lengths, np.int32)],
                       {"Treal": real, "Tcomplex": whole}, rtol=tol, atol=tol)
    yield Case("RFFT2D_cropped", "RFFT2D", [reals((2, 6, 9)), np.array([4, 8], np.int32)], {"Treal": np.float32}, rtol=2e-5, atol=2e-5)
    yield Case("IRFFT2D_cropped", "IRFFT2D", [numbers((2, 6, 9)), np.array([4, 8], np.int32)], {"Treal": np.float32}, rtol=2e-5, atol=2e-5)
    yield Case("RFFT_short", "RFFT", [reals((2, 6)), np.array([8], np.int32)], {"Treal": np.float32}, error="must have length of at least 8 but got: 6")
    yield Case("RFFT2D_large", "RFFT2D", [Gen((4, 128, 100)), np.array([128, 100], np.int32)], {"Treal": np.float32}, rtol=1e-4, atol=1e-3)
    yield Case("RFFT_large", "RFFT", [Gen((100, 512)), np.array([512], np.int32)], {"Treal": np.float32}, rtol=1e-4, atol=1e-4)


# TensorFlow has kernels of these for GPUs alone, of the last dimensions alone.
def fourier_of_axes():
    def axes(*values):
        return np.array(values, np.int32)

    for name, real, whole, tol in (("32", np.float32, C64, 2e-5), ("64", np.float64, C128, 1e-11)):
        types = {"Treal": real, "Tcomplex": whole}
        for lengths, last in (((5,), (-1,)), ((4, 5), (2, 3)), ((3, 4, 5), (-3, -2, -1)), ((2, 3, 4, 6), (0, 1, 2, 3))):
            where = tuple(range(-len(last), 0))
            x = numbers((2, 3, 4, lengths[-1]), whole)
            for op, answer in (("FFTND", np.fft.fftn), ("IFFTND", np.fft.ifftn)):
                yield Case(f"{op}_{name}_{len(last)}", op, [x, axes(*lengths), axes(*last)], rtol=tol, atol=tol,
                           expected=[answer(x.astype(C128), axes=where).astype(whole)])
            y = reals((2, 3, 4, lengths[-1]), real)
            spectrum = np.fft.rfftn(y.astype(np.float64), axes=where).astype(whole)
            yield Case(f"RFFTND_{name}_{len(last)}", "RFFTND", [y, axes(*lengths), axes(*last)], types, rtol=tol, atol=tol, expected=[spectrum])
            yield Case(f"IRFFTND_{name}_{len(last)}", "IRFFTND", [spectrum, axes(*lengths), axes(*last)], types, rtol=tol, atol=tol, expected=[y])
    x, y = numbers((3, 4, 5)), reals((3, 6, 9))
    for lengths in ((2, 3), (6, 8), (3, 7), (0, 2)):
        answer = np.fft.fftn(x.astype(C128), lengths, axes=(1, 2)).astype(C64) if all(lengths) else np.zeros((3,) + lengths, C64)
        yield Case("FFTND_to_" + "x".join(map(str, lengths)), "FFTND", [x, axes(*lengths), axes(1, 2)], rtol=2e-5, atol=2e-5, expected=[answer])
    yield Case("FFTND_of_none", "FFTND", [np.zeros((2, 0), C64), axes(3), axes(1)], expected=[np.zeros((2, 3), C64)])
    deep, real_deep, last = numbers((1, 1, 2, 1, 1, 1, 2, 3)), reals((1, 1, 2, 1, 1, 1, 2, 3)), (-2, -1)
    spectrum = np.fft.rfftn(real_deep.astype(np.float64), axes=last).astype(C64)
    yield Case("FFTND_rank8", "FFTND", [deep, axes(2, 3), axes(6, 7)], rtol=2e-5, atol=2e-5, expected=[np.fft.fftn(deep.astype(C128), axes=last).astype(C64)])
    back = np.fft.ifftn(deep.astype(C128), axes=last).astype(C64)
    yield Case("IFFTND_rank8", "IFFTND", [deep, axes(2, 3), axes(6, 7)], rtol=2e-5, atol=2e-5, expected=[back])
    yield Case("RFFTND_rank8", "RFFTND", [real_deep, axes(2, 3), axes(6, 7)], rtol=2e-5, atol=2e-5, expected=[spectrum])
    yield Case("IRFFTND_rank8", "IRFFTND", [spectrum, axes(2, 3), axes(6, 7)], rtol=2e-5, atol=2e-5, expected=[real_deep])
    yield Case("IFFTND_empty", "IFFTND", [np.zeros((0, 4), C64), axes(4), axes(1)], expected=[np.zeros((0, 4), C64)])
    yield Case("RFFTND_empty", "RFFTND", [np.zeros((0, 4), np.float32), axes(4), axes(1)], expected=[np.zeros((0, 3), C64)])
    yield Case("IRFFTND_empty", "IRFFTND", [np.zeros((0, 3), C64), axes(4), axes(1)], expected=[np.zeros((0, 4), np.float32)])
    yield Case("RFFTND_cropped", "RFFTND", [y, axes(4, 8), axes(1, 2)], rtol=2e-5, atol=2e-5,
               expected=[np.fft.rfftn(y.astype(np.float64), (4, 8), axes=(1, 2)).astype(C64)])
    yield Case("IRFFTND_cropped", "IRFFTND", [x, axes(3, 6), axes(1, 2)], rtol=2e-5, atol=2e-5,
               expected=[np.fft.irfftn(x.astype(C128), (3, 6), axes=(1, 2)).astype(np.float32)])
    large = Gen((16, 60, 50))
    yield Case("RFFTND_large", "RFFTND", [large, axes(60, 50), axes(1, 2)], rtol=5e-5, atol=5e-4,
               expected=[np.fft.rfftn(large.numpy().astype(np.float64), axes=(1, 2)).astype(C64)])


def cases():
    for family in (parts, elementwise, casts, sums, moves, fourier, fourier_of_axes):
        yield from family()
