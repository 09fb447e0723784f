"""Types of the benches' arguments, which refuse in a line what would end minutes later; and runs of the program that say why they failed."""
import argparse
import os
import shutil
import subprocess
import sys


def program(text):
    if shutil.which(text) is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no program")
    return text


def readable(text):
    if not os.path.isfile(text) or not os.access(text, os.R_OK):
        raise argparse.ArgumentTypeError(f"'{text}' is no file that can be read")
    return text


def written(text):
    """A file that can be written once there is something to write."""
    folder = os.path.dirname(os.path.abspath(text))
    if text and (os.path.isdir(text) or not os.access(folder, os.W_OK)):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written")
    return text


def number(kind, least):
    """An int or float, finite and at least `least`."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"'{text}', expected a number from {least} on")
        return value
    return parse


def several(parse):
    """Texts between commas, each of which `parse` takes; the list is returned as it was given."""
    def check(text):
        for part in text.split(","):
            parse(part)
        return text
    return check


def one_of(known):
    def parse(text):
        if text not in known:
            raise argparse.ArgumentTypeError(f"'{text}', expected one of {', '.join(known)}")
        return text
    return parse


def end_without(error, text):
    """Ends a script that lacks modules; --help, which is its `text` then, needs none."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(text.strip())
        sys.exit(0)
    sys.exit(f"NumPy and TensorFlow are needed: {error}")


def run(command):
    """Runs a program that has to succeed; else ends with its last words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-1000:]}")
