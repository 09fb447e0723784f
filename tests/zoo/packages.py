#!/usr/bin/env python3
"""Training graphs of models from well-known packages, run by TensorFlow and by the program, and compared as in zoo.py.

  packages.py BINARY [NAME|FAMILY ...] [--out=FOLDER] [--flags='FLAG ...']

FAMILIES says what to install for each family; one whose packages are missing is skipped with a message.
"""
import importlib
import importlib.util
import os
import sys
import warnings

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # most of these packages are of the days of Keras 2
import zoo  # noqa: E402

zoo.tf.get_logger().setLevel("ERROR")
warnings.simplefilter("ignore")

TF_2_17 = "'tensorflow-cpu==2.17.*' 'tf-keras==2.17.*'"
TF_2_14 = "'tensorflow-cpu==2.14.*'"

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
    "from_keras_hub": (f"{TF_2_17} 'keras-hub==0.17.*'", ("keras_hub", "keras")),
    "from_official": (f"{TF_2_17} 'tf-models-official==2.17.*'", ("official", "tf_keras")),
    "from_agents": (f"{TF_2_17} 'tf-agents==0.19.*' gin-config gym", ("tf_agents", "tf_keras")),
    "from_graphs": (f"{TF_2_17} 'tensorflow-gnn==1.0.*' ml-collections", ("tensorflow_gnn", "tf_keras")),
    "from_microscopy": (f"{TF_2_17} stardist csbdeep keras-gpt-2 keras-multi-head keras-transformer kapre tensorflow-model-optimization",
                        ("stardist", "csbdeep", "keras_gpt_2", "keras_multi_head", "keras_transformer", "kapre", "tensorflow_model_optimization")),
    "from_finance": (f"{TF_2_17} tf-quant-finance; PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python", ("tf_quant_finance", "tf_keras")),
    "from_deepxde": (f"{TF_2_17} 'deepxde==1.15.*'", ("deepxde", "tf_keras")),
    "from_wireless": (f"{TF_2_17} 'sionna==0.19.*' 'mitsuba==3.5.*' importlib-resources traitlets", ("sionna", "tf_keras")),
    "from_quantized": (f"{TF_2_17} qkeras tensorflow-model-optimization", ("qkeras", "tf_keras")),
    "from_attention": (f"{TF_2_17} keras-cv-attention-models", ("keras_cv_attention_models", "tf_keras")),
    "from_amortized": (f"{TF_2_17} 'bayesflow==1.1.*' 'tensorflow-probability==0.24.*' gpflux 'gpflow==2.9.*' ampligraph ncps",
                       ("bayesflow", "gpflux", "ampligraph", "ncps", "tf_keras")),
    "from_others": (f"{TF_2_17} cleverhans tensorflow-constrained-optimization keras-retinanet spleeter",
                    ("cleverhans", "keras_retinanet", "tensorflow_constrained_optimization", "spleeter")),
    "from_addons": (f"{TF_2_14} 'tensorflow-addons==0.22.*' tensorflow-ranking neural-structured-learning tensorflow-privacy edward2",
                    ("tensorflow_addons", "tensorflow_ranking", "neural_structured_learning", "tensorflow_privacy", "edward2")),
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


if __name__ == "__main__":
    sys.exit(zoo.main(__doc__, cases_of))
