"""What bench/gpu_check.sh ran on, as JSON: device, driver, CUDA, cuDNN, commit, machine, date. What is not known is null.

Usage: gpu_about.py OUT_FOLDER [emulated]   (writes about.json there; the cuDNN that the program said it opened is in opens.log)
"""
import ctypes
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def found(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1).strip() if match else None


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def asked_of_driver():
    """(name of the first device, CUDA version of the driver) by the driver itself."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    name, version, device = ctypes.create_string_buffer(256), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None, None
    cuda.cuDeviceGetName(name, 256, device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return name.value.decode(errors="replace"), f"{version.value // 1000}.{version.value % 1000 // 10}"


def dnn_version(folder):
    """As the program said when it opened the device, else of the library that the loader finds."""
    said = found(r"to cuDNN (\d+) it is", read(folder / "opens.log"))
    if said:
        return said
    try:
        return str(ctypes.CDLL("libcudnn.so.9").cudnnGetVersion())
    except (OSError, AttributeError):
        return None


def commit():
    name = output_of("git", "rev-parse", "--short=12", "HEAD")
    changed = " and changes" if name and output_of("git", "status", "--porcelain", "--untracked-files=no") else ""
    return os.environ.get("MILLRACE_GPU_COMMIT") or (name + changed if name else None)


def machine():
    processor = found(r"^model name\s*:\s*(.*)$", read("/proc/cpuinfo")) or platform.machine()
    kib = found(r"^MemTotal:\s*(\d+) kB", read("/proc/meminfo"))
    system = found(r'^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release")) or platform.system()
    return f"{os.cpu_count()} cores of {processor}, {int(kib or 0) / 2**20:.0f} GiB, {system}"


def about(folder, emulated):
    device, supported = asked_of_driver()
    toolkit = found(r"release ([\d.]+)", output_of("nvcc", "--version"))
    driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()[:1]
    return {"device": device or ("emulated" if emulated else None),
            "driver": driver[0] if driver else found(r"Kernel Module\s+([\d.]+)", read("/proc/driver/nvidia/version")),
            "CUDA": f"toolkit {toolkit or 'not known'}, driver {supported or 'not known'}" if toolkit or supported else None,
            "cuDNN": dnn_version(folder), "commit": commit(), "machine": machine(),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}


if __name__ == "__main__":
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        sys.exit(0)
    if len(sys.argv) < 2 or not pathlib.Path(sys.argv[1]).is_dir() or sys.argv[2:] not in ([], ["emulated"]):
        print("usage: gpu_about.py OUT_FOLDER [emulated]", file=sys.stderr)
        sys.exit(2)
    out = pathlib.Path(sys.argv[1])
    (out / "about.json").write_text(json.dumps(about(out, "emulated" in sys.argv[2:]), indent=1) + "\n")
