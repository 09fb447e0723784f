"""Kernels read their arguments where the launch put them: none copies them into memory of each thread, which costs more than short rows do.

Usage: kernel_frames_test.py NVCC INCLUDE_FOLDERS SOURCE ... (folders apart by ','); compiles for sm_90 and reads what ptxas says of frames.
"""
import re
import subprocess
import sys
import tempfile

# Math functions of a slow path and spilled registers take less; a copy of what any kernel is given takes more.
MOST_BYTES = 96


def frames(nvcc, folders, source):
    """{kernel: bytes of a thread's frame}."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        command = [nvcc, *(f"-I{folder}" for folder in folders), "-O3", "--generate-code=arch=compute_90,code=[sm_90]", "--fmad=false",
                   "-std=c++20", "-cubin", "-Xptxas", "-v", "-o", out.name, source]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{source} was not compiled:\n{done.stderr[-2000:]}")
    return {name: int(size) for name, size in re.findall(r"Function properties for (\S+)\s+(\d+) bytes stack frame", done.stderr)}


def main():
    nvcc, folders, sources = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    failed = False
    for source in sources:
        found = frames(nvcc, folders, source)
        large = {name: size for name, size in found.items() if size > MOST_BYTES}
        print(f"{source}: {len(found)} kernels, {len(large)} with frames of more than {MOST_BYTES} bytes")
        for name, size in large.items():
            print(f"  {size} bytes: {name}")
        failed = failed or bool(large) or not found
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
