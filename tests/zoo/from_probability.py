"""TensorFlow Probability, GPflow: variational inference, likelihoods, bijectors, Gaussian processes, samplers' gradients."""
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from package_steps import floats, taped

tfd, tfb, tfk, tfl = tfp.distributions, tfp.bijectors, tfp.math.psd_kernels, tfp.layers
RNG = np.random.default_rng(0)


def adam(variables):
    optimizer = tf.keras.optimizers.Adam(1e-2)
    optimizer.build(list(variables))
    return lambda gradients, weights: optimizer.apply_gradients(zip(gradients, weights))


def fitted(loss, *variables):
    return loss, lambda: list(variables), adam(variables)


def net(model, loss):
    return loss, lambda: model.trainable_variables, adam(model.trainable_variables)


def linear_regression_bayes():
    model = tf.keras.Sequential([tfl.DenseFlipout(8, activation="relu"), tfl.DenseReparameterization(1)])
    model(np.zeros((8, 3), np.float32))
    return net(model, lambda x, y: tf.reduce_mean((model(x) - y) ** 2) + sum(model.losses) / 100)


def convolution_bayes():
    model = tf.keras.Sequential([tfl.Convolution2DFlipout(4, 3, activation="relu"), tf.keras.layers.Flatten(), tfl.DenseLocalReparameterization(3)])
    model(np.zeros((4, 8, 8, 2), np.float32))
    return net(model, lambda x, y: -tf.reduce_mean(tfd.Categorical(logits=model(x)).log_prob(y)) + sum(model.losses) / 100)


def distribution_lambda():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tfl.DistributionLambda(
        lambda t: tfd.Normal(t[..., :1], 1e-3 + tf.math.softplus(0.05 * t[..., 1:])))])
    model(np.zeros((8, 3), np.float32))
    return net(model, lambda x, y: -tf.reduce_mean(model(x).log_prob(y)))


def mixture_density():
    size = tfl.MixtureNormal.params_size(3, (1,))
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(size), tfl.MixtureNormal(3, (1,))])
    model(np.zeros((8, 3), np.float32))
    return net(model, lambda x, y: -tf.reduce_mean(model(x).log_prob(y)))


def variational_autoencoder():
    prior = tfd.Independent(tfd.Normal(tf.zeros(2), 1), 1)
    encoder = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(tfl.MultivariateNormalTriL.params_size(2)),
                                   tfl.MultivariateNormalTriL(2, activity_regularizer=tfl.KLDivergenceRegularizer(prior, weight=0.1))])
    decoder = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3), tfl.IndependentBernoulli((3,))])
    decoder(encoder(np.zeros((8, 3), np.float32)))

    def loss(x, y):
        return -tf.reduce_mean(decoder(encoder(x)).log_prob(tf.cast(x > 0, tf.float32))) + tf.add_n(encoder.losses)
    return loss, lambda: encoder.trainable_variables + decoder.trainable_variables, adam(
        encoder.trainable_variables + decoder.trainable_variables)


def flow(*bijectors):
    variables = [v for b in bijectors for v in b.trainable_variables]
    base = tfd.MultivariateNormalDiag(tf.zeros(3), tf.ones(3))
    model = tfd.TransformedDistribution(base, tfb.Chain(list(bijectors)))
    model.log_prob(np.zeros((8, 3), np.float32))
    variables = [v for b in bijectors for v in b.trainable_variables]
    return fitted(lambda x, y: -tf.reduce_mean(model.log_prob(x)), *variables)


def masked_autoregressive_flow():
    made = [tfb.AutoregressiveNetwork(params=2, hidden_units=[8, 8], activation="relu", event_shape=[3]) for _ in range(2)]
    model = tfd.TransformedDistribution(tfd.Sample(tfd.Normal(0.0, 1.0), [3]), tfb.Chain(
        [tfb.MaskedAutoregressiveFlow(made[0]), tfb.Permute([2, 0, 1]), tfb.MaskedAutoregressiveFlow(made[1])]))
    model.log_prob(np.zeros((8, 3), np.float32))
    return fitted(lambda x, y: -tf.reduce_mean(model.log_prob(x)), *[v for m in made for v in m.trainable_variables])


def coupling_flow():
    net = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(4)])

    def shift_and_scale(x, units, **kwargs):
        shift, scale = tf.split(net(x), 2, -1)
        return shift, tf.tanh(scale)
    model = tfd.TransformedDistribution(tfd.MultivariateNormalDiag(tf.zeros(3), tf.ones(3)), tfb.RealNVP(1, shift_and_log_scale_fn=shift_and_scale))
    model.log_prob(np.zeros((8, 3), np.float32))
    return fitted(lambda x, y: -tf.reduce_mean(model.log_prob(x)), *net.trainable_variables)


def spline_flow():
    bins = tf.Variable(RNG.normal(size=(3, 4)).astype(np.float32))
    heights = tf.Variable(RNG.normal(size=(3, 4)).astype(np.float32))
    slopes = tf.Variable(RNG.normal(size=(3, 3)).astype(np.float32))

    def loss(x, y):
        spline = tfb.RationalQuadraticSpline(tf.nn.softmax(bins) * 4, tf.nn.softmax(heights) * 4, tf.math.softplus(slopes) + 1e-2, -2.0)
        return -tf.reduce_mean(tfd.TransformedDistribution(tfd.Sample(tfd.Normal(0.0, 1.0), [3]), spline).log_prob(x))
    return fitted(loss, bins, heights, slopes)


def gaussian_process(kernel):
    def make():
        amplitude, scale, noise = (tfp.util.TransformedVariable(v, tfb.Softplus(), dtype=tf.float64) for v in (1.0, 0.5, 0.1))

        def loss(x, y):
            process = tfd.GaussianProcess(kernel(amplitude, scale), tf.cast(x, tf.float64), observation_noise_variance=noise)
            return -process.log_prob(tf.cast(y[:, 0], tf.float64))
        return fitted(loss, *(v.trainable_variables[0] for v in (amplitude, scale, noise)))
    return make


def variational_gaussian_process():
    index = RNG.normal(size=(4, 3)).astype(np.float32)
    amplitude = tfp.util.TransformedVariable(1.0, tfb.Softplus())
    loc, scale = tf.Variable(tf.zeros(4)), tf.Variable(tf.eye(4))

    def loss(x, y):
        process = tfd.VariationalGaussianProcess(tfk.ExponentiatedQuadratic(amplitude, 1.0), x, index, loc, scale, observation_noise_variance=0.1)
        return process.variational_loss(y[:, 0], x, kl_weight=0.5)
    return fitted(loss, amplitude.trainable_variables[0], loc, scale)


def likelihood(make):
    """A distribution of two parameters, fitted to the feeds."""
    def build():
        a, b = tf.Variable(0.3 * tf.ones(3)), tf.Variable(0.2 * tf.ones(3))
        return fitted(lambda x, y: -tf.reduce_mean(make(a, b).log_prob(x)), a, b)
    return build


def reparameterized(make):
    """The mean of a function of samples, whose gradients go through the sampler."""
    def build():
        a, b = tf.Variable(0.3 * tf.ones(3)), tf.Variable(0.2 * tf.ones(3))
        return fitted(lambda x, y: tf.reduce_mean((make(a, b).sample(8, seed=3) - x) ** 2), a, b)
    return build


def positive(x):
    return tf.math.softplus(x) + 0.1


DISTRIBUTIONS = {
    "normal": lambda a, b: tfd.Normal(a, positive(b)),
    "student_t": lambda a, b: tfd.StudentT(3.0, a, positive(b)),
    "laplace": lambda a, b: tfd.Laplace(a, positive(b)),
    "cauchy": lambda a, b: tfd.Cauchy(a, positive(b)),
    "logistic": lambda a, b: tfd.Logistic(a, positive(b)),
    "gumbel": lambda a, b: tfd.Gumbel(a, positive(b)),
    "sinh_arcsinh": lambda a, b: tfd.SinhArcsinh(a, positive(b), skewness=0.3),
    "normal_inverse_gaussian": lambda a, b: tfd.NormalInverseGaussian(a, 1.0, positive(b) + 1, 0.1),
    "generalized_normal": lambda a, b: tfd.GeneralizedNormal(a, positive(b), 1.5),
    "mixture_same_family": lambda a, b: tfd.MixtureSameFamily(
        tfd.Categorical(logits=a), tfd.Normal(b, 1.0), validate_args=True),
    "multivariate_tril": lambda a, b: tfd.MultivariateNormalTriL(a, tf.linalg.diag(positive(b)) + 0.1 * tf.linalg.band_part(tf.ones((3, 3)), -1, 0)),
    "multivariate_low_rank": lambda a, b: tfd.MultivariateNormalDiagPlusLowRankCovariance(a, positive(b), 0.1 * tf.ones((3, 1))),
    "autoregressive_ar1": lambda a, b: tfd.LinearGaussianStateSpaceModel(
        8, tf.linalg.LinearOperatorScaledIdentity(3, 0.9), tfd.MultivariateNormalDiag(scale_diag=positive(b)),
        tf.linalg.LinearOperatorIdentity(3), tfd.MultivariateNormalDiag(scale_diag=[0.5] * 3), tfd.MultivariateNormalDiag(a, [1.0] * 3)),
}
SAMPLERS = {
    "normal": DISTRIBUTIONS["normal"],
    "gumbel": DISTRIBUTIONS["gumbel"],
    "truncated_normal": lambda a, b: tfd.TruncatedNormal(a, positive(b), -2.0, 2.0),
    "relaxed_one_hot": lambda a, b: tfd.RelaxedOneHotCategorical(0.5, logits=a + b),
    "kumaraswamy": lambda a, b: tfd.Kumaraswamy(positive(a), positive(b)),
    "gamma": lambda a, b: tfd.Gamma(positive(a) + 1, positive(b)),
    "beta": lambda a, b: tfd.Beta(positive(a) + 1, positive(b) + 1),
    "dirichlet": lambda a, b: tfd.Dirichlet(positive(a) + positive(b)),
    "multivariate_tril": DISTRIBUTIONS["multivariate_tril"],
}
MODELS = {
    "dense_flipout": linear_regression_bayes,
    "convolution_flipout": convolution_bayes,
    "distribution_lambda": distribution_lambda,
    "mixture_density": mixture_density,
    "variational_autoencoder": variational_autoencoder,
    "masked_autoregressive_flow": masked_autoregressive_flow,
    "real_nvp": coupling_flow,
    "spline_flow": spline_flow,
    "scale_matvec_lu": lambda: flow(tfb.ScaleMatvecLU(*_lu()), tfb.Shift(tf.Variable(tf.zeros(3)))),
    "softsign_flow": lambda: flow(tfb.SinhArcsinh(tf.Variable(0.1), tf.Variable(1.2)), tfb.Shift(tf.Variable(tf.zeros(3)))),
    "gaussian_process_rbf": gaussian_process(tfk.ExponentiatedQuadratic),
    "gaussian_process_matern": gaussian_process(tfk.MaternFiveHalves),
    "gaussian_process_quadratic": gaussian_process(tfk.RationalQuadratic),
    "gaussian_process_variational": variational_gaussian_process,
    **{f"log_prob_{name}": likelihood(make) for name, make in DISTRIBUTIONS.items()},
    **{f"sample_{name}": reparameterized(make) for name, make in SAMPLERS.items()},
}


def _lu():
    lower_upper, permutation = tf.linalg.lu(tf.constant(RNG.normal(size=(3, 3)).astype(np.float32)))
    return tf.Variable(lower_upper), permutation


def cases():
    feeds = {"x": floats(RNG, 8, 3), "y": floats(RNG, 8, 1)}
    feeds_int = {"x": floats(RNG, 4, 8, 8, 2), "y": RNG.integers(0, 3, 4).astype(np.int32)}
    return [(name, taped(make, feeds_int if name == "convolution_flipout" else feeds)) for name, make in MODELS.items()]
