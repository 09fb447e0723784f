"""Inference that nets learn: BayesFlow's amortizers, GPflux's deep Gaussian processes, AmpliGraph's graphs of knowledge, cells of ncps."""
import bayesflow as bf
import gpflow
import ncps.tf
import numpy as np
import tensorflow as tf
from ampligraph.latent_features import loss_functions
from ampligraph.latent_features.layers.corruption_generation import CorruptionGenerationLayerTrain
from ampligraph.latent_features.layers.scoring import ComplEx, DistMult, HolE, RotatE, TransE
from gpflux import architectures
from ncps import wirings

from package_steps import cross_entropy, floats, keras_2, taped

K = tf.keras
RNG = np.random.default_rng(0)


def trained(make, feeds, **more):
    """make() -> (loss(**feeds), object that holds what is trained); a first call makes its variables."""
    def parts():
        loss, owner = make()
        loss(**{name: tf.constant(value) for name, value in feeds.items()})
        best = K.optimizers.legacy.Adam(1e-2)
        return loss, lambda: owner.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))
    return taped(parts, feeds, **{"rtol": 2e-3, **more})


def posterior(summary, coupling, permutation="fixed"):
    def make():
        net = bf.networks.InvertibleNetwork(num_params=3, num_coupling_layers=2, coupling_design=coupling, permutation=permutation)
        amortizer = bf.amortizers.AmortizedPosterior(net, summary())
        return lambda parameters, conditions: amortizer.compute_loss({"parameters": parameters, "summary_conditions": conditions}, training=True), amortizer
    return trained(make, {"parameters": floats(RNG, 4, 3), "conditions": floats(RNG, 4, 8, 2)})


def likelihood():
    def make():
        amortizer = bf.amortizers.AmortizedLikelihood(bf.networks.InvertibleNetwork(num_params=3, num_coupling_layers=2))
        return lambda seen, conditions: amortizer.compute_loss({"observables": seen, "conditions": conditions}, training=True), amortizer
    return trained(make, {"seen": floats(RNG, 4, 3), "conditions": floats(RNG, 4, 2)})


def comparison():
    def make():
        amortizer = bf.amortizers.AmortizedModelComparison(bf.networks.EvidentialNetwork(3), bf.networks.DeepSet(summary_dim=4))
        return lambda models, conditions: amortizer.compute_loss({"model_indices": models, "summary_conditions": conditions}, training=True), amortizer
    return trained(make, {"models": np.eye(3, dtype=np.float32)[RNG.integers(0, 3, 4)], "conditions": floats(RNG, 4, 8, 2)})


def deep_process(layers):
    """Sums of a deep Gaussian process's samples and divergences, as its likelihood layer has them."""
    def make():
        gpflow.config.set_default_float(np.float32)
        gpflow.config.set_default_jitter(1e-4)
        config = architectures.Config(num_inducing=6, inner_layer_qsqrt_factor=1e-2, likelihood_noise_variance=0.1, whiten=True)
        deep = architectures.build_constant_input_dim_deep_gp(np.linspace(-1, 1, 20, dtype=np.float32)[:, None], layers, config=config)
        model = deep.as_training_model()

        def loss(x, labels):
            model({"inputs": x, "targets": labels}, training=True)
            return tf.add_n(model.losses)
        return loss, model
    return trained(make, {"x": floats(RNG, 8, 1), "labels": floats(RNG, 8, 1)}, rtol=5e-3)


def knowledge(scoring, loss_name):
    """Triples of entities and a relation, scored against corrupted ones."""
    class Tables(tf.Module):
        def __init__(self):
            super().__init__()
            self.layer = scoring(4)
            width = self.layer.internal_k
            self.entities = tf.Variable(floats(RNG, 20, width))
            self.relations = tf.Variable(floats(RNG, 5, width))

    def make():
        tables = Tables()
        value = loss_functions.get(loss_name)

        def loss(triples):
            rows = [tf.nn.embedding_lookup(table, triples[:, at]) for at, table in enumerate((tables.entities, tables.relations, tables.entities))]
            wrong = CorruptionGenerationLayerTrain(seed=3)(triples, 20, 2)
            others = [tf.nn.embedding_lookup(table, wrong[:, at]) for at, table in enumerate((tables.entities, tables.relations, tables.entities))]
            return tf.reduce_sum(value(tables.layer(rows), tables.layer(others), 2))
        return loss, tables
    triples = np.stack([RNG.integers(0, count, 8) for count in (20, 5, 20)], 1).astype(np.int32)
    return trained(make, {"triples": triples})


def cell(make):
    return keras_2(lambda: K.Sequential([make(), K.layers.Dense(4)]), cross_entropy,
                   {"x": floats(RNG, 4, 6, 5), "labels": RNG.integers(0, 4, 4).astype(np.int32)})


def cases():
    deep = lambda: bf.networks.DeepSet(summary_dim=4)
    for coupling in ("affine", "spline", "interleaved"):
        yield f"posterior_{coupling}", posterior(deep, coupling)
    yield "posterior_learnable", posterior(deep, "affine", permutation="learnable")
    yield "posterior_sets", posterior(lambda: bf.networks.SetTransformer(input_dim=2, summary_dim=4, num_inducing_points=3), "affine")
    yield "posterior_series", posterior(lambda: bf.networks.TimeSeriesTransformer(input_dim=2, summary_dim=4, template_dim=8), "affine")
    yield "posterior_sequence", posterior(lambda: bf.networks.SequenceNetwork(summary_dim=4), "affine")
    yield "likelihood", likelihood()
    yield "comparison", comparison()
    for scoring in (ComplEx, DistMult, HolE, RotatE, TransE):
        yield f"knowledge_{scoring.__name__.lower()}", knowledge(scoring, "self_adversarial")
    for name in ("pairwise", "nll", "absolute_margin", "multiclass_nll"):
        yield f"knowledge_{name}", knowledge(ComplEx, name)
    yield "closed_form", cell(lambda: ncps.tf.CfC(8))
    yield "closed_form_wired", cell(lambda: ncps.tf.CfC(wirings.AutoNCP(12, 4)))
    yield "closed_form_memory", cell(lambda: ncps.tf.CfC(8, mixed_memory=True, mode="no_gate"))
    yield "liquid", cell(lambda: ncps.tf.LTC(wirings.AutoNCP(12, 4)))
    yield "deep_process_2", deep_process(2)
