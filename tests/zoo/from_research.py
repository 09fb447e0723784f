"""Packages of research: Sonnet, Graph Nets, Spektral, TRFL, GPflow."""
import gpflow
import graph_nets
import numpy as np
import sonnet as snt
import spektral
import tensorflow as tf
import trfl

from package_steps import cross_entropy, floats, keras_2, pictures, squared_error, taped

RNG = np.random.default_rng(0)


def module(make, loss, feeds, optimizer=lambda: snt.optimizers.Adam(1e-3), **more):
    def parts():
        net = make()
        loss(net, **{name: tf.constant(value) for name, value in feeds.items()})
        best = optimizer()
        if hasattr(best, "_initialize"):
            best._initialize(net.trainable_variables)
        return (lambda **values: loss(net, **values)), lambda: net.trainable_variables, lambda g, v: best.apply(list(g), list(v))
    return taped(parts, feeds, **more)


def classify(net, x, labels):
    return cross_entropy(net(x, is_training=True), labels)


def vqvae(quantizer):
    def make():
        net = snt.Module()
        net.encoder, net.quantizer, net.decoder = snt.Conv2D(8, 4, 2), quantizer(), snt.Conv2DTranspose(3, 4, stride=2)
        return net

    def loss(net, x, labels):
        quantized = net.quantizer(net.encoder(x), is_training=True)
        return tf.reduce_mean((net.decoder(quantized["quantize"]) - x) ** 2) + quantized["loss"]
    return module(make, loss, pictures(RNG, 16))


class Recurrent(snt.Module):
    def __init__(self, core):
        super().__init__()
        self.core, self.head = core, snt.Linear(4)

    def __call__(self, x):
        states, _ = snt.static_unroll(self.core, tf.transpose(x, [1, 0, 2]), self.core.initial_state(x.shape[0]))
        return self.head(states[-1])


def recurrent(make, optimizer=lambda: snt.optimizers.RMSProp(1e-3)):
    return module(lambda: Recurrent(make()), lambda net, x, labels: cross_entropy(net(x), labels),
                  {"x": floats(RNG, 4, 5, 6), "labels": RNG.integers(0, 4, 4).astype(np.int32)}, optimizer)


def graph_tuple(nodes, edges, senders, receivers):
    return graph_nets.graphs.GraphsTuple(
        nodes=nodes, edges=edges, globals=tf.zeros([2, 2]), receivers=receivers, senders=senders,
        n_node=tf.constant([3, 3]), n_edge=tf.constant([4, 4]))


GRAPH = {"nodes": floats(RNG, 6, 5), "edges": floats(RNG, 8, 3), "senders": np.array([0, 1, 2, 0, 3, 4, 5, 3], np.int32),
         "receivers": np.array([1, 2, 0, 2, 4, 5, 3, 5], np.int32)}


def graph_net(make):
    def loss(net, **feeds):
        out = net(graph_tuple(**feeds))
        return tf.reduce_mean(out.nodes ** 2) + tf.reduce_mean((out.globals - 1) ** 2)
    return module(make, loss, GRAPH)


def mlp(size):
    return lambda: snt.nets.MLP([8, size])


class OnGraph(tf.keras.Model):
    """A layer of Spektral on node features and an adjacency matrix, then a class per node."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, tf.keras.layers.Dense(3)

    def call(self, inputs, training=None):
        out = self.layer(inputs, training=training)
        return self.head(out[0] if isinstance(out, (list, tuple)) else out)


def on_graph(make, **more):
    adjacency = (RNG.uniform(size=(6, 6)) < 0.5).astype(np.float32)
    adjacency = np.maximum(adjacency, adjacency.T) * (1 - np.eye(6, dtype=np.float32))
    feeds = {"x": floats(RNG, 6, 5), "a": adjacency + np.eye(6, dtype=np.float32), "labels": RNG.integers(0, 3, 6).astype(np.int32)}
    return keras_2(lambda: OnGraph(make()), lambda out, labels, **feeds: cross_entropy(out, labels[:tf.shape(out)[0]]), feeds, ("x", "a"), **more)


LAYERS = {name: getattr(spektral.layers, name) for name in (
    "GCNConv", "ChebConv", "ARMAConv", "GATConv", "GCSConv", "APPNPConv", "DiffusionConv")}


def reinforcement(loss):
    def make():
        net = snt.nets.MLP([8, 3])
        best = snt.optimizers.SGD(0.1)
        net(tf.zeros([4, 5]))
        return (lambda **values: tf.reduce_mean(loss(net, **values))), lambda: net.trainable_variables, lambda g, v: best.apply(list(g), list(v))
    feeds = {"state": floats(RNG, 4, 5), "after": floats(RNG, 4, 5), "action": RNG.integers(0, 3, 4).astype(np.int32),
             "reward": floats(RNG, 4), "discount": np.full(4, 0.9, np.float32)}
    return taped(make, feeds)


def gaussian_process(make):
    x, y = RNG.uniform(size=(12, 2)), RNG.normal(size=(12, 1))

    def parts():
        model = make(x, y)
        best = tf.keras.optimizers.Adam(0.01)
        best.build(list(model.trainable_variables))
        loss = model.training_loss if isinstance(model, gpflow.models.InternalDataTrainingLossMixin) else None
        return ((lambda x, y: loss()) if loss else (lambda x, y: model.training_loss((x, y))), lambda: list(model.trainable_variables),
                lambda g, v: best.apply_gradients(zip(g, v)))
    return taped(parts, {"x": x, "y": y})


def sparse_process(likelihood=gpflow.likelihoods.Gaussian, kernel=gpflow.kernels.SquaredExponential, **options):
    return gaussian_process(lambda x, y: gpflow.models.SVGP(kernel(), likelihood(), x[:5].copy(), num_data=12, **options))


def cases():
    yield "sonnet_resnet", module(lambda: snt.nets.ResNet([1, 1, 1, 1], 4),
                                  classify, pictures(RNG, 32), lambda: snt.optimizers.Momentum(1e-3, 0.9), rtol=5e-3, steps=2)
    yield "sonnet_cifar10", module(lambda: snt.nets.Cifar10ConvNet(4, output_channels=(8, 8), strides=(1, 2)),
                                   lambda net, x, labels: cross_entropy(net(x, is_training=True)["logits"], labels), pictures(RNG, 16))
    yield "sonnet_vqvae", vqvae(lambda: snt.nets.VectorQuantizer(8, 6, 0.25))
    yield "sonnet_vqvae_ema", vqvae(lambda: snt.nets.VectorQuantizerEMA(8, 6, 0.25, 0.99))
    yield "sonnet_lstm", recurrent(lambda: snt.LSTM(8))
    yield "sonnet_lstm_projected", recurrent(lambda: snt.LSTM(8, projection_size=4))
    yield "sonnet_gru", recurrent(lambda: snt.GRU(8), lambda: snt.optimizers.Momentum(0.01, 0.9, use_nesterov=True))
    yield "sonnet_vanilla_rnn", recurrent(lambda: snt.VanillaRNN(8), lambda: snt.optimizers.SGD(0.01))
    yield "graph_network", graph_net(lambda: graph_nets.modules.GraphNetwork(mlp(4), mlp(5), mlp(2)))
    yield "interaction_network", graph_net(lambda: graph_nets.modules.InteractionNetwork(mlp(4), mlp(5)))
    yield "relation_network", graph_net(lambda: graph_nets.modules.RelationNetwork(mlp(4), mlp(2)))
    yield "deep_sets", graph_net(lambda: graph_nets.modules.DeepSets(mlp(5), mlp(2)))
    yield from ((f"spektral_{name}", on_graph(lambda layer=layer: layer(4))) for name, layer in LAYERS.items())
    yield "spektral_diff_pool", on_graph(lambda: spektral.layers.DiffPool(3, channels=4))
    yield "spektral_mincut_pool", on_graph(lambda: spektral.layers.MinCutPool(3))
    yield "spektral_dmon_pool", on_graph(lambda: spektral.layers.DMoNPool(3))
    yield "trfl_qlearning", reinforcement(lambda net, state, after, action, reward, discount: trfl.qlearning(
        net(state), action, reward, discount, net(after)).loss)
    yield "trfl_double_qlearning", reinforcement(lambda net, state, after, action, reward, discount: trfl.double_qlearning(
        net(state), action, reward, discount, net(after), 2.0 * net(after)).loss)
    yield "trfl_policy_gradient", reinforcement(lambda net, state, after, action, reward, discount: trfl.discrete_policy_gradient(
        net(state), action, reward))
    yield "trfl_entropy", reinforcement(lambda net, state, after, action, reward, discount: trfl.discrete_policy_entropy_loss(net(state)).loss)
    yield "gpflow_gpr", gaussian_process(lambda x, y: gpflow.models.GPR((x, y), gpflow.kernels.Matern52()))
    yield "gpflow_sgpr", gaussian_process(lambda x, y: gpflow.models.SGPR((x, y), gpflow.kernels.RBF(), x[:4].copy()))
    yield "gpflow_vgp", gaussian_process(lambda x, y: gpflow.models.VGP((x, (y > 0) * 1.0), gpflow.kernels.RBF(), gpflow.likelihoods.Bernoulli()))
    yield "gpflow_svgp", sparse_process()
    yield "gpflow_svgp_student_t", sparse_process(gpflow.likelihoods.StudentT, gpflow.kernels.Matern32, whiten=False)
    yield "gpflow_kernels", sparse_process(kernel=lambda: gpflow.kernels.Periodic(gpflow.kernels.RBF()) + gpflow.kernels.Linear() * gpflow.kernels.ArcCosine())
