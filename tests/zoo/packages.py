#!/usr/bin/env python3
"""Training graphs of models from well-known packages, run by TensorFlow and by the program, and compared as in zoo.py.

  packages.py BINARY [NAME|FAMILY ...] [--out=FOLDER] [--flags='FLAG ...']

FAMILIES says what to install for each family; one whose packages are missing is skipped with a message.
"""
import argparse
import collections
import importlib
import importlib.util
import os
import pathlib
import shlex
import sys
import tempfile
import traceback
import warnings

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # most of these packages are of the days of Keras 2
import zoo  # noqa: E402

zoo.tf.get_logger().setLevel("ERROR")
warnings.simplefilter("ignore")

TF_2_17 = "'tensorflow-cpu==2.17.*' 'tf-keras==2.17.*'"

# family (a file of this folder): what to install for it, and the modules that must then be there.
FAMILIES = {
    "from_transformers": (f"{TF_2_17} 'transformers==4.46.*'", ("transformers", "tf_keras")),
    "from_slim": (f"{TF_2_17} tf-slim", ("tf_slim",)),
    "from_probability": (f"{TF_2_17} 'tensorflow-probability==0.24.*'", ("tensorflow_probability", "tf_keras")),
    "from_research": (f"{TF_2_17} dm-sonnet graph-nets spektral trfl 'gpflow==2.9.*' 'scipy<1.12'",
                      ("sonnet", "graph_nets", "spektral", "trfl", "gpflow")),
    "from_recommenders": (f"{TF_2_17} deepctr tensorflow-recommenders tensorflow-lattice",
                          ("deepctr", "tensorflow_recommenders", "tensorflow_lattice")),
    "from_vision": (f"{TF_2_17} segmentation-models keras-unet-collection larq keras-tcn keras-self-attention",
                    ("segmentation_models", "keras_unet_collection", "larq", "tcn", "keras_self_attention")),
}


def missing(modules):
    return [module for module in modules if importlib.util.find_spec(module) is None]


def cases_of(names):
    for family, (install, modules) in FAMILIES.items():
        if names and not any(name.startswith(family) or family.startswith(name.split(".")[0]) for name in names):
            continue
        if missing(modules):
            print(f"skip {family}: no {', '.join(missing(modules))}; pip install {install}", flush=True)
            continue
        for name, case in importlib.import_module(family).cases():
            full = f"{family}.{name}"
            if not names or any(full == wanted or full.startswith(wanted + ".") or family == wanted for wanted in names):
                yield full, case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--flags", default="")
    arguments = parser.parse_args()
    results = collections.Counter()
    for name, case in cases_of(arguments.names):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(arguments.out or temporary) / name
            folder.mkdir(parents=True, exist_ok=True)
            try:
                wrong = zoo.check(arguments.binary, case, folder, shlex.split(arguments.flags))
            except Exception:  # one case that TensorFlow cannot build must not stop the others
                wrong = [traceback.format_exc()[-900:]]
        print(f"{'FAIL' if wrong else 'ok  '} {name}" + "".join(f"\n     {line}" for line in wrong[:6]), flush=True)
        results[not wrong] += 1
    print(f"{results[True]} passed, {results[False]} failed")
    return 1 if results[False] else 0


if __name__ == "__main__":
    sys.exit(main())
