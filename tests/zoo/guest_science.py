"""Programs of the kinds that people of the sciences bring: equations, equilibria, densities, forces, processes, survival, and
learning without one place for all rows."""
from guest_learning import net, plain_loss
from guest_parts import *  # noqa: F403


def stiff(v, x, t, y):
    """A neural equation by Dormand and Prince with steps of their own choice; the adjoint is an equation backwards."""
    w1, w2 = v("w1", 3, 16), v("w2", 16, 3)
    field = lambda z, a, b: tf.tanh(z @ a) @ b
    table = ([], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9], [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
             [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656])
    fifth, off = [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84], [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525]

    def solve(f, z, end):
        def turn(i, now, h, z):
            h = tf.minimum(h, end - now)
            k = []
            for row in table:
                k.append(f(z + h * tf.add_n([c * d for c, d in zip(row, k)]) if row else z))
            error = tf.reduce_max(tf.abs(h * tf.add_n([c * d for c, d in zip(off, k)]))) / 1e-3
            good = error <= 1.0
            z = tf.where(good, z + h * tf.add_n([c * d for c, d in zip(fifth, k)]), z)
            return i + 1, tf.where(good, now + h, now), h * tf.clip_by_value(0.9 * (error + 1e-9) ** -0.2, 0.3, 4.0), z
        return tf.while_loop(lambda i, now, h, z: (now < end - 1e-6) & (i < 60), turn, (0, 0.0, 0.1, z))[3]

    @tf.custom_gradient
    def flow(z, a, b):
        last = solve(lambda q: field(q, a, b), z, t)

        def backward(g):
            def both(state):
                q, adjoint = state[0], state[1]
                with tf.GradientTape() as tape:
                    tape.watch(q)
                    f = field(q, a, b)
                return -tf.stack([f, -tape.gradient(f, q, adjoint)])
            first = solve(both, tf.stack([last, g]), t)
            middle = solve(both, tf.stack([last, g]), t / 2)
            with tf.GradientTape() as tape:
                tape.watch([a, b])
                f = field(middle[0], a, b)
            return (first[1], *(t * s for s in tape.gradient(f, [a, b], middle[1])))
        return last, backward
    return tf.reduce_mean((flow(x @ v("in", 3, 3), w1 + 0.0, w2 + 0.0) - y) ** 2)


def equilibrium(v, x, y):
    """A layer that is a fixed point, found by Anderson's mixing until it stands; its gradient is another fixed point."""
    w, u = 0.3 * v("w", 16, 16), v.dense("u", x, 16)
    f = lambda z, w, u: tf.tanh(z @ w + u)

    def anderson(g, start):
        def turn(i, zs, fs, _):
            r = fs - zs
            gram = tf.einsum("ibd,jbd->ij", r, r) + 1e-4 * tf.eye(3)
            weights = tf.linalg.solve(gram, tf.ones([3, 1]))
            z = tf.einsum("i,ibd->bd", tf.squeeze(weights / tf.reduce_sum(weights), -1), fs)
            new = g(z)
            return i + 1, tf.concat([zs[1:], z[None]], 0), tf.concat([fs[1:], new[None]], 0), tf.norm(new - z) / (tf.norm(new) + 1e-5)
        one = g(start)
        two = g(one)
        zs, fs = tf.stack([start, one, two]), tf.stack([one, two, g(two)])
        end = tf.while_loop(lambda i, z, f, off: (i < 20) & (off > 1e-3), turn, (0, zs, fs, 1.0))
        return end[2][-1], end[0]
    found, count = anderson(lambda z: f(z, tf.stop_gradient(w), tf.stop_gradient(u)), tf.zeros_like(u))

    @tf.custom_gradient
    def implicit(z):
        def backward(g):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(z)
                again = f(z, w, u)
            return anderson(lambda q: tape.gradient(again, z, q) + g, tf.zeros_like(g))[0]
        return tf.identity(z), backward
    return tf.reduce_mean((v.dense("o", implicit(f(found, w, u)), 1) - y) ** 2), count


def real_flow(v, x):
    """RealNVP with 1x1 mixing by LU, actnorm, an autoregressive layer, and what inverting it gives back in a loop."""
    z, logs = x, 0.0
    for i in range(2):
        lower = tf.linalg.set_diag(tf.linalg.band_part(v(f"L{i}", 6, 6), -1, 0), tf.ones([6]))
        upper = tf.linalg.band_part(v(f"U{i}", 6, 6), 0, -1)
        diagonal = tf.exp(v(f"s{i}", 6))
        z = z @ lower @ tf.linalg.set_diag(upper, diagonal) * tf.exp(v(f"a{i}", 6))
        logs += tf.reduce_sum(tf.math.log(diagonal)) + tf.reduce_sum(v(f"a{i}", 6))
        a, b = tf.split(z, 2, -1)
        shift, scale = tf.split(net(v, a, (16,), 6, f"c{i}"), 2, -1)
        scale = 2 * tf.sigmoid(scale + 2)
        z = tf.concat([b * scale + shift, a], -1)
        logs += tf.reduce_sum(tf.math.log(scale), -1)
    mask = tf.constant(np.triu(np.ones((6, 6), F32), 1))
    made = lambda q: tf.tanh(q @ (v("m1", 6, 6) * mask)) @ (v("m2", 6, 6) * mask)
    out = z + made(z)
    back = tf.while_loop(lambda i, q: i < 6, lambda i, q: (i + 1, out - made(q)), (0, out))[1]
    return -tf.reduce_mean(tf.reduce_sum(-0.5 * out ** 2 - 0.919, -1) + logs) + 0.1 * tf.reduce_mean((back - z) ** 2), tf.linalg.slogdet(v("L0", 6, 6))[1]


def langevin(v, feeds):
    """An energy whose samples come from a loop of noisy gradient steps, kept in a buffer from step to step."""
    energy = lambda x: tf.reduce_sum(net(v, x, (32, 32), 1, act=tf.nn.silu), -1)
    energy(feeds["x"])
    chain, n = v.hold("chain", numbers(16, 4)), v.hold("n", tf.constant(0))

    def step(x):
        k = n.assign_add(1)

        def turn(i, z):
            with tf.GradientTape() as tape:
                tape.watch(z)
                e = energy(z)
            return i + 1, z - 0.05 * tape.gradient(e, z) + 0.05 * tf.random.stateless_normal(tf.shape(z), tf.stack([i, k]))
        sample = tf.stop_gradient(tf.while_loop(lambda i, _: i < 8, turn, (0, tf.identity(chain)))[1])
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(energy(x)) - tf.reduce_mean(energy(sample)) + 0.1 * tf.reduce_mean(energy(x) ** 2 + energy(sample) ** 2)
        descend(v.list, tape.gradient(value, v.list), 0.01)
        chain.assign(sample)
        return value, tf.reduce_mean(sample)
    return step


def forces(v, x, f):
    """Forces as gradients of an energy over neighbours that are near: pairs found by tf.where, their number the step's own."""
    far = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
    pairs = tf.where((far < 2.0) & ~tf.eye(tf.shape(x)[0], dtype=tf.bool))
    def energy(x):
        d = tf.gather(x, pairs[:, 0]) - tf.gather(x, pairs[:, 1])
        r = tf.sqrt(tf.reduce_sum(d * d, -1, keepdims=True) + 1e-6)
        waves = tf.exp(-4.0 * (r - tf.linspace(0.0, 2.0, 8)) ** 2) * (0.5 * tf.cos(r * np.pi / 1.5) + 0.5)
        atoms = tf.math.unsorted_segment_sum(net(v, waves, (16,), 8), pairs[:, 0], tf.shape(x)[0])
        return tf.reduce_sum(net(v, atoms, (16,), 1, "e"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        e = energy(x)
    return tf.reduce_mean((-tape.gradient(e, x) - f) ** 2) + 0.01 * e ** 2, tf.shape(pairs)[0]


def hamiltonian(v, q, p, q2):
    """Jacobians by pfor, a symplectic integrator, a loss of its path."""
    energy = lambda q, p: tf.reduce_sum(net(v, tf.concat([q, p], -1), (16,), 1), -1)
    energy(q, p)
    for _ in range(3):
        with tf.GradientTape() as tape:
            tape.watch(q)
            e = energy(q, p)
        p = p - 0.1 * tape.gradient(e, q)
        with tf.GradientTape() as tape:
            tape.watch(p)
            e = energy(q, p)
        q = q + 0.1 * tape.gradient(e, p)
    with tf.GradientTape() as tape:
        tape.watch(q)
        moved = net(v, q, (16,), 3, "m")
    jacobian = tape.batch_jacobian(moved, q)
    return tf.reduce_mean((q - q2) ** 2) + 0.01 * tf.reduce_mean(tf.linalg.logdet(tf.eye(3) + 0.1 * jacobian @ tf.transpose(jacobian, [0, 2, 1])))


def sparse_process(v, x, y):
    """A variational Gaussian process with inducing points, Cholesky factors, natural parameters and quadrature."""
    z = v("z", 8, 2)
    kernel = lambda a, b: tf.exp(-0.5 * tf.reduce_sum(((a[:, None] - b[None]) / tf.nn.softplus(v("scale", 2, value=.5))) ** 2, -1))
    chol = tf.linalg.cholesky(kernel(z, z) + 1e-3 * tf.eye(8))
    a = tf.linalg.triangular_solve(chol, kernel(z, x))
    root = tf.linalg.band_part(v("root", 8, 8), -1, 0) + tf.eye(8)
    mean = tf.squeeze(tf.matmul(a, v("mean", 8, 1), transpose_a=True), -1)
    b = tf.matmul(root, a, transpose_a=True)
    variance = 1.0 - tf.reduce_sum(a * a, 0) + tf.reduce_sum(b * b, 0)
    points, weights = np.polynomial.hermite.hermgauss(10)
    f = mean[:, None] + tf.sqrt(2.0 * tf.maximum(variance, 1e-4))[:, None] * points.astype(F32)
    likely = tf.reduce_sum(tf.math.log_sigmoid((2 * y - 1)[:, None] * f) * (weights / np.sqrt(np.pi)).astype(F32), -1)
    divergence = 0.5 * (tf.reduce_sum(v("mean", 8, 1) ** 2) + tf.reduce_sum(root ** 2) - 8.0 - 2 * tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(root)))))
    return -tf.reduce_mean(likely) + divergence / 32.0


def fourier_layers(v, x, y):
    """A Fourier neural operator: products in a few modes of real transforms in two dimensions."""
    h = v.dense("in", x, 8)
    for i in range(2):
        modes = tf.signal.rfft2d(tf.transpose(h, [0, 3, 1, 2]))
        w = tf.complex(v(f"re{i}", 8, 8, 4, 4) * 0.5, v(f"im{i}", 8, 8, 4, 4) * 0.5)
        w2 = tf.complex(v(f"re2{i}", 8, 8, 4, 4) * 0.5, v(f"im2{i}", 8, 8, 4, 4) * 0.5)
        low = tf.einsum("bixy,ioxy->boxy", modes[:, :, :4, :4], w)
        high = tf.einsum("bixy,ioxy->boxy", modes[:, :, -4:, :4], w2)
        filled = tf.concat([low, tf.zeros([2, 8, 8, 4], tf.complex64), high], 2)
        back = tf.signal.irfft2d(tf.pad(filled, [[0, 0], [0, 0], [0, 0], [0, 5]]), [16, 16])
        h = tf.nn.gelu(tf.transpose(back, [0, 2, 3, 1]) + v.dense(f"s{i}", h, 8))
    return tf.reduce_mean(tf.norm(tf.reshape(v.dense("out", h, 1) - y, [2, -1]), axis=-1) / tf.norm(tf.reshape(y, [2, -1]), axis=-1))


def survival(v, x, times, events):
    """Cox's partial likelihood by sorted, cumulated exponentials, and concordance over all pairs."""
    risk = tf.squeeze(net(v, x), -1)
    order = tf.argsort(times, direction="DESCENDING")
    r, e = tf.gather(risk, order), tf.gather(events, order)
    value = -tf.reduce_sum(e * (r - tf.math.cumulative_logsumexp(r))) / tf.reduce_sum(e)
    comparable = (times[:, None] < times[None]) & (events[:, None] > 0)
    right = tf.reduce_sum(tf.cast(comparable & (risk[:, None] > risk[None]), tf.float32))
    return value, right / tf.reduce_sum(tf.cast(comparable, tf.float32))


def evolution(v, feeds):
    """Antithetic noise and ranks in place of gradients."""
    w = v("w", 30)
    fit = lambda z, x, y: -tf.reduce_mean((tf.tanh(tf.einsum("bi,pij->pbj", x, tf.reshape(z[:, :24], [-1, 3, 8]))) @ tf.reshape(z[:, :8], [-1, 8, 1]) - y) ** 2, [1, 2])
    n = v.hold("n", tf.constant(0))

    def step(x, y):
        noise = tf.random.stateless_normal([8, 30], tf.stack([n.assign_add(1), 2]))
        noise = tf.concat([noise, -noise], 0)
        scores = fit(w + 0.1 * noise, x, y)
        ranks = tf.cast(tf.argsort(tf.argsort(scores)), tf.float32) / 15.0 - 0.5
        w.assign_add(0.2 * tf.linalg.matvec(noise, ranks, transpose_a=True) / 1.6)
        return -tf.reduce_mean(scores), ranks
    return step


def clients(v, feeds):
    """Federated averages: a scan over clients, each with steps of its own over its own rows, weighted by their number."""
    plain_loss(v, feeds["x"][0], feeds["y"][0])
    shapes = [x.shape for x in v.list]

    def run(w, x):
        for i in range(0, 4, 2):
            x = tf.tanh(x @ w[i] + w[i + 1])
        return x @ w[4] + w[5]

    def step(x, y, rows):
        def client(acc, data):
            cx, cy, n = data
            mask = tf.sequence_mask(n, 6, tf.float32)[:, None]

            def turn(k, w):
                with tf.GradientTape() as tape:
                    tape.watch(w)
                    value = tf.reduce_sum(mask * (run(w, cx) - cy) ** 2) / tf.reduce_sum(mask)
                return k + 1, [a - 0.1 * g for a, g in zip(w, tape.gradient(value, w))]
            w = tf.while_loop(lambda k, w: k < n, turn, (0, [tf.identity(z) for z in v.list]))[1]
            share = tf.cast(n, tf.float32)
            return [a + share * (b - c) for a, b, c in zip(acc, w, v.list)]
        sums = tf.foldl(client, (x, y, rows), [tf.zeros(s) for s in shapes])
        total = tf.cast(tf.reduce_sum(rows), tf.float32)
        value = plain_loss(v, tf.reshape(x, [-1, 3]), tf.reshape(y, [-1, 1]))
        for z, s in zip(v.list, sums):
            z.assign_add(s / total)
        return value
    return step


def cases():
    xy = {"x": numbers(16, 3), "y": numbers(16, 1, seed=2)}
    yield "stiff", trained(stiff, {"x": numbers(8, 3), "t": F32(1.0), "y": numbers(8, 3, seed=1)})
    yield "equilibrium", trained(equilibrium, xy)
    yield "real_flow", trained(real_flow, {"x": numbers(16, 6)}, lambda v: Adam(v))
    yield "langevin", stepped(langevin, {"x": numbers(16, 4)})
    yield "forces", trained(forces, {"x": numbers(12, 3), "f": numbers(12, 3, seed=1)})
    yield "hamiltonian", trained(hamiltonian, {"q": numbers(8, 3), "p": numbers(8, 3, seed=1), "q2": numbers(8, 3, seed=2)})
    yield "sparse_process", trained(sparse_process, {"x": numbers(32, 2), "y": integers(2, 32).astype(F32)})
    yield "clients", stepped(clients, {"x": numbers(4, 6, 3), "y": numbers(4, 6, 1), "rows": np.array([6, 2, 0, 3], np.int32)})
    yield "evolution", stepped(evolution, xy)
    yield "fourier_layers", trained(fourier_layers, {"x": numbers(2, 16, 16, 3), "y": numbers(2, 16, 16, 1)}, lambda v: Adam(v))
    yield "survival", trained(survival, {"x": numbers(24, 3), "times": np.abs(numbers(24)), "events": integers(2, 24).astype(F32)})
