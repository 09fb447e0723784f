"""Programs of the kinds that people of learning itself bring: second derivatives, steps within steps, precision and scaling,
reinforcement, averages of every kind."""
from guest_parts import *  # noqa: F403


def net(v, x, sizes=(32, 32), out=1, name="l", act=tf.tanh):
    for i, size in enumerate(sizes):
        x = act(v.dense(f"{name}{i}", x, size))
    return v.dense(f"{name}o", x, out)


def plain_loss(v, x, y):
    return tf.reduce_mean((net(v, x) - y) ** 2)


def accumulated(v, feeds):
    """Gradients added up over three calls, clipped by their global norm and applied by a conditional; rates by cosine."""
    plain_loss(v, **feeds)
    sums = [tf.Variable(tf.zeros_like(x), trainable=False, name="sum") for x in v.list]
    adam = Adam(v, rate=0.01)
    calls = tf.Variable(0, trainable=False, name="calls")

    def step(x, y):
        value, _, gradients = gradients_of(v, plain_loss, x, y)
        for total, g in zip(sums, gradients):
            total.assign_add(g / 3.0)
        calls.assign_add(1)

        def apply():
            clipped, norm = tf.clip_by_global_norm([tf.identity(s) for s in sums], 0.5)
            adam.apply(clipped)
            for s in sums:
                s.assign(tf.zeros_like(s))
            return norm
        norm = tf.cond(calls % 3 < 1, apply, lambda: tf.constant(-1.0))
        return value, norm
    return step


def loss_scaled(kind):
    """Half precision with weights kept in float32, a scale that grows, shrinks and skips steps that overflow."""
    def make(v, feeds):
        scale, good = v.hold("scale", tf.constant(2.0 ** 14)), v.hold("good", tf.constant(0))
        small = lambda x: tf.cast(x, kind)

        def loss(v, images, y):
            h = small(images)
            for i, size in enumerate((16, 32)):
                h = tf.nn.relu(tf.nn.conv2d(h, small(v(f"c{i}", 3, 3, h.shape[-1], size)), 2, "SAME") + small(v(f"b{i}", size)))
            h = tf.reduce_mean(h, [1, 2]) @ small(v("o", 32, 5))
            return softmax_loss(tf.cast(h, tf.float32), y)
        loss(v, **feeds)
        momentum = [tf.Variable(tf.zeros_like(x), trainable=False, name="m") for x in v.list]

        def step(images, y):
            with tf.GradientTape() as tape:
                value = loss(v, images, y)
                scaled = value * scale
            gradients = [g / scale for g in tape.gradient(scaled, v.list)]
            finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])

            def apply():
                for x, m, g in zip(v.list, momentum, gradients):
                    x.assign_sub(0.05 * m.assign(0.9 * m + g))
                grow = good.assign_add(1) % 2 < 1
                scale.assign(tf.where(grow, scale * 2.0, scale))
                return 1

            def skip():
                good.assign(0)
                scale.assign(scale / 2.0)
                return 0
            return value, tf.cond(finite, apply, skip)
        return step
    return make


def replayed(v, feeds):
    """DQN: a ring of transitions in variables, priorities, double targets, a target net copied now and then."""
    ring = {"s": v.hold("ring_s", tf.zeros([64, 4])), "a": v.hold("ring_a", tf.zeros([64], tf.int32)), "r": v.hold("ring_r", tf.zeros([64])), "s2": v.hold("ring_s2", tf.zeros([64, 4]))}
    priority, count = v.hold("priority", tf.zeros([64])), v.hold("count", tf.constant(0))
    value_of = lambda s: net(v, s, out=3, act=tf.nn.relu)
    value_of(feeds["s"])
    target = [tf.Variable(x, trainable=False, name="target") for x in v.list]

    def of_target(x):
        for w, b in zip(target[0:4:2], target[1:4:2]):
            x = tf.nn.relu(x @ w + b)
        return x @ target[4] + target[5]

    def step(s, a, r, s2):
        rows = (count + tf.range(8)) % 64
        for name, new in (("s", s), ("a", a), ("r", r), ("s2", s2)):
            ring[name].scatter_nd_update(rows[:, None], new)
        priority.scatter_nd_update(rows[:, None], tf.fill([8], tf.maximum(1.0, tf.reduce_max(priority))))
        n = count.assign_add(8)
        noise = -tf.math.log(-tf.math.log(tf.random.stateless_uniform([64], tf.stack([n, 1]), 1e-6, 1 - 1e-6)))
        picked = tf.math.top_k(tf.where(priority > 0, tf.math.log(priority + 1e-9), -1e9) + noise, 8).indices
        got = {name: tf.gather(x, picked) for name, x in ring.items()}
        with tf.GradientTape() as tape:
            best = tf.argmax(value_of(got["s2"]), -1, output_type=tf.int32)
            goal = got["r"] + 0.9 * tf.gather(of_target(got["s2"]), best, batch_dims=1)
            off = tf.stop_gradient(goal) - tf.gather(value_of(got["s"]), got["a"], batch_dims=1)
            weights = tf.pow(tf.cast(tf.minimum(n, 64), tf.float32) * tf.nn.softmax(priority)[0], -0.5)
            value = tf.reduce_mean(weights * tf.where(tf.abs(off) < 1.0, 0.5 * off * off, tf.abs(off) - 0.5))
        gradients, _ = tf.clip_by_global_norm(tape.gradient(value, v.list), 10.0)
        descend(v.list, gradients)
        priority.scatter_nd_update(picked[:, None], tf.abs(off) + 0.01)

        def copy():
            for t, x in zip(target, v.list):
                t.assign(x)
            return True
        copied = tf.cond(tf.equal(n % 16, 0), copy, lambda: False)
        return value, tf.sort(picked), copied
    return step


def proximal(v, feeds):
    """PPO: advantages by a scan backwards, epochs of shuffled parts in nested loops with updates, a bound on the divergence."""
    def policy(s):
        h = tf.nn.tanh(v.dense("h", s, 32))
        return v.dense("pi", h, 3), tf.squeeze(v.dense("v", h, 1), -1)
    policy(feeds["s"])
    adam = Adam(v, rate=3e-3)

    def step(s, a, r, done):
        logits, values = policy(s)
        old = -tf.nn.sparse_softmax_cross_entropy_with_logits(a, logits)
        after = tf.concat([values[1:], values[-1:]], 0) * (1 - done)
        delta = r + 0.99 * after - values
        advantage = tf.scan(lambda acc, x: x[0] + 0.94 * x[1] * acc, (delta, 1 - done), tf.zeros([]), reverse=True)
        returns = advantage + values
        advantage = (advantage - tf.reduce_mean(advantage)) / (tf.math.reduce_std(advantage) + 1e-6)

        def part(e, k, _):
            order = tf.argsort(tf.random.stateless_uniform([32], tf.stack([e, 11])))
            rows = tf.gather(order, k * 8 + tf.range(8))
            pick = lambda x: tf.gather(x, rows)
            with tf.GradientTape() as tape:
                logits, value = policy(pick(s))
                ratio = tf.exp(-tf.nn.sparse_softmax_cross_entropy_with_logits(pick(a), logits) - pick(old))
                gain = tf.minimum(ratio * pick(advantage), tf.clip_by_value(ratio, 0.8, 1.2) * pick(advantage))
                p = tf.nn.softmax(logits)
                total = -tf.reduce_mean(gain) + 0.5 * tf.reduce_mean((value - pick(returns)) ** 2) + 0.01 * tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p + 1e-9), -1))
            adam.apply(tf.clip_by_global_norm(tape.gradient(total, v.list), 0.5)[0])
            return e, k + 1, total

        def epoch(e, total):
            total = tf.while_loop(lambda e, k, t: k < 4, part, (e, 0, total))[2]
            return e + 1, total
        total = tf.while_loop(lambda e, t: e < 3, epoch, (0, 0.0))[1]
        return total, advantage
    return step


def unrolled_world(v, s, actions, rewards):
    """MuZero: a world's model unrolled, gradients scaled on the way, values as categories of a transformed scale."""
    scaled = lambda x, k: k * x + tf.stop_gradient((1 - k) * x)
    def categories(x):
        x = tf.clip_by_value(tf.sign(x) * (tf.sqrt(tf.abs(x) + 1) - 1) + 0.001 * x, -5.0, 5.0)
        low = tf.floor(x)
        return tf.one_hot(tf.cast(low, tf.int32) + 5, 11) * (1 - x + low)[:, None] + tf.one_hot(tf.cast(low, tf.int32) + 6, 11) * (x - low)[:, None]
    h, loss = v.norm("n", v.dense("e", s, 32)), 0.0
    for i in range(4):
        h = scaled(tf.nn.relu(v.dense("g", tf.concat([h, tf.one_hot(actions[:, i], 3)], -1), 32)), 0.5)
        h = (h - tf.reduce_min(h, -1, keepdims=True)) / (tf.reduce_max(h, -1, keepdims=True) - tf.reduce_min(h, -1, keepdims=True) + 1e-5)
        loss += scaled(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(categories(rewards[:, i]), v.dense("r", h, 11))), 0.25)
    return loss


def maml(v, feeds):
    """Tasks side by side by vectorized_map, each with inner steps of its own rates; gradients of gradients."""
    sizes = [(1, 32), (32,), (32, 1), (1,)]
    weights = [v(f"w{i}", *s) for i, s in enumerate(sizes)]
    rates = [v(f"r{i}", value=0.01) for i in range(4)]
    run = lambda w, x: tf.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]

    def task(data):
        x, y, x2, y2 = data
        w = [tf.identity(x) for x in weights]
        for _ in range(2):
            with tf.GradientTape() as tape:
                tape.watch(w)
                inner = tf.reduce_mean((run(w, x) - y) ** 2)
            w = [a - r * g for a, r, g in zip(w, rates, tape.gradient(inner, w))]
        return tf.reduce_mean((run(w, x2) - y2) ** 2)

    def step(x, y, x2, y2):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(tf.vectorized_map(task, (x, y, x2, y2)))
        descend(v.list, tape.gradient(value, v.list), 0.0002)
        return value
    return step


def looped_inner(v, x, y, x2, y2):
    """Inner steps in a while loop, differentiated through."""
    w, out = v("w", 3, 16), v("o", 16, 1)
    def turn(i, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            inner = tf.reduce_mean((tf.tanh(x @ w) @ out - y) ** 2)
        return i + 1, w - v("rate", value=0.1) * tape.gradient(inner, w)
    turn(0, w + 0.0)
    adapted = tf.while_loop(lambda i, _: i < 4, turn, (0, w + 0.0))[1]
    return tf.reduce_mean((tf.tanh(x2 @ adapted) @ out - y2) ** 2)


def sharpness(v, feeds):
    """SAM: up the slope, a second gradient there, back, and down; weights averaged after a while."""
    plain_loss(v, **feeds)
    average, n = [tf.Variable(x, trainable=False, name="swa") for x in v.list], v.hold("n", tf.constant(0.0))

    def step(x, y):
        value, _, first = gradients_of(v, plain_loss, x, y)
        norm = tf.linalg.global_norm(first)
        up = [0.05 * g / (norm + 1e-9) for g in first]
        for w, e in zip(v.list, up):
            w.assign_add(e)
        there, _, second = gradients_of(v, plain_loss, x, y)
        for w, e in zip(v.list, up):
            w.assign_sub(e)
        descend(v.list, second, 0.1)
        k = n.assign_add(1.0)

        def fold():
            for a, w in zip(average, v.list):
                a.assign(a + (w - a) / (k - 1.0))
            return k
        return value, there, tf.cond(k > 1.0, fold, lambda: 0.0)
    return step


def conjugate_steps(v, feeds):
    """Natural gradients: Fisher products by derivatives both ways, conjugate gradients until the residue is small, a line search."""
    policy = lambda x: tf.nn.log_softmax(net(v, x, (16,), 4))
    policy(feeds["x"])
    flat = lambda xs: tf.concat([tf.reshape(x, [-1]) for x in xs], 0)
    sizes = [int(np.prod(x.shape)) for x in v.list]
    apart = lambda z: [tf.reshape(p, x.shape) for p, x in zip(tf.split(z, sizes), v.list)]

    def loss(x, a, g):
        return -tf.reduce_mean(g * tf.gather(policy(x), a, batch_dims=1))

    def step(x, a, g):
        with tf.GradientTape() as tape:
            value = loss(x, a, g)
        b = flat(tape.gradient(value, v.list))

        def product(p):
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    now = policy(x)
                    kl = tf.reduce_mean(tf.reduce_sum(tf.exp(tf.stop_gradient(now)) * (tf.stop_gradient(now) - now), -1))
                slope = tf.reduce_sum(flat(inner.gradient(kl, v.list)) * p)
            return flat(outer.gradient(slope, v.list)) + 0.1 * p

        def turn(i, z, r, p, rr):
            ap = product(p)
            alpha = rr / tf.tensordot(p, ap, 1)
            z, r = z + alpha * p, r - alpha * ap
            new = tf.tensordot(r, r, 1)
            return i + 1, z, r, r + new / rr * p, new
        start = (0, tf.zeros_like(b), b, b, tf.tensordot(b, b, 1))
        i, z, _, _, rest = tf.while_loop(lambda i, z, r, p, rr: (i < 10) & (rr > 1e-3 * start[4]), turn, start)
        old = [tf.identity(w) for w in v.list]

        def shorter(k, size, _):
            for w, o, d in zip(v.list, old, apart(z)):
                w.assign(o - size * d)
            return k + 1, size * 0.5, loss(x, a, g) < value
        k, _, _ = tf.while_loop(lambda k, size, good: (k < 5) & ~good, shorter, (0, 1.0, False))
        return value, i, k
    return step


def private(v, feeds):
    """Gradients example by example through a convolution by vectorized_map, clipped each, with noise."""
    def loss(v, image, y):
        h = tf.nn.relu(v.conv("c", image[None], 8, stride=2))
        return softmax_loss(v.dense("o", tf.reduce_mean(h, [1, 2]), 5), y[None])
    loss(v, feeds["images"][0], feeds["y"][0])

    def step(images, y):
        def one(pair):
            with tf.GradientTape() as tape:
                value = loss(v, *pair)
            gradients = tape.gradient(value, v.list)
            norm = tf.sqrt(tf.add_n([tf.reduce_sum(g * g) for g in gradients]))
            return value, norm, [g / tf.maximum(1.0, norm) for g in gradients]
        values, norms, gradients = tf.vectorized_map(one, (images, y))
        noisy = [tf.reduce_mean(g, 0) + 0.01 * tf.random.stateless_normal(x.shape, [i, 9]) for i, (g, x) in enumerate(zip(gradients, v.list))]
        descend(v.list, noisy)
        return tf.reduce_mean(values), norms
    return step


def code_book(v, feeds):
    """VQ-VAE with codes averaged by counts in variables, codes without use drawn anew, a straight-through estimate."""
    codes, sums, counts = v.hold("codes", numbers(16, 8)), v.hold("sums", numbers(16, 8)), v.hold("counts", np.ones(16, F32))

    def loss(v, images):
        h = v.conv("e2", tf.nn.relu(v.conv("e1", images, 16, 4, 2)), 8, 4, 2)
        flat = tf.reshape(h, [-1, 8])
        which = tf.argmin(tf.reduce_sum(flat ** 2, 1, keepdims=True) - 2 * tf.matmul(flat, codes, transpose_b=True) + tf.reduce_sum(codes ** 2, 1), 1)
        quantised = tf.reshape(tf.gather(codes, which), tf.shape(h))
        passed = h + tf.stop_gradient(quantised - h)
        up = tf.nn.relu(tf.nn.conv2d_transpose(passed, v("d1", 4, 4, 16, 8), [4, 16, 16, 16], 2))
        out = tf.nn.conv2d_transpose(up, v("d2", 4, 4, 3, 16), [4, 32, 32, 3], 2)
        return tf.reduce_mean((out - images) ** 2) + 0.25 * tf.reduce_mean((h - tf.stop_gradient(quantised)) ** 2), which, flat
    loss(v, **feeds)
    adam = Adam(v)

    def step(images):
        value, (which, flat), gradients = gradients_of(v, loss, images)
        adam.apply(gradients)
        hot = tf.one_hot(which, 16)
        n = counts.assign(0.9 * counts + 0.1 * tf.reduce_sum(hot, 0))
        s = sums.assign(0.9 * sums + 0.1 * tf.matmul(hot, flat, transpose_a=True))
        dead = n < 0.82
        codes.assign(tf.where(dead[:, None], tf.gather(flat, tf.range(16) * 7), s / n[:, None]))
        unique, _, used = tf.unique_with_counts(which)
        return value, tf.size(unique), tf.reduce_max(used)
    return step


def momentum_contrast(v, feeds):
    """MoCo: keys by an averaged net, a queue in a variable written around its end, large similarities, shuffled rows."""
    names = ("c1", "c1_b", "c2", "c2_b", "o", "o_b")
    def encode(w, x):
        h = tf.nn.relu(tf.nn.conv2d(x, w["c1"], 2, "SAME") + w["c1_b"])
        h = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(h, w["c2"], 2, "SAME") + w["c2_b"]), [1, 2])
        return tf.math.l2_normalize(h @ w["o"] + w["o_b"], -1)
    for name, shape in zip(names, ((3, 3, 3, 16), (16,), (3, 3, 16, 32), (32,), (32, 16), (16,))):
        v(name, *shape)
    slow = {name: tf.Variable(x, trainable=False, name=f"slow_{name}") for name, x in v.made.items()}
    queue, place = v.hold("queue", numbers(256, 16)), v.hold("place", tf.constant(250))

    def step(one, other):
        for name, x in v.made.items():
            slow[name].assign(0.9 * slow[name] + 0.1 * x)
        order = tf.argsort(tf.random.stateless_uniform([8], [1, 6]))
        keys = tf.stop_gradient(tf.gather(encode(slow, tf.gather(other, order)), tf.math.invert_permutation(order)))
        with tf.GradientTape() as tape:
            q = encode(v.made, one)
            logits = tf.concat([tf.reduce_sum(q * keys, -1, keepdims=True), tf.matmul(q, tf.math.l2_normalize(queue, -1), transpose_b=True)], -1) / 0.2
            value = softmax_loss(logits, tf.zeros([8], tf.int32))
        descend(v.list, tape.gradient(value, v.list))
        queue.scatter_nd_update(((place + tf.range(8)) % 256)[:, None], keys)
        place.assign((place + 8) % 256)
        return value, place + 0
    return step


def centred_views(v, feeds):
    """DINO: student and averaged teacher, a running centre, large crops and small ones, temperatures by the step."""
    def net(w, x):
        h = tf.nn.gelu(tf.nn.conv2d(x, w["patch"], 4, "VALID"))
        q = tf.reshape(h, [tf.shape(x)[0], -1, 24])
        q += tf.nn.softmax(tf.matmul(q @ w["q"], q @ w["k"], transpose_b=True) / 4.9) @ q
        return tf.math.l2_normalize(tf.reduce_mean(q, 1), -1) @ tf.math.l2_normalize(w["head"], 0)
    for name, shape in (("patch", (4, 4, 3, 24)), ("q", (24, 24)), ("k", (24, 24)), ("head", (24, 64))):
        v(name, *shape)
    teacher = {name: tf.Variable(x, trainable=False, name=f"t_{name}") for name, x in v.made.items()}
    centre, n = v.hold("centre", tf.zeros([64])), v.hold("n", tf.constant(0.0))

    def step(large, small):
        heat = 0.04 + 0.03 * tf.minimum(n / 3.0, 1.0)
        goal = net(teacher, large)
        targets = tf.split(tf.nn.softmax((goal - centre) / heat), 2)
        with tf.GradientTape() as tape:
            views = tf.split(net(v.made, large), 2) + tf.split(net(v.made, small), 2)
            terms = [tf.reduce_mean(-tf.reduce_sum(t * tf.nn.log_softmax(s / 0.1), -1)) for i, t in enumerate(targets) for j, s in enumerate(views) if i != j]
            value = tf.add_n(terms) / len(terms)
        gradients = [tf.clip_by_norm(g, 3.0) for g in tape.gradient(value, v.list)]
        descend(v.list, gradients, 0.1)
        momentum = 1.0 - 0.1 * (tf.cos(np.pi * n / 10.0) + 1.0) / 2.0
        for name, x in v.made.items():
            teacher[name].assign(momentum * teacher[name] + (1 - momentum) * x)
        centre.assign(0.9 * centre + 0.1 * tf.reduce_mean(goal, 0))
        n.assign_add(1.0)
        return value
    return step


def cases():
    xy = {"x": numbers(16, 3), "y": numbers(16, 1, seed=2)}
    y = {"y": integers(5, 4)}
    yield "accumulated", stepped(accumulated, xy, steps=7)
    for kind in (tf.float16, tf.bfloat16):
        yield f"loss_scaled_{kind.name}", stepped(loss_scaled(kind), {"images": 8 * images(), **y}, steps=5, rtol=2e-2)
    yield "replayed", stepped(replayed, {"s": numbers(8, 4), "a": integers(3, 8), "r": numbers(8), "s2": numbers(8, 4, seed=1)}, steps=9)
    yield "proximal", stepped(proximal, {"s": numbers(32, 4), "a": integers(3, 32), "r": numbers(32), "done": (numbers(32) > 1).astype(F32)})
    yield "unrolled_world", trained(unrolled_world, {"s": numbers(6, 8), "actions": integers(3, 6, 4), "rewards": numbers(6, 4)})
    tasks = {"x": numbers(5, 6, 1), "y": numbers(5, 6, 1, seed=1), "x2": numbers(5, 6, 1, seed=2), "y2": numbers(5, 6, 1, seed=3)}
    yield "maml", stepped(maml, tasks)
    yield "looped_inner", trained(looped_inner, {"x": numbers(6, 3), "y": numbers(6, 1), "x2": numbers(6, 3, seed=1), "y2": numbers(6, 1, seed=1)})
    yield "sharpness", stepped(sharpness, xy, steps=4)
    yield "conjugate_steps", stepped(conjugate_steps, {"x": numbers(16, 3), "a": integers(4, 16), "g": numbers(16)})
    yield "private", stepped(private, {"images": images(8, 16), "y": integers(5, 8)})
    yield "code_book", stepped(code_book, {"images": images()})
    yield "momentum_contrast", stepped(momentum_contrast, {"one": images(8), "other": images(8, seed=1)}, steps=4)
    yield "centred_views", stepped(centred_views, {"large": images(8), "small": images(8, 16)})
