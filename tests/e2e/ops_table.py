#!/usr/bin/env python3
"""The table of supported ops in src/ops/README.md, the document's last section.

  ops_table.py check BINARY    fails when it is not what `BINARY inspect --ops` prints
  ops_table.py write BINARY    makes it so
"""
import pathlib
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "src" / "ops" / "README.md"
FIRST_LINE = "| op | outputs that may overwrite inputs"


def main(mode, binary):
    text = DOCUMENT.read_text()
    printed = subprocess.run([binary, "inspect", "--ops"], capture_output=True, text=True, check=True).stdout
    wanted = text[:text.index(FIRST_LINE)] + printed if FIRST_LINE in text else text + printed
    if mode == "write":
        DOCUMENT.write_text(wanted)
    elif text != wanted:
        rows = set(wanted.splitlines()) ^ set(text.splitlines())
        sys.exit("src/ops/README.md is not up to date; run: python3 tests/e2e/ops_table.py write BINARY\n"
                 + "\n".join(sorted(rows)[:20]))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
