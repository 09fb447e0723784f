"""Loops whose turns, and arrays whose rows, are drawn or counted by the step itself: what says how many happens in every step."""
import tensorflow as tf

from branch_nets import old_control_flow
from guest_parts import eager, function_net, numbers, tf1
from zoo import Net

CASES = {}


def both_forms(build):
    """A case for each of TensorFlow's two forms of control flow."""
    CASES[build.__name__ + "_v1"] = old_control_flow(build)
    CASES[build.__name__] = build
    return build


def net(h_of):
    """A layer, h_of(what it gives, a counter), its mean square."""
    counter = tf1.get_variable("n", initializer=tf.constant(0), trainable=False, use_resource=True)
    x = tf1.placeholder(tf.float32, [4, 5], "x")
    w = tf1.get_variable("w", initializer=numbers(5, 5, seed=3), use_resource=True)
    h = h_of(x @ w, counter)
    loss = tf.reduce_mean(h ** 2)
    return Net(loss, tf1.train.GradientDescentOptimizer(.01).minimize(loss), {"x": numbers(4, 5)}, (h,), steps=4)


def turns(h, count):
    return tf1.while_loop(lambda i, _: i < count, lambda i, a: (i + 1, tf.tanh(a)), (0, h))[1]


@both_forms
def turns_from_a_draw():
    return net(lambda h, n: turns(h, tf1.random_uniform([], 0, 5, tf.int32, seed=7)))


@both_forms
def turns_from_an_assignment():
    return net(lambda h, n: turns(h, tf.identity(tf1.assign_add(n, 1))))


def in_a_side(taken):
    """A loop whose turns are drawn, in a conditional's side."""
    return net(lambda h, n: tf1.cond(taken(h, n), lambda: turns(h, tf1.random_uniform([], 0, 5, tf.int32, seed=7)), lambda: h))


@both_forms
def turns_in_a_side_taken():
    return in_a_side(lambda h, n: tf.reduce_mean(h) > -9.)


@both_forms
def turns_in_a_side_not_taken():
    return in_a_side(lambda h, n: tf.reduce_mean(h) < -9.)


@both_forms
def turns_in_a_side_taken_at_times():
    return in_a_side(lambda h, n: tf.equal(tf.identity(tf1.assign_add(n, 1)) % 2, 0))


@both_forms
def turns_in_a_side_that_draws():
    return in_a_side(lambda h, n: tf1.random_uniform([], seed=9) < .5)


@both_forms
def condition_draws():
    def goes_on(i, h):
        with tf.control_dependencies([h]):
            return tf1.random_uniform([], seed=6) < .8
    return net(lambda h, n: tf1.while_loop(goes_on, lambda i, h: (i + 1, tf.tanh(h)), (0, h))[1])


@both_forms
def condition_assigns():
    def of(h, n):
        def goes_on(i, h):
            with tf.control_dependencies([h]):
                return tf.less(tf1.assign_add(n, 1) % 4, 3)
        return tf1.while_loop(goes_on, lambda i, h: (i + 1, tf.tanh(h)), (0, h))[1]
    return net(of)


@both_forms
def last_turn_draws():
    """A decoder that samples at the end of each turn: the last sample is for nobody, and drawn."""
    def turn(i, h, u):
        h = tf.tanh(h) + u
        with tf.control_dependencies([h]):
            return i + 1, h, tf1.random_uniform([4, 5], seed=6)
    return net(lambda h, n: tf1.while_loop(lambda i, *_: i < 3, turn, (0, h, tf.zeros([4, 5])))[1])


def rows_at_a_draw():
    return net(lambda h, n: tf.TensorArray(tf.float32, 4, element_shape=[5], clear_after_read=False).unstack(h).gather(
        tf1.random_uniform([3], 0, 4, tf.int32, seed=7)))


def range_of_a_draw(h, n):
    for _ in tf.range(tf.random.uniform([], 0, 5, tf.int32, seed=7)):
        h = tf.tanh(h)
    return h


def while_a_draw(h, n):
    while tf.random.uniform([], seed=6) < .7:
        h = tf.tanh(h)
    return h


def range_of_an_assignment(h, n):
    for _ in tf.range(n.assign_add(1)):
        h = tf.tanh(h)
    return h


def traced(h_of):
    def build():
        w, n = tf.Variable(numbers(5, 5, seed=3)), tf.Variable(0, trainable=False)

        def step(x):
            with tf.GradientTape() as tape:
                h = h_of(x @ w, n)
                loss = tf.reduce_mean(h ** 2)
            w.assign_sub(.01 * tape.gradient(loss, w))
            return loss, h
        return function_net(step, {"x": numbers(4, 5)}, steps=5)
    return eager(build)


def cases():
    yield from CASES.items()
    yield "rows_at_a_draw", rows_at_a_draw
    for h_of in (range_of_a_draw, while_a_draw, range_of_an_assignment):
        yield f"traced_{h_of.__name__}", traced(h_of)
