"""Graphs of TensorFlow 1 that DeepXDE builds: nets trained on the residuals of differential equations, and operators."""
import os

os.environ.setdefault("DDE_BACKEND", "tensorflow.compat.v1")
import deepxde as dde  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from zoo import Net, tf1  # noqa: E402

PI = np.pi


def solved(make, optimizer="adam", lr=1e-3, weights=None, **options):
    """What Model.compile makes of a problem, with the points of its first batch as feeds."""
    def case():
        dde.config.set_random_seed(7)
        data, net = make()
        model = dde.Model(data, net)
        model.compile(optimizer, lr=lr, loss_weights=weights, **options)
        model.sess.close()
        points, wanted = data.train_next_batch()[:2]
        feeds = {}
        given = zip(net.inputs, points) if isinstance(points, tuple) else [(net.inputs, points)]
        for tensor, value in [*given, (net.targets, wanted)]:
            if value is not None and tensor is not None:
                feeds[tensor.op.name] = np.asarray(value, np.float32)
        feeds[net.training.op.name] = np.array(True)
        return Net(tf.reduce_sum(model.outputs_losses_train[1]), model.train_step, feeds, rtol=2e-3)
    return case


def burgers():
    space = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 0.99))

    def equation(x, y):
        first_x, first_t, second = dde.grad.jacobian(y, x, i=0, j=0), dde.grad.jacobian(y, x, i=0, j=1), dde.grad.hessian(y, x, i=0, j=0)
        return first_t + y * first_x - 0.01 / PI * second
    edges = [dde.icbc.DirichletBC(space, lambda x: 0, lambda _, on: on),
             dde.icbc.IC(space, lambda x: -np.sin(PI * x[:, 0:1]), lambda _, on: on)]
    data = dde.data.TimePDE(space, equation, edges, num_domain=32, num_boundary=8, num_initial=8, train_distribution="uniform")
    return data, dde.nn.FNN([2] + [8] * 2 + [1], "tanh", "Glorot normal")


def poisson(net):
    def make():
        space = dde.geometry.Rectangle([0, 0], [1, 1])

        def equation(x, y):
            return dde.grad.hessian(y, x, i=0, j=0) + dde.grad.hessian(y, x, i=1, j=1) + tf.sin(PI * x[:, 0:1])
        edges = [dde.icbc.NeumannBC(space, lambda x: 0, lambda x, on: on and x[0] > 0.5), dde.icbc.DirichletBC(space, lambda x: 0, lambda _, on: on)]
        return dde.data.PDE(space, equation, edges, num_domain=16, num_boundary=8, train_distribution="uniform"), net()
    return make


def lorenz():
    rate, bound = dde.Variable(1.0), dde.Variable(1.5)
    time = dde.geometry.TimeDomain(0, 3)

    def system(x, y):
        one, two, three = y[:, 0:1], y[:, 1:2], y[:, 2:]
        return [dde.grad.jacobian(y, x, i=0) - rate * (two - one), dde.grad.jacobian(y, x, i=1) - one * (bound - three) + two,
                dde.grad.jacobian(y, x, i=2) - one * two + three]
    begin = lambda value: lambda x: value
    starts = [dde.icbc.IC(time, begin(value), lambda _, on: on, component=c) for c, value in enumerate((-8.0, 7.0, 27.0))]
    data = dde.data.PDE(time, system, starts, num_domain=16, num_boundary=2, train_distribution="uniform")
    return data, dde.nn.FNN([1] + [8] * 2 + [3], "tanh", "Glorot uniform")


def operator():
    rng = np.random.default_rng(0)
    functions, places = rng.normal(size=(8, 5)).astype(np.float32), rng.uniform(size=(8, 1)).astype(np.float32)
    values = (functions.sum(1, keepdims=True) * places).astype(np.float32)
    data = dde.data.Triple((functions, places), values, (functions, places), values)
    return data, dde.nn.DeepONet([5, 8, 8], [1, 8, 8], "relu", "Glorot normal")


def cases():
    flat = lambda: dde.nn.FNN([2, 8, 8, 1], "swish", "He normal", regularization=("l2", 1e-3), dropout_rate=0.1)
    yield "burgers", solved(burgers)
    yield "poisson", solved(poisson(flat), weights=[1.0, 10.0, 10.0, 0.1])
    yield "poisson_residual", solved(poisson(lambda: dde.nn.ResNet(2, 1, 8, 2, "tanh", "Glorot uniform")), optimizer="rmsprop")
    yield "poisson_fourier", solved(poisson(lambda: dde.nn.MsFFN([2, 8, 8, 1], "tanh", "Glorot uniform", sigmas=[1, 5])))
    yield "poisson_adaptive", solved(poisson(lambda: dde.nn.FNN([2, 8, 8, 1], "LAAF-10 tanh", "Glorot uniform")), decay=("inverse time", 2, 0.3))
    yield "lorenz", solved(lorenz, optimizer="sgd", lr=1e-6)
    yield "deep_o_net", solved(operator)
