"""Runs the command lines of README.md: readme.py BINARY README.md

What would train is planned instead (run) or simulated (sweep). Lines on files that a reader brings along must get as far as
missing them, so that their flags are held to what there is.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


def command_lines(text):
    for block in text.split("```")[1::2]:
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"(\S*/)?millrace\s", line):
                yield shlex.split(line, comments=True)[1:]


def without_training(words):
    planned = [word for word in words[1:] if not word.startswith(("--steps=", "--variables_out="))]
    if words[0] == "run":
        return ["plan", *planned]
    return ["sweep", *planned, "--device=null"] if words[0] == "sweep" else words


def missing_files(words, folder):
    given = (word.partition("=")[2] for word in words if word.startswith(("--graph=", "--onnx=", "--feeds=")))
    return [name for name in given if not (folder / name).exists()]


def main(binary, readme):
    commands = [without_training(words) for words in command_lines(pathlib.Path(readme).read_text())]
    seen = {words[0] for words in commands}
    if not {"model", "plan", "explain", "fit", "sweep", "machine"} <= seen:
        raise SystemExit(f"{readme}: command lines of {sorted(seen)} only")
    with tempfile.TemporaryDirectory() as folder:
        for words in commands:
            missing = missing_files(words, pathlib.Path(folder))
            done = subprocess.run([binary, *words], capture_output=True, text=True, check=False, cwd=folder)
            if missing:
                fine = done.returncode == 2 and "No such file" in done.stderr and any(name in done.stderr for name in missing)
            else:
                fine = done.returncode == 0
            if not fine or "has no effect" in done.stderr:
                raise SystemExit(f"millrace {shlex.join(words)}\nexit status {done.returncode}: {done.stderr.strip()[-1000:]}")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2])
