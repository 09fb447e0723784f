"""Files of images and of sound. Outputs that are strings have no memory: tests/session (media_codes_test.cc)."""
import base64
import struct

import numpy as np
import tensorflow as tf

from case_builder import Case

# Written by Pillow: frames of parts of the picture, with colors that can be seen through, palettes, bits, inks.
GIF_ONE = base64.b64decode(
    "R0lGODdhBQAEAIEAAABatCV/2Uqk/m/JIywAAAAABQAEAAAIDwABBBAwQCBBgwUHJiQYEAA7")

GIF_PARTS = base64.b64decode(
    "R0lGODlhBQAEAIEAAABatCV/2Uqk/m/JIyH/C05FVFNDQVBFMi4wAwEAAAAh+QQEAAAAACwAAAAABQAEAAAIEAABBBAwQCBBgwAMFhw4ICAAIfkEBQAABAAsAQABAAMAAgCBAFq0JX/Z"
    "SqT+b8kjCAgACRAIEEBgQAAh+QQFAAAEACwBAAEAAwACAIEAWrQlf9lKpP5vySMICAAJEAAgQGBAADs=")

GIF_CLEAR = base64.b64decode(
    "R0lGODlhBQAEAIEAAABatCV/2Uqk/m/JIyH5BAkAAAEALAAAAAAFAAQAAAgQAAEEEDBAIEGDAAwWHDggIAAh+QQJAAABACwAAAAABQAEAIEAWrQlf9lKpP5vySMIEQABBBAwQCDBAAMD"
    "GCw4cEBAACH5BAkAAAEALAAAAAAFAAQAgQBatCV/2Uqk/m/JIwgQAAEEEDBAIEGDAgwWHDggIAA7")

PNG_PALETTE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAEAgMAAAA7XR3TAAAADFBMVEUAWrQlf9lKpP5vySMdoXuTAAAAA3RSTlP//wDXyg1BAAAAFElEQVR4nGNQYmAJPckk6MB49zEADc4DWesNFnMA"
    "AAAASUVORK5CYII=")

PNG_BITS = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAkAAAACAQAAAACiLct+AAAADklEQVR4nGPcdI7BlwEAB1gBz2ny21AAAAAASUVORK5CYII=")

PNG_CLEAR_GREY = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAAAAAC4HznGAAAAAnRSTlMAPFn8sb8AAAAQSURBVHicY2SwsWHi5OQEAALiAJcSTMWxAAAAAElFTkSuQmCC")

JPEG_INKS = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AAFAgACAAJBEMRAE0RAFkR"
    "AEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYn"
    "KCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq"
    "8fLz9PX29/j5+v/aAA4EQwBNAFkASwAAPwDo/FP8dbH/AAl3/TT9a9Hnm8vPNdzqTda4ij/hLv8App+tVft/vWNur//Z")

# Written by libwebp, of pixels().
WEBP_LOSSY = base64.b64decode(
    "UklGRqwAAABXRUJQVlA4IKAAAABQAwCdASoNAAkAAkA4JbACdDKZv1V+CA5gHc9ZgHRwG/z4gADif1J0sI7V9ms7/0W9XvsPfMrIuXNVctcR+P/AjWdXaO3wYNrvr2Jie4LaNwdvGcV7"
    "NMMADmP4zRlFM/wzVgh+qRwwH/1P9LAEnbt7oe1+pMAEUTKfybke78//ob5kMxbFus6vmq2Bg3tyfh7pklf+MkLdCL35//cAAAAA")

WEBP_LOSSY_CLEAR = base64.b64decode(
    "UklGRhIBAABXRUJQVlA4WAoAAAAQAAAADAAACAAAQUxQSFwAAAAFZ6AWAALmahFEmD9FDhGRRfAD0wAAmrjnF1j3OAH7Nm+tJiEaiUYgWcUPvDSi/+F7AKRAifMsyzO1hLCAUK+6tet6"
    "fdj27dyMA2GEkXVRQgm17pdxxu3nE98vXFZQOCCQAAAAEAMAnQEqDQAJAALATCWwAnR/A9hAlPHiCeAHZwVXgFIAAM4+tWMrS63DG/1K3O/gEu1LMvvkF+cv3qU7eyy8TQi7kKV5V64m"
    "s1KDLtHsGn++psGXxbNRcscGaAC6+t/gli5EYP0Wm50LG9B1LrmrkX/ghu6DFkwf2n1H7+lvF+utfuFUp3uX2X1FCvfyAAAA")

WEBP_LOSSLESS = base64.b64decode(
    "UklGRmwAAABXRUJQVlA4TF8AAAAvBgABAM0oBBAABU1E/+NNRPQ/wCiSJEWxTALmuS/2sErOfwQzgxBFbdtA3sUf1GD1Q6RtUzJZ9y/qJKL8HA6HkyPnwMUPwuQGBLBycV0IjgUYfOXi"
    "B1EE1AysXPxeCQA=")

WEBP_LOSSLESS_CLEAR = base64.b64decode(
    "UklGRoYAAABXRUJQVlA4THkAAAAvBgABEM2UIaL/sYmI/gfYRJItVVPU/8p+9Az8CzwgAAEUito2kjx77/JntLD6UdM2kuQmsJY/o3sbppEkq1LzMAC27D+D/iH/8OL580/KZE7KVJmU"
    "O78EDgCiZQG+F4FDpI8PMCFMkLGAkc//Qlh6A0f0LN4XwuAEAA==")


def pixels(height, width, channels, dtype=np.uint8):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    return ((x * 37 + y * 23 + c * 61 + x * y * 5) % 251 * (257 if dtype == np.uint16 else 1)).astype(dtype)


def jpeg(height, width, channels, **options):
    return tf.io.encode_jpeg(pixels(height, width, channels), **options).numpy()


def png(height, width, channels, dtype=np.uint8):
    return tf.io.encode_png(pixels(height, width, channels, dtype)).numpy()


def bmp(height, width, channels, top_down=False):
    row = (channels * width + 3) // 4 * 4
    rows = b"".join(bytes(pixels(1, width, channels)[0].ravel() // (y + 1)).ljust(row, b"\0") for y in range(height))
    header = b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54)
    return header + struct.pack("<IiiHHIIiiII", 40, width, -height if top_down else height, 1, 8 * channels, 0, 0, 0, 0, 0, 0) + rows


def wav(samples, channels, before=b"", after=b"", **changes):
    fields = {"size": 16, "coding": 1, "channels": channels, "rate": 8000, "bits": 16} | changes
    frame = channels * 2
    data = struct.pack(f"<{samples * channels}h", *[(i * 7919) % 65536 - 32768 for i in range(samples * channels)])
    form = struct.pack("<IHHIIHH", fields["size"], fields["coding"], fields["channels"], fields["rate"], fields["rate"] * frame, frame, fields["bits"])
    body = b"WAVE" + before + b"fmt " + form + b"\0" * (fields["size"] - 16) + b"data" + struct.pack("<I", len(data)) + data + after
    return b"RIFF" + struct.pack("<I", len(body)) + body


# Frames are (file, x, y, height, width, flags): 1 clears the frame when it is over, 2 does not mix it with the ones before.
def webp_animation(height, width, frames, flags=0x12):
    def chunk(name, data):
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def three(value):
        return struct.pack("<I", value)[:3]

    body = chunk(b"VP8X", bytes([flags, 0, 0, 0]) + three(width - 1) + three(height - 1)) + chunk(b"ANIM", struct.pack("<IH", 0x80402010, 0))
    for file, x, y, rows, columns, how in frames:
        body += chunk(b"ANMF", three(x // 2) + three(y // 2) + three(columns - 1) + three(rows - 1) + three(40) + bytes([how]) + file[12:])
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def text(value):
    return np.array(value, object)


def jpeg_cases():
    color, grey = jpeg(19, 27, 3), jpeg(11, 8, 1)
    yield Case("DecodeJpeg", "DecodeJpeg", [text(color)])
    yield Case("DecodeJpeg_grey", "DecodeJpeg", [text(grey)])
    yield Case("DecodeJpeg_one", "DecodeJpeg", [text(jpeg(1, 1, 3))])
    yield Case("DecodeJpeg_to_grey", "DecodeJpeg", [text(color)], {"channels": 1})
    yield Case("DecodeJpeg_to_color", "DecodeJpeg", [text(grey)], {"channels": 3})
    yield Case("DecodeJpeg_progressive", "DecodeJpeg", [text(jpeg(19, 27, 3, progressive=True, quality=40))])
    yield Case("DecodeJpeg_full_chroma", "DecodeJpeg", [text(jpeg(19, 27, 3, chroma_downsampling=False))])
    for ratio in (2, 4, 8):
        yield Case(f"DecodeJpeg_ratio{ratio}", "DecodeJpeg", [text(color)], {"ratio": ratio})
    yield Case("DecodeJpeg_plain_upscaling", "DecodeJpeg", [text(color)], {"fancy_upscaling": False})
    yield Case("DecodeJpeg_accurate", "DecodeJpeg", [text(color)], {"dct_method": b"INTEGER_ACCURATE"})
    yield Case("DecodeJpeg_inks", "DecodeJpeg", [text(JPEG_INKS)])
    yield Case("DecodeJpeg_inks_grey", "DecodeJpeg", [text(JPEG_INKS)], {"channels": 1}, error="Invalid JPEG data or crop window")
    yield Case("DecodeJpeg_recovered", "DecodeJpeg", [text(color[:-150])], {"try_recover_truncated": True})
    yield Case("DecodeJpeg_of_png", "DecodeJpeg", [text(png(3, 4, 3))])
    yield Case("DecodeJpeg_of_gif", "DecodeJpeg", [text(GIF_ONE)])
    yield Case("DecodeJpeg_cut", "DecodeJpeg", [text(color[:-150])], error="Invalid JPEG data or crop window")
    yield Case("DecodeJpeg_header", "DecodeJpeg", [text(color[:40])], error="Invalid JPEG data or crop window")
    yield Case("DecodeJpeg_no_file", "DecodeJpeg", [text(b"abc")], error="Unknown image file format")
    yield Case("DecodeJpeg_empty", "DecodeJpeg", [text(b"")], error="Input is empty.")
    yield Case("DecodeJpeg_vector", "DecodeJpeg", [text([color])], error="rank")
    yield Case("DecodeJpeg_four", "DecodeJpeg", [text(color)], {"channels": 4}, error="JPEG does not support 4 channels")
    yield Case("DecodeJpeg_two", "DecodeJpeg", [text(color)], {"channels": 2}, error="`channels` must be 0, 1, 3 or 4 but got 2")
    yield Case("DecodeJpeg_ratio3", "DecodeJpeg", [text(color)], {"ratio": 3}, error="ratio must be 1, 2, 4, or 8, got 3")
    yield Case("DecodeJpeg_of_bmp", "DecodeJpeg", [text(bmp(2, 3, 3))], error="Trying to decode BMP format using a wrong op")
    yield Case("DecodeJpeg_of_frames", "DecodeJpeg", [text(GIF_PARTS)], error="Got 3 frames")
    for name, window in (("inside", [3, 5, 9, 13]), ("whole", [0, 0, 19, 27]), ("corner", [18, 26, 1, 1]), ("wide", [16, 0, 3, 20])):
        yield Case(f"DecodeAndCropJpeg_{name}", "DecodeAndCropJpeg", [text(color), np.array(window, np.int32)])
    yield Case("DecodeAndCropJpeg_inks", "DecodeAndCropJpeg", [text(JPEG_INKS), np.array([1, 2, 5, 6], np.int32)])
    yield Case("DecodeAndCropJpeg_ratio", "DecodeAndCropJpeg", [text(color), np.array([1, 2, 5, 6], np.int32)], {"ratio": 2, "channels": 1})
    for name, window in (("outside", [0, 0, 20, 1]), ("none", [0, 0, 0, 1]), ("before", [-1, 0, 2, 2])):
        yield Case(f"DecodeAndCropJpeg_{name}", "DecodeAndCropJpeg", [text(color), np.array(window, np.int32)], error="Invalid JPEG data or crop window")
    yield Case("DecodeAndCropJpeg_three", "DecodeAndCropJpeg", [text(color), np.array([0, 0, 2], np.int32)], error="must be 4")
    yield Case("DecodeAndCropJpeg_of_png", "DecodeAndCropJpeg", [text(png(3, 4, 3)), np.array([0, 0, 1, 1], np.int32)], error="can run on JPEG only")
    for t in (np.int32, np.int64):
        yield Case(f"ExtractJpegShape_{np.dtype(t).name}", "ExtractJpegShape", [text(color)], {"output_type": t})
    yield Case("ExtractJpegShape_grey", "ExtractJpegShape", [text(grey)])
    yield Case("ExtractJpegShape_no_file", "ExtractJpegShape", [text(b"abc")], error="Invalid JPEG data")


def png_cases():
    for channels in (1, 2, 3, 4):
        for t in (np.uint8, np.uint16):
            file = png(5, 7, channels, t)
            yield Case(f"DecodePng_{channels}_{np.dtype(t).name}", "DecodePng", [text(file)], {"dtype": t})
            other = np.uint16 if t == np.uint8 else np.uint8
            yield Case(f"DecodePng_{channels}_{np.dtype(t).name}_as_{np.dtype(other).name}", "DecodePng", [text(file)], {"dtype": other})
        for wanted in (1, 3, 4):
            yield Case(f"DecodePng_{channels}_to_{wanted}", "DecodePng", [text(png(5, 7, channels))], {"channels": wanted})
    for name, file in (("palette", PNG_PALETTE), ("bits", PNG_BITS), ("clear_grey", PNG_CLEAR_GREY)):
        for wanted in (0, 1, 3, 4):
            yield Case(f"DecodePng_{name}_{wanted}", "DecodePng", [text(file)], {"channels": wanted})
    yield Case("DecodePng_of_jpeg", "DecodePng", [text(jpeg(5, 6, 3))], {"dtype": np.uint16})
    yield Case("DecodePng_of_gif", "DecodePng", [text(GIF_ONE)])
    yield Case("DecodePng_cut", "DecodePng", [text(png(5, 7, 3)[:-30])], error="Invalid PNG data")
    yield Case("DecodePng_header", "DecodePng", [text(png(5, 7, 3)[:20])], error="Invalid PNG. Failed to initialize decoder.")


def other_image_cases():
    for name, file in (("one", GIF_ONE), ("parts", GIF_PARTS), ("clear", GIF_CLEAR), ("of_png", png(3, 4, 3)), ("of_jpeg", jpeg(3, 4, 3))):
        yield Case(f"DecodeGif_{name}", "DecodeGif", [text(file)])
    yield Case("DecodeGif_cut", "DecodeGif", [text(GIF_PARTS[:-12])])
    large = GIF_ONE[:6] + struct.pack("<HH", 9000, 9000) + GIF_ONE[10:30] + struct.pack("<HH", 9000, 9000) + GIF_ONE[34:40]
    yield Case("DecodeGif_of_much_more", "DecodeGif", [text(large)], error="Invalid GIF data")
    yield Case("DecodeGif_header", "DecodeGif", [text(GIF_PARTS[:20])], error="Invalid GIF data (size 20)")
    for channels in (3, 4):
        for wanted in (0, 3, 4):
            yield Case(f"DecodeBmp_{channels}_to_{wanted}", "DecodeBmp", [text(bmp(3, 5, channels))], {"channels": wanted})
    yield Case("DecodeBmp_grey", "DecodeBmp", [text(bmp(3, 5, 1))])
    yield Case("DecodeBmp_grey_to_3", "DecodeBmp", [text(bmp(3, 5, 1))], {"channels": 3})
    yield Case("DecodeBmp_top_down", "DecodeBmp", [text(bmp(3, 5, 3, top_down=True))])
    yield Case("DecodeBmp_short", "DecodeBmp", [text(bmp(3, 5, 3)[:31])], error="Incomplete bmp content")
    yield Case("DecodeBmp_cut", "DecodeBmp", [text(bmp(3, 5, 3)[:-1])], error="Input size should match (header_size + row_size * abs_height) but they differ by -1")
    yield Case("DecodeBmp_one", "DecodeBmp", [text(bmp(3, 5, 3))], {"channels": 1}, error="`channels` must be 0, 3 or 4 for BMP, but got 1")
    yield Case("DecodeBmp_of_png", "DecodeBmp", [text(png(3, 4, 3))], error="Trying to decode PNG format using DecodeBmp op.")
    files = {"jpeg": jpeg(6, 5, 3), "png": png(6, 5, 3), "png16": png(6, 5, 3, np.uint16), "bmp": bmp(6, 5, 3), "gif": GIF_PARTS}
    for name, file in files.items():
        for t in (np.uint8, np.uint16, np.float32):
            yield Case(f"DecodeImage_{name}_{np.dtype(t).name}", "DecodeImage", [text(file)], {"dtype": t})
    yield Case("DecodeImage_first_frame", "DecodeImage", [text(GIF_PARTS)], {"expand_animations": False})
    yield Case("DecodeImage_no_frames", "DecodeImage", [text(jpeg(6, 5, 1))], {"expand_animations": False, "channels": 3})
    yield Case("DecodeImage_gif_4", "DecodeImage", [text(GIF_ONE)], {"channels": 4}, error="channels must be 0 or 3 for GIF, got 4")


def webp_cases():
    parts = webp_animation(10, 14, [(WEBP_LOSSY, 0, 0, 9, 13, 0), (WEBP_LOSSLESS_CLEAR, 4, 2, 5, 7, 0), (WEBP_LOSSLESS, 2, 4, 5, 7, 1),
                                    (WEBP_LOSSLESS_CLEAR, 6, 0, 5, 7, 2)])
    files = {"lossy": WEBP_LOSSY, "lossy_clear": WEBP_LOSSY_CLEAR, "lossless": WEBP_LOSSLESS, "lossless_clear": WEBP_LOSSLESS_CLEAR, "parts": parts}
    for name, file in files.items():
        yield Case(f"DecodeWebP_{name}", "DecodeWebP", [text(file)])
        yield Case(f"DecodeImage_webp_{name}", "DecodeImage", [text(file)])
        yield Case(f"DecodeImage_webp_{name}_one", "DecodeImage", [text(file)], {"expand_animations": False})
    yield Case("DecodeWebP_three", "DecodeWebP", [text(WEBP_LOSSY)], {"channels": 3})
    yield Case("DecodeWebP_four", "DecodeWebP", [text(parts)], {"channels": 4})
    yield Case("DecodeWebP_of_png", "DecodeWebP", [text(png(3, 4, 3))])
    yield Case("DecodeWebP_of_jpeg", "DecodeWebP", [text(jpeg(3, 4, 3))])
    yield Case("DecodeWebP_of_gif", "DecodeWebP", [text(GIF_ONE)], error="Bad op type DecodeWebP")
    yield Case("DecodeWebP_of_bmp", "DecodeWebP", [text(bmp(2, 3, 3))], error="Trying to decode BMP format using a wrong op")
    for op in ("DecodeJpeg", "DecodePng", "DecodeBmp"):
        yield Case(f"{op}_of_webp", op, [text(WEBP_LOSSLESS)])
    yield Case("DecodeGif_of_webp", "DecodeGif", [text(WEBP_LOSSLESS)])
    yield Case("DecodeAndCropJpeg_of_webp", "DecodeAndCropJpeg", [text(WEBP_LOSSLESS), np.array([0, 0, 1, 1], np.int32)])
    yield Case("DecodeWebP_one", "DecodeWebP", [text(WEBP_LOSSY)], {"channels": 1}, error="WebP only supports 3 or 4 channels")
    yield Case("DecodeWebP_other", "DecodeWebP", [text(WEBP_LOSSY)], {"channels": 4}, error="Number of channels requested does not match input")
    yield Case("DecodeWebP_parts_other", "DecodeWebP", [text(parts)], {"channels": 3}, error="")
    yield Case("DecodeWebP_cut", "DecodeWebP", [text(WEBP_LOSSY[:-60])], error="Failed to decode WebP image.")
    large = WEBP_LOSSY[:26] + struct.pack("<HH", 16383, 16383) + WEBP_LOSSY[30:80]
    yield Case("DecodeWebP_large_cut", "DecodeWebP", [text(large)], error="Failed to decode WebP image.")
    yield Case("DecodeWebP_parts_cut", "DecodeWebP", [text(parts[:-80])], error="Failed to decode WebP")
    yield Case("DecodeWebP_header", "DecodeWebP", [text(WEBP_LOSSY[:16])], error="Failed to decode WebP header.")
    yield Case("DecodeWebP_no_file", "DecodeWebP", [text(b"abc")], error="Unknown image file format")
    yield Case("DecodeWebP_vector", "DecodeWebP", [text([WEBP_LOSSY])], error="rank")
    yield Case("DecodeImage_webp_float", "DecodeImage", [text(WEBP_LOSSY)], {"dtype": np.float32}, error="WebP only supports uint8 for dtype")


def sound_cases():
    yield Case("DecodeWav", "DecodeWav", [text(wav(5, 2))])
    yield Case("DecodeWav_one_channel", "DecodeWav", [text(wav(5, 1))])
    for channels, samples in ((1, -1), (3, -1), (-1, 3), (-1, 9), (4, 7), (0, -1), (-1, 0)):
        yield Case(f"DecodeWav_{channels}_{samples}".replace("-", "m"), "DecodeWav", [text(wav(5, 2))],
                   {"desired_channels": channels, "desired_samples": samples})
    yield Case("DecodeWav_long_format", "DecodeWav", [text(wav(4, 1, size=18))])
    yield Case("DecodeWav_chunks", "DecodeWav", [text(wav(4, 1, before=b"JUNK" + struct.pack("<I", 3) + b"abc", after=b"LIST" + struct.pack("<I", 2) + b"xy"))])
    yield Case("DecodeWav_no_file", "DecodeWav", [text(b"RIFX1234WAVE")], error="Header mismatch: Expected RIFF but found RIFX")
    yield Case("DecodeWav_cut", "DecodeWav", [text(wav(4, 1)[:-1])], error="Data too short when trying to read string")
    yield Case("DecodeWav_bits", "DecodeWav", [text(wav(4, 1, bits=8))], error="Can only read 16-bit WAV files, but received 8")
    yield Case("DecodeWav_coding", "DecodeWav", [text(wav(4, 1, coding=3))], error="Bad audio format for WAV: Expected 1 (PCM), but got3")
    yield Case("DecodeWav_field", "DecodeWav", [text(wav(4, 1, before=b"abcd" + struct.pack("<I", 0)))], error="Unexpected field abcd")
    yield Case("DecodeWav_twice", "DecodeWav", [text(wav(2, 1, after=b"data" + struct.pack("<I", 2) + b"xy"))], error="More than one data chunk found in WAV")
    yield Case("DecodeWav_no_data", "DecodeWav", [text(wav(2, 1).split(b"data")[0])], error="No data chunk found in WAV")
    yield Case("DecodeWav_vector", "DecodeWav", [text([wav(2, 1)])], error="rank")
    yield Case("DecodeWav_few", "DecodeWav", [text(wav(2, 1))], {"desired_channels": -2}, error="channels must be")


def cases():
    yield from jpeg_cases()
    yield from png_cases()
    yield from other_image_cases()
    yield from webp_cases()
    yield from sound_cases()
