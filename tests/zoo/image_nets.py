"""TF1-style image nets: tf-slim's habits, NCHW, adversarial nets, detection, segmentation, augmentation in the graph."""
import numpy as np
import tensorflow as tf

from zoo import Net

tf1 = tf.compat.v1


def variable(name, shape, scale=0.1, trainable=True, initializer=None):
    initializer = initializer or tf1.truncated_normal_initializer(0, scale, seed=len(name))
    return tf1.get_variable(name, shape, initializer=initializer, trainable=trainable, use_resource=True)


def conv(x, width, size, name, stride=1, rate=1, padding="SAME", layout="NHWC", bias=True):
    channels = x.shape[-1] if layout == "NHWC" else x.shape[1]
    with tf1.variable_scope(name):
        w = variable("weights", [size, size, channels, width])
        spatial = (lambda v: [1, v, v, 1]) if layout == "NHWC" else (lambda v: [1, 1, v, v])
        y = tf1.nn.conv2d(x, w, spatial(stride), padding, data_format=layout, dilations=spatial(rate))
        if not bias:
            return y
        return tf.nn.bias_add(y, variable("biases", [width], initializer=tf1.zeros_initializer()), layout)


def batch_norm(x, name, training=True, layout="NHWC", momentum=0.9):
    """As slim: fused, moving statistics in UPDATE_OPS."""
    channels = x.shape[-1] if layout == "NHWC" else x.shape[1]
    with tf1.variable_scope(name):
        gamma = variable("gamma", [channels], initializer=tf1.ones_initializer())
        beta = variable("beta", [channels], initializer=tf1.zeros_initializer())
        mean = variable("moving_mean", [channels], trainable=False, initializer=tf1.zeros_initializer())
        variance = variable("moving_variance", [channels], trainable=False, initializer=tf1.ones_initializer())
        if not training:
            return tf1.nn.fused_batch_norm(x, gamma, beta, mean, variance, is_training=False, data_format=layout)[0]
        y, batch_mean, batch_variance = tf1.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3, data_format=layout)
        for moving, value in ((mean, batch_mean), (variance, batch_variance)):
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, moving.assign_sub((moving - value) * (1 - momentum)))
        return y


def image_feeds(size=16, channels=3, batch=4, layout="NHWC", classes=5):
    rng = np.random.default_rng(0)
    shape = (batch, size, size, channels) if layout == "NHWC" else (batch, channels, size, size)
    return {"images": rng.uniform(size=shape).astype(np.float32), "labels": rng.integers(0, classes, batch).astype(np.int32)}


def placeholders(feeds):
    return [tf1.placeholder(value.dtype, value.shape, name) for name, value in feeds.items()]


def softmax_loss(logits, labels):
    return tf1.losses.sparse_softmax_cross_entropy(labels, logits)


def train_with_updates(loss, optimizer=None):
    with tf1.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        return (optimizer or tf1.train.MomentumOptimizer(0.05, 0.9)).minimize(loss, tf1.train.get_or_create_global_step())


def alexnet_slim():
    feeds = image_feeds(24)
    images, labels = placeholders(feeds)
    x = tf.nn.relu(conv(images, 8, 5, "conv1", 2))
    x = tf.nn.local_response_normalization(tf1.nn.max_pool(x, 3, 2, "VALID"), 4, alpha=0.001 / 9, beta=0.75)
    x = tf.nn.relu(conv(x, 8, 3, "conv2"))
    x = tf1.nn.dropout(tf.reshape(x, [4, -1]), rate=0.5, seed=2)
    logits = tf1.nn.xw_plus_b(x, variable("fc", [x.shape[1], 5]), variable("fc_b", [5]))
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf1.trainable_variables()]) * 1e-3
    tf1.losses.add_loss(decay)
    softmax_loss(logits, labels)
    return Net(tf1.losses.get_total_loss(), train_with_updates(tf1.losses.get_total_loss(), tf1.train.RMSPropOptimizer(0.01)),
               feeds, check_variables=False)


def resnet_slim():
    feeds = image_feeds(16)
    images, labels = placeholders(feeds)
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]])
    x = tf.nn.relu(batch_norm(conv(padded, 8, 3, "conv1", 2, padding="VALID", bias=False), "bn1"))
    for i in range(2):
        y = tf.nn.relu(batch_norm(conv(x, 8, 3, f"a{i}", rate=2, bias=False), f"an{i}"))
        x = tf.nn.relu(x + batch_norm(conv(y, 8, 3, f"b{i}", bias=False), f"bn_{i}"))
    x = batch_norm(conv(x, 8, 1, "last"), "fixed", training=False)
    logits = conv(tf.reduce_mean(x, [1, 2], keepdims=True), 5, 1, "logits")
    loss = softmax_loss(tf.squeeze(logits, [1, 2]), labels)
    return Net(loss, train_with_updates(loss), feeds)


def nchw_layers():
    """NCHW where TensorFlow's CPU has kernels for it: bias, fused batch norm by hand, transposes around convolutions."""
    feeds = image_feeds(12, layout="NCHW")
    images, labels = placeholders(feeds)
    x = tf.transpose(conv(tf.transpose(images, [0, 2, 3, 1]), 8, 3, "conv"), [0, 3, 1, 2])
    x = tf.nn.bias_add(x, variable("channel_bias", [8]), data_format="NCHW")
    mean, var = tf.nn.moments(x, [0, 2, 3], keepdims=True)
    x = tf.nn.relu(tf.nn.batch_normalization(x, mean, var, variable("b", [1, 8, 1, 1]), variable("g", [1, 8, 1, 1]), 1e-3))
    x = tf.reduce_mean(x, [2, 3])
    loss = softmax_loss(x @ variable("fc", [8, 5]), labels)
    return Net(loss, train_with_updates(loss), feeds)


def dcgan():
    rng = np.random.default_rng(0)
    feeds = {"real": rng.uniform(-1, 1, (4, 16, 16, 1)).astype(np.float32)}
    (real,) = placeholders(feeds)
    z = tf.random.stateless_uniform([4, 8], [1, 2], -1, 1) + tf1.random_uniform([4, 8], seed=3)

    def generator():
        with tf1.variable_scope("generator"):
            x = tf.reshape(z @ variable("project", [8, 4 * 4 * 16]), [4, 4, 4, 16])
            x = tf.nn.relu(batch_norm(x, "bn0"))
            x = tf1.nn.conv2d_transpose(x, variable("up1", [5, 5, 8, 16]), [4, 8, 8, 8], [1, 2, 2, 1])
            x = tf.nn.relu(batch_norm(x, "bn1"))
            return tf.tanh(tf1.nn.conv2d_transpose(x, variable("up2", [5, 5, 1, 8]), [4, 16, 16, 1], [1, 2, 2, 1]))

    def discriminator(x):
        with tf1.variable_scope("discriminator", reuse=tf1.AUTO_REUSE):
            x = tf.nn.leaky_relu(conv(x, 8, 5, "c1", 2), 0.2)
            x = tf.nn.leaky_relu(conv(x, 16, 5, "c2", 2), 0.2)
            return tf.reshape(x, [4, -1]) @ variable("fc", [256, 1])
    fake = generator()
    on_real, on_fake = discriminator(real), discriminator(fake)
    cross = tf.nn.sigmoid_cross_entropy_with_logits
    d_loss = tf.reduce_mean(cross(labels=0.9 * tf.ones_like(on_real), logits=on_real)) + tf.reduce_mean(
        cross(labels=tf.zeros_like(on_fake), logits=on_fake))
    g_loss = tf.reduce_mean(cross(labels=tf.ones_like(on_fake), logits=on_fake))
    optimizers = tf1.train.AdamOptimizer(2e-4, 0.5), tf1.train.AdamOptimizer(2e-4, 0.5)
    with tf1.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        d_train = optimizers[0].minimize(d_loss, var_list=tf1.trainable_variables("discriminator"))
        with tf1.control_dependencies([d_train]):
            g_train = optimizers[1].minimize(g_loss, var_list=tf1.trainable_variables("generator"))
    return Net(d_loss + g_loss, g_train, feeds, check_variables=False)


def wgan_penalty():
    """Gradients of gradients: the penalty on the norm of the critic's gradient."""
    rng = np.random.default_rng(0)
    feeds = {"real": rng.normal(size=(6, 8, 8, 2)).astype(np.float32), "fake": rng.normal(size=(6, 8, 8, 2)).astype(np.float32)}
    real, fake = placeholders(feeds)

    def critic(x):
        with tf1.variable_scope("critic", reuse=tf1.AUTO_REUSE):
            x = tf.nn.leaky_relu(conv(x, 6, 3, "c1", 2))
            x = tf.nn.softplus(tf.nn.avg_pool2d(conv(x, 8, 3, "c2"), 2, 2, "SAME"))
            return tf.reshape(x, [6, -1]) @ variable("fc", [32, 1])
    mix = tf1.random_uniform([6, 1, 1, 1], seed=1)
    between = mix * real + (1 - mix) * fake
    (gradient,) = tf1.gradients(critic(between), [between])
    norm = tf.sqrt(tf.reduce_sum(tf.square(gradient), [1, 2, 3]) + 1e-12)
    loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real)) + 10 * tf.reduce_mean(tf.square(norm - 1))
    return Net(loss, tf1.train.GradientDescentOptimizer(0.01).minimize(loss), feeds)


def segnet():
    """Pooling with places, unpooling by ScatterNd, soft Jaccard."""
    rng = np.random.default_rng(0)
    feeds = {"images": rng.uniform(size=(2, 8, 8, 3)).astype(np.float32), "mask": rng.integers(0, 3, (2, 8, 8)).astype(np.int32)}
    images, mask = placeholders(feeds)
    x = tf.nn.relu(conv(images, 6, 3, "down"))
    pooled, places = tf1.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", include_batch_in_index=True)
    y = tf.nn.relu(conv(pooled, 6, 3, "middle"))
    flat = tf.scatter_nd(tf.reshape(places, [-1, 1]), tf.reshape(y, [-1]), tf.constant([2 * 8 * 8 * 6], tf.int64))
    logits = conv(tf.reshape(flat, [2, 8, 8, 6]), 3, 3, "up")
    probabilities, wanted = tf.nn.softmax(logits), tf.one_hot(mask, 3)
    both = tf.reduce_sum(probabilities * wanted, [1, 2])
    either = tf.reduce_sum(probabilities + wanted, [1, 2]) - both
    loss = softmax_loss(logits, mask) + 1 - tf.reduce_mean(tf.math.divide_no_nan(both, either))
    return Net(loss, train_with_updates(loss), feeds)


def detector():
    """Anchors, box coding, CropAndResize, smooth L1, focal loss, hard negatives by top-k."""
    rng = np.random.default_rng(0)
    boxes = np.sort(rng.uniform(0, 1, (6, 2, 2)), 1).reshape(6, 4)[:, [0, 1, 2, 3]].astype(np.float32)
    feeds = {"images": rng.uniform(size=(2, 16, 16, 3)).astype(np.float32), "rois": boxes,
             "owner": np.array([0, 0, 1, 1, 1, 0], np.int32), "targets": rng.normal(size=(6, 4)).astype(np.float32),
             "labels": rng.integers(0, 4, 6).astype(np.int32)}
    images, rois, owner, targets, labels = placeholders(feeds)
    features = tf.nn.relu(conv(images, 8, 3, "features", 2))
    crops = tf.image.crop_and_resize(features, rois, owner, [6, 6])
    pooled = tf.nn.max_pool2d(crops, 2, 2, "SAME")
    flat = tf.reshape(pooled, [6, -1])
    scores, deltas = flat @ variable("cls", [72, 4]), flat @ variable("box", [72, 4])
    y1, x1, y2, x2 = tf.unstack(rois, axis=1)
    area = tf.maximum(y2 - y1, 1e-3) * tf.maximum(x2 - x1, 1e-3)
    huber = tf1.losses.huber_loss(targets, deltas, weights=tf.expand_dims(area, 1), reduction=tf1.losses.Reduction.MEAN)
    p = tf.sigmoid(scores)
    hot = tf.one_hot(labels, 4)
    focal = tf.reduce_sum(-hot * (1 - p) ** 2 * tf.math.log(p + 1e-6) - (1 - hot) * p ** 2 * tf.math.log1p(-p + 1e-6), 1)
    hardest, _ = tf.nn.top_k(focal, 4)
    positive = tf.cast(tf.not_equal(labels, 0), tf.float32)
    loss = huber + tf.reduce_mean(hardest) + tf.reduce_sum(focal * positive) / tf.maximum(1.0, tf.reduce_sum(positive))
    return Net(loss, train_with_updates(loss), feeds)


def augmentation():
    """What tf.image puts in front of a net: the random choices are the graph's own."""
    feeds = image_feeds(16)
    images, labels = placeholders(feeds)
    x = tf.image.resize_with_crop_or_pad(images, 20, 20)
    x = tf.stack([tf.image.random_flip_left_right(image, seed=i + 1) for i, image in enumerate(tf.unstack(x))])
    x = tf.image.random_brightness(x, 0.2, seed=5)
    x = tf.image.random_contrast(x, 0.7, 1.3, seed=6)
    x = tf.image.random_saturation(x, 0.7, 1.3, seed=7)
    x = tf.image.random_hue(x, 0.1, seed=8)
    x = tf.clip_by_value(x, 0, 1)
    x = tf.image.per_image_standardization(x) * 0.1 + tf.image.rgb_to_grayscale(x) + tf.image.rgb_to_yuv(x)
    x = tf.image.central_crop(tf.image.rot90(x), 0.8)
    x = tf.image.random_crop(x, [4, 12, 12, 3], seed=9)
    x = tf.image.resize(x, [16, 16])
    dy, dx = tf.image.image_gradients(x)
    x = tf.concat([x, dy, dx, tf.image.sobel_edges(x)[..., 0]], -1)
    x = tf.nn.relu(conv(x, 8, 3, "conv", 2))
    loss = softmax_loss(tf.reduce_mean(x, [1, 2]) @ variable("fc", [8, 5]), labels)
    loss += tf.reduce_mean(tf.image.total_variation(x)) * 1e-3
    return Net(loss, train_with_updates(loss), feeds)


def quantization_aware():
    feeds = image_feeds(12)
    images, labels = placeholders(feeds)
    x = tf.quantization.fake_quant_with_min_max_args(images, 0, 1)
    w = variable("w", [3, 3, 3, 8])
    low, high = variable("low", [], initializer=tf1.constant_initializer(-0.3)), variable(
        "high", [], initializer=tf1.constant_initializer(0.3))
    x = tf1.nn.conv2d(x, tf.quantization.fake_quant_with_min_max_vars(w, low, high), [1, 2, 2, 1], "SAME")
    lows = variable("lows", [8], initializer=tf1.constant_initializer(-1))
    highs = variable("highs", [8], initializer=tf1.constant_initializer(1))
    x = tf.nn.relu6(tf.quantization.fake_quant_with_min_max_vars_per_channel(x, lows, highs, 4))
    loss = softmax_loss(tf.reduce_mean(x, [1, 2]) @ variable("fc", [8, 5]), labels)
    return Net(loss, train_with_updates(loss), feeds)


def super_resolution():
    """depth_to_space, PSNR and SSIM in the loss, perceptual difference, resize with gradients."""
    rng = np.random.default_rng(0)
    feeds = {"small": rng.uniform(size=(2, 12, 12, 3)).astype(np.float32), "large": rng.uniform(size=(2, 24, 24, 3)).astype(np.float32)}
    small, large = placeholders(feeds)
    x = conv(tf.nn.elu(conv(small, 8, 3, "c1")), 12, 3, "c2")
    made = tf.nn.sigmoid(tf.nn.depth_to_space(x, 2) + tf1.image.resize_bicubic(small, [24, 24]))
    made += 0.1 * tf1.image.resize_nearest_neighbor(conv(small, 3, 1, "c3"), [24, 24])
    made += 0.1 * tf1.image.resize_bilinear(conv(small, 3, 1, "c4"), [24, 24], align_corners=True)
    loss = tf.reduce_mean(1 - tf.image.ssim(made, large, 1.0, filter_size=7)) - tf.reduce_mean(tf.image.psnr(made, large, 1.0)) / 100
    return Net(loss, tf1.train.AdamOptimizer(1e-3).minimize(loss), feeds, check_variables=False)


def conv3d_video():
    rng = np.random.default_rng(0)
    feeds = {"clip": rng.normal(size=(2, 6, 8, 8, 2)).astype(np.float32), "labels": np.array([0, 2], np.int32)}
    clip, labels = placeholders(feeds)
    x = tf.nn.relu(tf.nn.conv3d(clip, variable("w1", [3, 3, 3, 2, 4]), [1, 1, 2, 2, 1], "SAME"))
    x = tf.nn.max_pool3d(x, 2, 2, "SAME")
    x = tf.nn.conv3d_transpose(x, variable("w2", [2, 2, 2, 3, 4]), [2, 6, 4, 4, 3], [1, 2, 2, 2, 1])
    x = tf.nn.avg_pool3d(x, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "VALID")
    loss = softmax_loss(tf.reduce_mean(x, [1, 2, 3]) @ variable("fc", [3, 3]), labels)
    return Net(loss, train_with_updates(loss), feeds)


def capsules():
    """Routing by agreement, unrolled: large broadcasts, squashing, margin loss."""
    feeds = image_feeds(8)
    images, labels = placeholders(feeds)
    u = tf.reshape(conv(images, 8, 3, "primary", 2), [4, 32, 1, 4, 1])
    votes = tf.squeeze(tf.matmul(tf.tile(variable("w", [1, 32, 5, 6, 4]), [4, 1, 1, 1, 1]), tf.tile(u, [1, 1, 5, 1, 1])), -1)
    b = tf.zeros([4, 32, 5, 1])
    for _ in range(2):
        s = tf.reduce_sum(tf.nn.softmax(b, axis=2) * votes, 1, keepdims=True)
        square = tf.reduce_sum(tf.square(s), -1, keepdims=True)
        v = square / (1 + square) * s * tf.math.rsqrt(square + 1e-9)
        b += tf.reduce_sum(votes * v, -1, keepdims=True)
    length = tf.norm(tf.squeeze(v, 1) + 1e-9, axis=-1)
    hot = tf.one_hot(labels, 5)
    loss = tf.reduce_mean(hot * tf.maximum(0.0, 0.9 - length) ** 2 + 0.5 * (1 - hot) * tf.maximum(0.0, length - 0.1) ** 2)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.5).minimize(loss), feeds)


def spatial_transformer():
    """Sampling at computed places: floor, clip, gather_nd, bilinear weights."""
    feeds = image_feeds(8)
    images, labels = placeholders(feeds)
    theta = tf.reshape(tf.reshape(images, [4, -1]) @ variable("loc", [192, 6], 0.01) + [1., 0, 0, 0, 1, 0], [4, 2, 3])
    xs, ys = tf.meshgrid(tf.linspace(-1.0, 1.0, 8), tf.linspace(-1.0, 1.0, 8))
    grid = tf.stack([tf.reshape(xs, [-1]), tf.reshape(ys, [-1]), tf.ones([64])])
    at = (theta @ tf.tile(grid[None], [4, 1, 1]) + 1) * 3.5
    x, y = at[:, 0], at[:, 1]
    x0, y0 = tf.floor(x), tf.floor(y)
    batch = tf.tile(tf.range(4)[:, None], [1, 64])

    def pixel(py, px):
        places = tf.stack([batch, *(tf.clip_by_value(tf.cast(p, tf.int32), 0, 7) for p in (py, px))], -1)
        return tf.gather_nd(images, places)
    wx, wy = (x - x0)[..., None], (y - y0)[..., None]
    out = pixel(y0, x0) * (1 - wx) * (1 - wy) + pixel(y0, x0 + 1) * wx * (1 - wy) + pixel(y0 + 1, x0) * (1 - wx) * wy + \
        pixel(y0 + 1, x0 + 1) * wx * wy
    loss = softmax_loss(tf.reshape(out, [4, -1]) @ variable("fc", [192, 5]), labels)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


def cases():
    return [(f.__name__, f) for f in (alexnet_slim, resnet_slim, nchw_layers, dcgan, wgan_penalty, segnet, detector,
                                      augmentation, quantization_aware, super_resolution, conv3d_video, capsules,
                                      spatial_transformer)]
