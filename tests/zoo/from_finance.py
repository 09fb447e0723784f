"""TF Quant Finance: prices of options by formulas, lattices, grids and paths, and curves of rates, fitted to prices."""
import numpy as np
import tensorflow as tf
import tf_quant_finance as tff

from package_steps import taped

K = tf.keras


def fitted(loss, *variables):
    best = K.optimizers.legacy.Adam(1e-2)
    return loss, lambda: list(variables), lambda grads, weights: best.apply_gradients(zip(grads, weights))


F64 = tf.float64
PRICES = {"strikes": np.array([90.0, 95.0, 100.0, 105.0, 110.0]), "prices": np.array([12.5, 9.0, 6.2, 4.1, 2.6])}


def option(price):
    """A volatility and a rate, fitted to the prices of options."""
    def make():
        volatility, rate = tf.Variable(0.3 * tf.ones(5, F64)), tf.Variable(tf.constant(0.01, F64))
        return fitted(lambda strikes, prices: tf.reduce_mean((price(volatility, rate, strikes) - prices) ** 2), volatility, rate)
    return taped(make, PRICES, rtol=2e-3)


def closed(volatility, rate, strikes):
    return tff.black_scholes.option_price(volatilities=volatility, strikes=strikes, expiries=tf.ones_like(strikes), spots=100.0 * tf.ones_like(strikes),
                                          discount_rates=rate * tf.ones_like(strikes), dtype=F64)


def barrier(volatility, rate, strikes):
    return tff.black_scholes.barrier_price(volatilities=volatility, strikes=strikes, expiries=tf.ones_like(strikes), spots=100.0 * tf.ones_like(strikes),
                                           barriers=120.0 * tf.ones_like(strikes), is_barrier_down=[False] * 5, is_knock_out=[True] * 5,
                                           discount_rates=rate * tf.ones_like(strikes), dtype=F64)


def lattice(volatility, rate, strikes):
    return tff.black_scholes.option_price_binomial(volatilities=volatility, strikes=strikes, expiries=tf.ones_like(strikes),
                                                           spots=100.0 * tf.ones_like(strikes), discount_rates=rate * tf.ones_like(strikes),
                                                           is_american=True, num_steps=20, dtype=F64)


def heston(volatility, rate, strikes):
    return tff.models.heston.approximations.european_option_price(
        variances=volatility ** 2, mean_reversion=1.0, theta=0.04, volvol=0.3, rho=-0.5, strikes=strikes, expiries=tf.ones_like(strikes),
        spots=100.0 * tf.ones_like(strikes), discount_rates=rate * tf.ones_like(strikes), dtype=F64)


def paths(volatility, rate, strikes):
    """Paths of a diffusion by Euler's steps, and the mean of what an option on each pays."""
    process = tff.models.GenericItoProcess(dim=1, drift_fn=lambda t, x: rate * x, volatility_fn=lambda t, x: (volatility[0] * x)[..., None], dtype=F64)
    ends = process.sample_paths(times=[0.5, 1.0], num_samples=16, initial_state=[100.0], time_step=0.25, seed=[4, 2],
                                random_type=tff.math.random.RandomType.STATELESS)[:, -1, 0]
    return tf.reduce_mean(tf.nn.relu(ends[:, None] - strikes), 0) * tf.exp(-rate)


def grid(volatility, rate, strikes):
    """The Black-Scholes equation backwards on a grid, by Crank and Nicolson's steps."""
    line = tff.math.pde.grids.uniform_grid(minimums=[50.0], maximums=[150.0], sizes=[21], dtype=F64)
    values = tff.math.pde.fd_solvers.solve_backward(
        start_time=1.0, end_time=0.0, coord_grid=line, values_grid=tf.nn.relu(line[0] - strikes[:, None]), time_step=0.1,
        second_order_coeff_fn=lambda t, grid: [[(volatility[:, None] * grid[0]) ** 2 / 2]],
        first_order_coeff_fn=lambda t, grid: [rate * grid[0]], zeroth_order_coeff_fn=lambda t, grid: -rate)[0]
    return values[:, 10]


def curve():
    rates = tf.Variable(0.02 * tf.ones(4, F64))
    times = tf.constant([0.5, 1.0, 2.0, 5.0], F64)

    def loss(strikes, prices):
        at = strikes / 30.0
        linear = tff.math.interpolation.linear.interpolate(at, times, rates, dtype=F64)
        spline = tff.math.interpolation.cubic.interpolate(at, tff.math.interpolation.cubic.build_spline(times, rates), dtype=F64)
        return tf.reduce_mean((linear + spline - prices / 100) ** 2)
    return fitted(loss, rates)


def cases():
    yield "option_closed", option(closed)
    yield "option_barrier", option(barrier)
    yield "option_lattice", option(lattice)
    yield "option_heston", option(heston)
    yield "option_paths", option(paths)
    yield "option_grid", option(grid)
    yield "rate_curves", taped(curve, PRICES, rtol=2e-3)
