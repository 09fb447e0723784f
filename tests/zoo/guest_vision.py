"""Programs of the kinds that people of computer vision bring: detectors, segmentation, generators, geometry, video."""
from guest_parts import *  # noqa: F403


def boxes_feed(batch=2, count=5, seed=3):
    low = np.random.default_rng(seed).uniform(0, .6, (batch, count, 2))
    return np.concatenate([low, low + np.random.default_rng(seed + 1).uniform(.1, .4, (batch, count, 2))], -1).astype(F32)


def overlaps(a, b):
    """[..., A, 4] and [..., B, 4] -> [..., A, B]."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    low, high = tf.maximum(a[..., :2], b[..., :2]), tf.minimum(a[..., 2:], b[..., 2:])
    both = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
    area = lambda x: tf.reduce_prod(x[..., 2:] - x[..., :2], -1)
    return both / (area(a) + area(b) - both + 1e-6)


def anchors_of(size, scales):
    centres = (tf.cast(tf.range(size), tf.float32) + 0.5) / float(size)
    y, x = tf.meshgrid(centres, centres, indexing="ij")
    grid = tf.reshape(tf.stack([y, x], -1), [-1, 1, 2])
    half = tf.constant([[s / 2, s / 2 * r] for s in scales for r in (1.0, 2.0)], tf.float32)[None]
    return tf.reshape(tf.concat([grid - half, grid + half], -1), [-1, 4])


def ssd(v, images, boxes, classes):
    """Anchors, matching, hard negatives by a count of the step's own, suppression of what is found."""
    h = tf.nn.relu6(v.conv("c1", images, 16, stride=2))
    h = tf.nn.relu6(v.conv("c2", h, 32, stride=2))
    small = tf.nn.relu6(v.conv("c3", h, 32, stride=2))
    logits, offsets, anchors = [], [], []
    for name, level, scales in (("a", h, (0.2, 0.3)), ("b", small, (0.5,))):
        count = 2 * len(scales)
        logits.append(tf.reshape(v.conv(f"{name}_cls", level, count * 4), [tf.shape(images)[0], -1, 4]))
        offsets.append(tf.reshape(v.conv(f"{name}_box", level, count * 4), [tf.shape(images)[0], -1, 4]))
        anchors.append(anchors_of(level.shape[1], scales))
    logits, offsets, anchors = tf.concat(logits, 1), tf.concat(offsets, 1), tf.concat(anchors, 0)
    iou = overlaps(tf.broadcast_to(anchors, [tf.shape(images)[0], *anchors.shape]), boxes)
    best, which = tf.reduce_max(iou, -1), tf.argmax(iou, -1, output_type=tf.int32)
    positive = best > 0.35
    target = tf.where(positive, tf.gather(classes, which, batch_dims=1), 0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
    found = tf.reduce_sum(tf.cast(positive, tf.int32))
    negatives = tf.minimum(3 * found + 1, tf.size(losses) - found)
    hard = tf.math.top_k(tf.boolean_mask(losses, ~positive), negatives).values
    matched = tf.gather(boxes, which, batch_dims=1)
    size = anchors[:, 2:] - anchors[:, :2]
    deltas = tf.concat([(matched[..., :2] - anchors[:, :2]) / size, tf.math.log((matched[..., 2:] - matched[..., :2]) / size)], -1)
    off = tf.boolean_mask(offsets - deltas, positive)
    smooth = tf.where(tf.abs(off) < 1.0, 0.5 * off ** 2, tf.abs(off) - 0.5)
    loss = (tf.reduce_sum(tf.boolean_mask(losses, positive)) + tf.reduce_sum(hard) + tf.reduce_sum(smooth)) / (tf.cast(found, tf.float32) + 1.0)
    kept = tf.image.combined_non_max_suppression(
        tf.stop_gradient((anchors + 0.1 * tf.tanh(offsets)))[:, :, None], tf.nn.softmax(logits)[..., 1:], 5, 10, 0.5, 0.2)
    return loss, kept.nmsed_boxes, kept.valid_detections


def faster_rcnn(v, images, boxes, classes):
    """Proposals by suppression, regions cut out by crop_and_resize, heads over those that overlap."""
    h = tf.nn.relu(v.conv("c1", images, 16, stride=2))
    h = tf.nn.relu(v.conv("c2", h, 32, stride=2))
    anchors = anchors_of(8, (0.3, 0.5))
    score = tf.reshape(v.conv("rpn", h, 4, 1), [-1, 256])
    offsets = 0.1 * tf.reshape(v.conv("rpn_box", h, 16, 1), [-1, 256, 4])
    proposals, owners = [], []
    for i in range(images.shape[0]):
        at = tf.clip_by_value(anchors + offsets[i], 0.0, 1.0)
        picked, count = tf.image.non_max_suppression_padded(tf.stop_gradient(at), tf.stop_gradient(score[i]), 12, 0.6, pad_to_max_output_size=True)
        proposals.append(tf.gather(at, picked))
        owners.append(tf.fill([12], i))
    proposals, owners = tf.concat(proposals, 0), tf.concat(owners, 0)
    iou = tf.stack([overlaps(proposals[12 * i:12 * i + 12], boxes[i]) for i in range(images.shape[0])])
    labels = tf.where(tf.reshape(tf.reduce_max(iou, -1), [-1]) > 0.3,
                      tf.reshape(tf.gather(classes, tf.argmax(iou, -1), batch_dims=1), [-1]), 0)
    crops = tf.image.crop_and_resize(h, tf.stop_gradient(proposals), owners, [7, 7])
    flat = tf.nn.relu(v.dense("fc", tf.reshape(tf.nn.max_pool2d(crops, 2, 2, "SAME"), [-1, 4 * 4 * 32]), 64))
    rows = tf.where(labels >= 0)[:, 0]
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(labels, rows), tf.gather(v.dense("cls", flat, 4), rows))
    target = tf.cast(tf.reduce_max(overlaps(tf.broadcast_to(anchors, [images.shape[0], 256, 4]), boxes), -1) > 0.4, tf.float32)
    focal = (1 - 0.5 * tf.abs(target - tf.sigmoid(score))) ** 2 * tf.nn.sigmoid_cross_entropy_with_logits(target, score)
    return tf.reduce_mean(entropy) + tf.reduce_mean(focal) + 0.1 * tf.reduce_sum(tf.abs(proposals - tf.stop_gradient(proposals) + offsets[0, :1])), labels


def roi_align_masks(v, images, boxes, masks):
    """Regions aligned by four bilinear samples a bin, written as gathers; masks of each."""
    h = tf.nn.relu(v.conv("c1", images, 16, stride=2))
    n, size = boxes.shape[1], h.shape[1]
    def align(out=7):
        steps = (tf.cast(tf.range(2 * out), tf.float32) + 0.5) / (2.0 * out)
        at = boxes[:, :, None, :2] + steps[None, None, :, None] * (boxes[..., 2:] - boxes[..., :2])[:, :, None]
        at = at * float(size - 1)
        low = tf.floor(at)
        rest, low = at - low, tf.cast(low, tf.int32)
        high = tf.minimum(low + 1, size - 1)
        rows = lambda y: tf.gather(h, tf.reshape(y, [-1, n * 2 * out]), axis=1, batch_dims=1)
        def columns(strip, x):
            strip = tf.reshape(strip, [-1, n, 2 * out, size, 16])
            return tf.gather(strip, tf.tile(x[:, :, None], [1, 1, 2 * out, 1]), axis=3, batch_dims=3)
        ry, rx = rest[..., 0][..., None, None], rest[:, :, None, :, 1][..., None]
        y0, y1, x0, x1 = low[..., 0], high[..., 0], low[..., 1], high[..., 1]
        sampled = ((1 - ry) * ((1 - rx) * columns(rows(y0), x0) + rx * columns(rows(y0), x1))
                   + ry * ((1 - rx) * columns(rows(y1), x0) + rx * columns(rows(y1), x1)))
        return tf.nn.avg_pool2d(tf.reshape(sampled, [-1, 2 * out, 2 * out, 16]), 2, 2, "VALID")
    crops = tf.nn.relu(v.conv("m1", align(), 16))
    up = tf.nn.conv2d_transpose(crops, v("up", 2, 2, 8, 16), [tf.shape(crops)[0], 14, 14, 8], 2)
    logits = tf.squeeze(v.conv("m2", tf.nn.relu(up), 1, 1), -1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(tf.reshape(masks, [-1, 14, 14]), logits))


def set_matching(v, images, boxes, classes):
    """DETR: queries attend to the image; pairs are found by an auction that runs until every box has a query."""
    h = tf.nn.relu(v.conv("c1", images, 16, stride=4))
    memory = tf.reshape(h, [tf.shape(h)[0], -1, 16])
    queries = tf.tile(v("queries", 8, 16)[None], [tf.shape(h)[0], 1, 1])
    weights = tf.nn.softmax(tf.matmul(v.dense("q", queries, 16), v.dense("k", memory, 16), transpose_b=True) / 4.0)
    out = v.norm("n", queries + weights @ v.dense("vv", memory, 16))
    logits, found = v.dense("cls", out, 4), tf.sigmoid(v.dense("box", out, 4))
    cost = tf.reduce_sum(tf.abs(found[:, :, None] - boxes[:, None]), -1) - tf.gather(tf.nn.softmax(logits), tf.tile(classes[:, None], [1, 8, 1]), axis=2, batch_dims=2)
    count = boxes.shape[1]

    def match(benefit):
        def bid(owner, prices):
            row = tf.argmin(tf.where(owner < 0, 0, 1), output_type=tf.int32)
            value = benefit[row] - prices
            top = tf.math.top_k(value, 2)
            query = top.indices[0]
            owner = tf.where(owner == query, -1, owner)
            owner = tf.tensor_scatter_nd_update(owner, [[row]], [query])
            return owner, tf.tensor_scatter_nd_add(prices, [[query]], [top.values[0] - top.values[1] + 0.01])
        return tf.while_loop(lambda owner, _: tf.reduce_any(owner < 0), bid, (tf.fill([count], -1), tf.zeros([8])), maximum_iterations=200)[0]
    pairs = tf.stack([match(-tf.stop_gradient(tf.transpose(cost[i]))) for i in range(images.shape[0])])
    picked = tf.gather(found, pairs, batch_dims=1)
    target = tf.reduce_max(tf.one_hot(pairs, 8, axis=-1, dtype=tf.int32) * classes[..., None], 1)
    return softmax_loss(logits, target) + tf.reduce_mean(tf.abs(picked - boxes)), pairs


def dilated_segmentation(v, images, labels):
    """Atrous convolutions both ways, a pyramid, image pooling, upsampling, and the Lovasz loss, which sorts."""
    h = tf.nn.relu(v.group_norm("n1", v.conv("c1", images, 16, stride=2)))
    h = tf.nn.relu(v.group_norm("n2", v.conv("c2", h, 16, dilation=2)) + h)
    spread = tf.nn.relu(tf.nn.atrous_conv2d(h, v("atrous", 3, 3, 16, 16), 3, "SAME"))
    apart = tf.nn.separable_conv2d(h, v("depth", 3, 3, 16, 1), v("point", 1, 1, 16, 16), [1, 1, 1, 1], "SAME", dilations=[4, 4])
    pooled = tf.broadcast_to(v.conv("pool", tf.reduce_mean(h, [1, 2], keepdims=True), 16, 1), tf.shape(h))
    logits = v.conv("out", tf.concat([h, spread, tf.nn.relu(apart), pooled], -1), 4, 1)
    logits = tf.image.resize(logits, images.shape[1:3], "bilinear")
    p = tf.reshape(tf.nn.softmax(logits), [-1, 4])
    def lovasz(c):
        truth = tf.cast(tf.equal(tf.reshape(labels, [-1]), c), tf.float32)
        errors = tf.abs(truth - p[:, c])
        order = tf.argsort(errors, direction="DESCENDING")
        truth = tf.gather(truth, order)
        both = tf.reduce_sum(truth) - tf.cumsum(truth)
        jaccard = 1.0 - both / (tf.reduce_sum(truth) + tf.cumsum(1.0 - truth) + 1e-9)
        jaccard = tf.concat([jaccard[:1], jaccard[1:] - jaccard[:-1]], 0)
        return tf.reduce_sum(tf.gather(errors, order) * tf.stop_gradient(jaccard))
    confusion = tf.math.confusion_matrix(tf.reshape(labels, [-1]), tf.argmax(p, -1), 4)
    return softmax_loss(logits, labels) + tf.add_n([lovasz(c) for c in range(4)]) / 4.0, confusion


def wave_embedding(t, size):
    frequencies = tf.exp(-np.log(1e4).astype(F32) * tf.range(0.0, size // 2) / (size // 2))
    angles = tf.cast(t, tf.float32)[:, None] * frequencies
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)


def diffusion_net(v, noisy, t):
    time = v.dense("t2", tf.nn.silu(v.dense("t1", wave_embedding(t, 32), 64)), 64)
    def block(name, x, size):
        h = v.conv(f"{name}_a", tf.nn.silu(v.group_norm(f"{name}_n", x)), size)
        scale, shift = tf.split(v.dense(f"{name}_t", tf.nn.silu(time), 2 * size)[:, None, None], 2, -1)
        h = v.conv(f"{name}_b", tf.nn.silu(v.group_norm(f"{name}_m", h) * (1 + scale) + shift), size)
        return h + (x if x.shape[-1] == size else v.conv(f"{name}_s", x, size, 1))
    def attend(name, x):
        q, k, w = tf.split(v.conv(f"{name}_qkv", v.group_norm(f"{name}_n", x), 3 * x.shape[-1], 1), 3, -1)
        flat = lambda z: tf.reshape(z, [tf.shape(z)[0], -1, z.shape[-1]])
        mixed = tf.nn.softmax(tf.matmul(flat(q), flat(k), transpose_b=True) / 4.0) @ flat(w)
        return x + v.conv(f"{name}_o", tf.reshape(mixed, tf.shape(x)), x.shape[-1], 1)
    a = block("d1", v.conv("in", noisy, 16), 16)
    b = block("d2", v.conv("down", a, 16, stride=2), 32)
    m = block("m2", attend("at", block("m1", v.conv("down2", b, 32, stride=2), 32)), 32)
    u = block("u2", tf.concat([tf.image.resize(m, b.shape[1:3], "nearest"), b], -1), 32)
    u = block("u1", tf.concat([tf.repeat(tf.repeat(u, 2, 1), 2, 2), a], -1), 16)
    return v.conv("out", tf.nn.silu(v.group_norm("on", u)), 3)


def diffusion(v, feeds):
    """Noise and times drawn in the step, AdamW, averages of weights with a warm-up, clipping by global norm."""
    betas = np.linspace(1e-4, 0.02, 100)
    kept = np.cumprod(1 - betas).astype(F32)

    def loss(v, images, t, noise):
        alpha = tf.gather(kept, t)[:, None, None, None]
        noisy = tf.sqrt(alpha) * images + tf.sqrt(1 - alpha) * noise
        off = tf.reduce_mean((diffusion_net(v, noisy, t) - noise) ** 2, [1, 2, 3])
        signal = alpha[:, 0, 0, 0] / (1 - alpha[:, 0, 0, 0])
        return tf.reduce_mean(off * tf.minimum(signal, 5.0) / signal)
    loss(v, feeds["images"], tf.constant([1, 2, 3, 4]), feeds["images"])
    adam = Adam(v, rate=2e-3, decay=0.01)
    shadows = [tf.Variable(x, trainable=False, name="ema") for x in v.list]

    def step(images):
        n = tf.cast(adam.step, tf.int32)
        t = tf.random.stateless_uniform([4], tf.stack([n, 3]), maxval=100, dtype=tf.int32)
        noise = tf.random.stateless_normal(tf.shape(images), tf.stack([n, 5]))
        value, _, gradients = gradients_of(v, loss, images, t, noise)
        gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
        adam.apply(gradients)
        decay = tf.minimum(0.999, (1.0 + tf.cast(n, tf.float32)) / (10.0 + tf.cast(n, tf.float32)))
        for shadow, x in zip(shadows, v.list):
            shadow.assign(decay * shadow + (1 - decay) * x)
        return value, norm
    return step


def denoising_loop(v, feeds):
    """Sampling with DDIM in a loop, gradients of a guide's score through all of it."""
    net = lambda x, t: diffusion_net(v, x, tf.fill([tf.shape(x)[0]], t))
    net(feeds["images"], tf.constant(3))
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, 100)).astype(F32)

    def sampled(x):
        def turn(i, x):
            a, b = tf.gather(kept, 80 - 20 * i), tf.gather(kept, 60 - 20 * i)
            eps = net(x, 80 - 20 * i)
            return i + 1, tf.sqrt(b) * (x - tf.sqrt(1 - a) * eps) / tf.sqrt(a) + tf.sqrt(1 - b) * eps
        return tf.while_loop(lambda i, _: i < 4, turn, (tf.constant(0), x))[1]

    def step(images):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean((sampled(images) - 0.5) ** 2)
        descend(v.list, tape.gradient(value, v.list), 0.01)
        return value
    return step


def gan(v, feeds):
    """Critic and generator in turns: whose turn it is follows from the step's number; spectral norms by power iteration."""
    critic, generator = Vars(), Vars()
    sizes = [tf.Variable(numbers(1, n, seed=n), trainable=False, name="u") for n in (16, 32)]

    def judge(x, update):
        h = x
        for i, (u, channels) in enumerate(zip(sizes, (16, 32))):
            kernel = critic(f"c{i}", 4, 4, h.shape[-1], channels)
            flat = tf.reshape(kernel, [-1, channels])
            right = tf.math.l2_normalize(tf.matmul(u, flat, transpose_b=True))
            left = tf.math.l2_normalize(right @ flat)
            if update:
                u.assign(left)
            sigma = tf.squeeze(tf.matmul(tf.stop_gradient(right) @ flat, tf.stop_gradient(left), transpose_b=True))
            h = tf.nn.leaky_relu(tf.nn.conv2d(h, kernel / sigma, 2, "SAME"), 0.2)
        return critic.dense("o", tf.reshape(h, [tf.shape(h)[0], 8 * 8 * 32]), 1)

    def make(z):
        h = tf.reshape(generator.dense("in", z, 8 * 8 * 32), [-1, 8, 8, 32])
        for i, channels in enumerate((16, 8)):
            kernel = generator(f"g{i}", 4, 4, channels, h.shape[-1])
            h = tf.nn.conv2d_transpose(h, kernel, [tf.shape(z)[0], 16 * 2 ** i, 16 * 2 ** i, channels], 2)
            h = tf.nn.relu(generator.norm(f"n{i}", h, (0, 1, 2)))
        return tf.tanh(generator.conv("out", h, 3))
    judge(make(feeds["z"]), False)
    optimizers = Adam(v, critic.list, 1e-3, "ca"), Adam(v, generator.list, 1e-3, "ga")
    turn = tf.Variable(0, trainable=False, name="turn")

    def step(images, z):
        def of_critic():
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(tf.nn.relu(1 - judge(images, True))) + tf.reduce_mean(tf.nn.relu(1 + judge(make(z), False)))
            optimizers[0].apply(tape.gradient(value, critic.list))
            return value

        def of_generator():
            with tf.GradientTape() as tape:
                value = -tf.reduce_mean(judge(make(z), False))
            optimizers[1].apply(tape.gradient(value, generator.list))
            return value
        value = tf.cond(turn % 2 < 1, of_critic, of_generator)
        turn.assign_add(1)
        return value
    return step


def critics_turns(v, feeds):
    """WGAN-GP with several turns of the critic, a loop in the step that updates variables; the penalty's second derivatives."""
    critic, generator = Vars(), Vars()
    judge = lambda x: critic.dense("o", tf.reshape(tf.nn.leaky_relu(critic.conv("b", tf.nn.leaky_relu(critic.conv("a", x, 16, stride=2)), 32, stride=2)), [-1, 8 * 8 * 32]), 1)
    make = lambda z: tf.tanh(generator.conv("o", tf.nn.relu(tf.nn.depth_to_space(tf.reshape(generator.dense("i", z, 16 * 16 * 32), [-1, 16, 16, 32]), 2)), 3))
    judge(make(feeds["z"]))

    def step(images, z):
        fake = tf.stop_gradient(make(z))

        def turn(i, _):
            mix = tf.random.stateless_uniform([4, 1, 1, 1], tf.stack([i, 7]))
            between = mix * images + (1 - mix) * fake
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    inner.watch(between)
                    score = judge(between)
                slope = tf.sqrt(tf.reduce_sum(inner.gradient(score, between) ** 2, [1, 2, 3]) + 1e-8)
                value = tf.reduce_mean(judge(fake)) - tf.reduce_mean(judge(images)) + 10.0 * tf.reduce_mean((slope - 1) ** 2)
            descend(critic.list, outer.gradient(value, critic.list), 0.002)
            return i + 1, value
        value = tf.while_loop(lambda i, _: i < 3, turn, (tf.constant(0), tf.constant(0.0)))[1]
        with tf.GradientTape() as tape:
            other = -tf.reduce_mean(judge(make(z)))
        descend(generator.list, tape.gradient(other, generator.list), 0.01)
        return value + other
    return step


def hyper_filters(v, images, y):
    """Filters made per image by another net: map_fn over convolutions, and the same as one grouped convolution."""
    code = tf.nn.relu(v.dense("code", tf.reduce_mean(images, [1, 2]), 16))
    kernels = tf.reshape(v.dense("kernels", code, 3 * 3 * 3 * 8), [-1, 3, 3, 3, 8]) * 0.2
    each = tf.map_fn(lambda pair: tf.nn.conv2d(pair[0][None], pair[1], 1, "SAME")[0], (images, kernels), fn_output_signature=tf.float32)
    wide = tf.reshape(tf.transpose(images, [1, 2, 0, 3]), [1, 32, 32, 4 * 3])
    grouped = tf.nn.conv2d(wide, tf.reshape(tf.transpose(kernels, [1, 2, 3, 0, 4]), [3, 3, 3, 4 * 8]), 1, "SAME")
    grouped = tf.transpose(tf.reshape(grouped, [32, 32, 4, 8]), [2, 0, 1, 3])
    h = tf.nn.relu(each) + tf.nn.sigmoid(grouped)
    return softmax_loss(v.dense("o", tf.reduce_max(h, [1, 2]), 5), y)


def optical_flow(v, first, second):
    """RAFT: all pairs' correlations, looked up around where each pixel has moved to, by a recurrent net in a loop."""
    f1, f2 = (tf.nn.relu(v.conv("f", x, 16, stride=4)) for x in (first, second))
    pairs = tf.einsum("bijc,bklc->bijkl", f1, f2) / 4.0
    n = f1.shape[1]
    grid = tf.cast(tf.stack(tf.meshgrid(tf.range(n), tf.range(n), indexing="ij"), -1), tf.float32)

    def look_up(flow):
        at = grid + flow
        seen = []
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                place = at + tf.constant([dy, dx], tf.float32)
                low = tf.floor(place)
                rest = place - low
                def corner(oy, ox):
                    cell = tf.clip_by_value(tf.cast(low, tf.int32) + [oy, ox], 0, n - 1)
                    weight = tf.abs(1.0 - oy - rest[..., 0]) * tf.abs(1.0 - ox - rest[..., 1])
                    return weight * tf.gather_nd(pairs, cell, batch_dims=3)
                seen.append(tf.add_n([corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)]))
        return tf.stack(seen, -1)

    def turn(i, h, flow, total):
        x = tf.concat([h, look_up(tf.stop_gradient(flow)), flow, f1], -1)
        z, r = tf.sigmoid(v.conv("z", x, 16)), tf.sigmoid(v.conv("r", x, 16))
        fresh = tf.tanh(v.conv("q", tf.concat([r * h, x[..., 16:]], -1), 16))
        h = (1 - z) * h + z * fresh
        flow = flow + v.conv("delta", h, 2)
        warped = tf.gather_nd(f2, tf.clip_by_value(tf.cast(tf.round(grid + flow), tf.int32), 0, n - 1), batch_dims=1)
        return i + 1, h, flow, total + 0.8 ** (3.0 - tf.cast(i, tf.float32)) * tf.reduce_mean(tf.abs(warped - f1) + 0.1 * tf.reduce_sum(tf.abs(flow), -1, keepdims=True))
    turn(tf.constant(0), tf.tanh(f1), tf.zeros([2, n, n, 2]), 0.0)
    state = (tf.constant(0), tf.tanh(f1), tf.zeros([2, n, n, 2]), tf.constant(0.0))
    return tf.while_loop(lambda i, *_: i < 4, turn, state)[3]


def depth_of_stereo(v, left, right):
    """Disparities, warping by them, structural similarity, smoothness weighted by edges, at two scales."""
    h = tf.nn.elu(v.conv("a", left, 16, 5, 2))
    h = tf.nn.elu(v.conv("b", h, 32, 3, 2))
    loss = 0.0
    for i, scale in enumerate((16, 32)):
        h = tf.nn.elu(v.conv(f"u{i}", tf.image.resize(h, [scale, scale], "bilinear"), 16))
        disparity = 0.3 * tf.sigmoid(v.conv(f"d{i}", h, 1))
        l, r = tf.image.resize(left, [scale, scale], "area"), tf.image.resize(right, [scale, scale], "area")
        x = tf.cast(tf.range(scale), tf.float32)[None, None] - disparity[..., 0] * scale
        x = tf.clip_by_value(x, 0.0, scale - 1.001)
        low = tf.cast(tf.floor(x), tf.int32)
        rest = (x - tf.floor(x))[..., None]
        warped = (1 - rest) * tf.gather(r, low, axis=2, batch_dims=2) + rest * tf.gather(r, low + 1, axis=2, batch_dims=2)
        similar = tf.image.ssim(l, warped, 2.0, filter_size=5)
        edges = tf.exp(-tf.reduce_mean(tf.abs(l[:, :, 1:] - l[:, :, :-1]), -1, keepdims=True))
        loss += tf.reduce_mean(1 - similar) + tf.reduce_mean(tf.abs(l - warped)) + tf.reduce_mean(tf.abs(disparity[:, :, 1:] - disparity[:, :, :-1]) * edges)
    return loss


def keypoints(v, images, points):
    """Heatmaps with Gaussians drawn in the step, soft argmax, left and right halves swapped by a flip."""
    def net(x):
        h = tf.nn.relu(v.conv("a", x, 16, stride=2))
        return v.conv("c", tf.nn.relu(v.conv("b", h, 16)), 6)
    heat = net(images) + tf.gather(tf.reverse(net(tf.image.flip_left_right(images)), [2]), [1, 0, 3, 2, 5, 4], axis=-1)
    n = heat.shape[1]
    p = tf.reshape(tf.nn.softmax(tf.reshape(heat, [-1, n * n, 6]), axis=1), [-1, n, n, 6])
    line = tf.linspace(0.0, 1.0, n)
    where = tf.stack([tf.einsum("bijk,i->bk", p, line), tf.einsum("bijk,j->bk", p, line)], -1)
    gaussian = tf.exp(-((line[None, :, None, None] - points[:, None, None, :, 0]) ** 2 + (line[None, None, :, None] - points[:, None, None, :, 1]) ** 2) / 0.02)
    right = tf.reduce_mean(tf.cast(tf.norm(where - points, axis=-1) < 0.3, tf.float32))
    return tf.reduce_mean(tf.abs(where - points)) + tf.reduce_mean((tf.sigmoid(heat) - gaussian) ** 2), right


def video(v, clips, y):
    """(2+1)D convolutions, shifts along time, a convolutional LSTM by a loop over time."""
    h = tf.nn.relu(tf.nn.conv3d(clips, v("s", 1, 3, 3, 3, 8), [1, 1, 2, 2, 1], "SAME"))
    h = tf.nn.relu(tf.nn.conv3d(h, v("t", 3, 1, 1, 8, 8), [1] * 5, "SAME"))
    shifted = tf.concat([tf.pad(h[:, 1:, ..., :2], [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]]), tf.pad(h[:, :-1, ..., 2:4], [[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]), h[..., 4:]], -1)
    frames = tf.transpose(shifted, [1, 0, 2, 3, 4])
    v.conv("lstm", tf.zeros([1, 4, 4, 16]), 32)

    def cell(state, x):
        c, hidden = state
        i, f, o, g = tf.split(v.conv("lstm", tf.concat([x, hidden], -1), 32), 4, -1)
        c = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(g)
        return c, tf.sigmoid(o) * tf.tanh(c)
    start = tf.zeros_like(frames[0])
    states = tf.scan(cell, frames, (start, start))[1]
    pooled = tf.nn.max_pool3d(tf.transpose(states, [1, 0, 2, 3, 4]), [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "VALID")
    return softmax_loss(v.dense("o", tf.reduce_mean(pooled, [1, 2, 3]), 5), y)


def hierarchical_rays(v, rays, y):
    """NeRF with a second round of samples, by searchsorted in what the first found, sorted together with it."""
    def field(name, points):
        waves = tf.concat([f(points * 2.0 ** k) for k in range(3) for f in (tf.sin, tf.cos)], -1)
        h = tf.nn.relu(v.dense(f"{name}1", waves, 32))
        out = v.dense(f"{name}2", h, 4)
        return tf.sigmoid(out[..., :3]), tf.nn.softplus(out[..., 3])
    def render(name, z):
        colour, density = field(name, rays[:, None, :3] + rays[:, None, 3:] * z[..., None])
        delta = tf.concat([z[:, 1:] - z[:, :-1], 0.1 * tf.ones_like(z[:, :1])], -1)
        alpha = 1 - tf.exp(-density * delta)
        weights = alpha * tf.math.cumprod(1 - alpha + 1e-10, -1, exclusive=True)
        return tf.einsum("rs,rsc->rc", weights, colour), weights
    z = tf.tile(tf.linspace(0.1, 1.0, 16)[None], [64, 1])
    coarse, weights = render("c", z)
    pdf = tf.stop_gradient(weights[:, 1:-1]) + 1e-5
    cdf = tf.pad(tf.cumsum(pdf / tf.reduce_sum(pdf, -1, keepdims=True), -1), [[0, 0], [1, 0]])
    u = tf.tile(tf.linspace(0.02, 0.98, 12)[None], [64, 1])
    at = tf.searchsorted(cdf, u, side="right")
    low, high = tf.maximum(at - 1, 0), tf.minimum(at, cdf.shape[1] - 1)
    middle = 0.5 * (z[:, 1:] + z[:, :-1])
    c0, c1 = (tf.gather(cdf, k, batch_dims=1) for k in (low, high))
    z0, z1 = (tf.gather(middle, k, batch_dims=1) for k in (low, high))
    fine = z0 + (u - c0) / tf.where(c1 - c0 < 1e-5, tf.ones_like(c0), c1 - c0) * (z1 - z0)
    final, _ = render("f", tf.sort(tf.concat([z, fine], -1), -1))
    return tf.reduce_mean((coarse - y) ** 2) + tf.reduce_mean((final - y) ** 2)


def points_in_space(v, cloud, y):
    """PointNet++: farthest points one by one in a loop, neighbours by distance, largest features of each group."""
    def far(points, count):
        def turn(i, chosen, distance):
            last = tf.gather(points, chosen[:, i - 1], batch_dims=1)
            distance = tf.minimum(distance, tf.reduce_sum((points - last[:, None]) ** 2, -1))
            rows = tf.stack([tf.range(2), tf.fill([2], i)], -1)
            return i + 1, tf.tensor_scatter_nd_update(chosen, rows, tf.argmax(distance, -1, output_type=tf.int32)), distance
        return tf.while_loop(lambda i, *_: i < count, turn, (1, tf.zeros([2, count], tf.int32), tf.fill([2, points.shape[1]], 1e9)))[1]
    features = cloud
    points = cloud
    for level, (count, near, size) in enumerate(((24, 8, 16), (6, 4, 32))):
        centres = tf.gather(points, tf.stop_gradient(far(points, count)), batch_dims=1)
        square = tf.reduce_sum((centres[:, :, None] - points[:, None]) ** 2, -1)
        index = tf.math.top_k(-square, near).indices
        groups = tf.concat([tf.gather(points, index, batch_dims=1) - centres[:, :, None], tf.gather(features, index, batch_dims=1)], -1)
        features = tf.reduce_max(tf.nn.relu(v.dense(f"l{level}", groups, size)), 2)
        points = centres
    return softmax_loss(v.dense("o", tf.reduce_max(features, 1), 4), y)


def routed_capsules(v, images, y):
    """Capsules whose routing is a loop with gradients; margin loss and a reconstruction masked by the answer."""
    def squash(x):
        square = tf.reduce_sum(x * x, -1, keepdims=True)
        return square / (1 + square) * x * tf.math.rsqrt(square + 1e-8)
    h = tf.nn.relu(v.conv("a", images, 16, 5, 2, "VALID"))
    u = squash(tf.reshape(v.conv("b", h, 32, 5, 2, "VALID"), [-1, 25 * 4, 8]))
    votes = tf.einsum("bni,njio->bnjo", u, v("w", 100, 5, 8, 8))

    def turn(i, logits, _):
        s = squash(tf.einsum("bnj,bnjo->bjo", tf.nn.softmax(logits), votes))
        return i + 1, logits + tf.einsum("bnjo,bjo->bnj", votes, s), s
    found = tf.while_loop(lambda i, *_: i < 3, turn, (0, tf.zeros([4, 100, 5]), tf.zeros([4, 5, 8])))[2]
    lengths = tf.norm(found + 1e-9, axis=-1)
    target = tf.one_hot(y, 5)
    margin = target * tf.nn.relu(0.9 - lengths) ** 2 + 0.5 * (1 - target) * tf.nn.relu(lengths - 0.1) ** 2
    again = v.dense("r", tf.reshape(found * target[..., None], [-1, 40]), 300)
    return tf.reduce_mean(tf.reduce_sum(margin, -1)) + 0.0005 * tf.reduce_mean((again - tf.reshape(images, [4, -1])[:, :300]) ** 2)


def pixel_logistics(v, images):
    """PixelCNN++: masked convolutions, a mixture of discretised logistics."""
    mask = np.ones((5, 5, 3, 24), F32)
    mask[2, 2:], mask[3:] = 0, 0
    h = tf.nn.conv2d(images, v("a", 5, 5, 3, 24) * mask, 1, "SAME")
    a, b = tf.split(tf.nn.conv2d(tf.pad(tf.nn.elu(h), [[0, 0], [2, 0], [1, 1], [0, 0]])[:, :-1], v("b", 2, 3, 24, 48), 1, "VALID"), 2, -1)
    h = h + a * tf.sigmoid(b)
    logits, means, scales = tf.split(tf.reshape(v.conv("o", tf.nn.elu(h), 3 * 3 * 5, 1), [-1, 16, 16, 3, 15]), 3, -1)
    scales = tf.maximum(scales, -5.0)
    off = images[..., None] - means
    up, down = tf.exp(-scales) * (off + 1 / 255.0), tf.exp(-scales) * (off - 1 / 255.0)
    mass = tf.sigmoid(up) - tf.sigmoid(down)
    middle = tf.exp(-scales) * off
    logs = tf.where(images[..., None] < -0.999, up - tf.nn.softplus(up),
                    tf.where(images[..., None] > 0.999, -tf.nn.softplus(down),
                             tf.where(mass > 1e-5, tf.math.log(tf.maximum(mass, 1e-12)), middle - scales - 2 * tf.nn.softplus(middle) - np.log(127.5).astype(F32))))
    return -tf.reduce_mean(tf.reduce_logsumexp(logs + tf.nn.log_softmax(logits), -1))


def cases():
    image, boxes, y = {"images": images()}, {"boxes": boxes_feed()}, {"y": integers(5, 4)}
    two = {"images": images(2), **boxes, "classes": 1 + integers(3, 2, 5)}
    yield "ssd", trained(ssd, two)
    yield "faster_rcnn", trained(faster_rcnn, two)
    yield "roi_align_masks", trained(roi_align_masks, {"images": images(2), **boxes, "masks": (numbers(2, 5, 14, 14) > 0).astype(F32)})
    yield "set_matching", trained(set_matching, two)
    yield "dilated_segmentation", trained(dilated_segmentation, {"images": images(4, 48), "labels": integers(4, 4, 48, 48)})
    yield "diffusion", stepped(diffusion, image)
    yield "denoising_loop", stepped(denoising_loop, {"images": images(2)})
    for case in (gan, critics_turns):
        yield case.__name__, stepped(case, {**image, "z": numbers(4, 16)}, steps=4)
    yield "hyper_filters", trained(hyper_filters, {**image, **y})
    yield "optical_flow", trained(optical_flow, {"first": images(2), "second": images(2, seed=4)})
    yield "depth_of_stereo", trained(depth_of_stereo, {"left": images(2), "right": images(2, seed=4)})
    yield "keypoints", trained(keypoints, {**image, "points": np.abs(numbers(4, 6, 2)) % 1})
    yield "video", trained(video, {"clips": numbers(4, 6, 16, 16, 3), **y})
    yield "hierarchical_rays", trained(hierarchical_rays, {"rays": numbers(64, 6), "y": np.abs(numbers(64, 3)) % 1})
    yield "points_in_space", trained(points_in_space, {"cloud": numbers(2, 96, 3), "y": integers(4, 2)})
    yield "routed_capsules", trained(routed_capsules, {**image, **y})
    yield "pixel_logistics", trained(pixel_logistics, {"images": np.clip(numbers(4, 16, 16, 3), -1, 1)})
