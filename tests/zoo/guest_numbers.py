"""Programs with ops of numbers that few steps hold: weights and activations held as quantized integers, crossed rows of features,
sparse sums, sparse matrices, maps over sparse rows, centers of clusters, ops of old graphs."""
from guest_parts import *  # noqa: F403

from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_ops as csr
from zoo import Net


def quantized_through(x, kind, mode, axis=None, low=-2.0, high=2.0):
    """x rounded to what a quantized type holds, its gradient as if nothing had happened. Without a narrow range oneDNN's Dequantize, which
    TensorFlow takes by default, scales by another bound than TensorFlow's own kernel."""
    low, high = (tf.fill([x.shape[axis]], bound) for bound in (low, high)) if axis is not None else (low, high)
    held, lowest, highest = tf.quantization.quantize(x, low, high, kind, mode=mode, axis=axis, round_mode="HALF_AWAY_FROM_ZERO", narrow_range=True)
    back = tf.quantization.dequantize(tf.reshape(held, tf.shape(x)), lowest, highest, mode=mode, axis=axis, narrow_range=True)
    return x + tf.stop_gradient(back - x)


def quantized_layers(v, x, y):
    """A layer for each mode and type, rows of weights with ranges of their own, a table that is held in eight bits."""
    table = tf.quantization.dequantize(tf.bitcast(tf.constant(integers(255, 12, 6), tf.uint8), tf.quint8), -1.0, 1.0, mode="MIN_FIRST")
    h = x + tf.gather(table, y)
    for i, (kind, mode) in enumerate(((tf.quint8, "MIN_FIRST"), (tf.qint8, "SCALED"), (tf.quint16, "MIN_COMBINED"), (tf.qint32, "MIN_FIRST"))):
        w = quantized_through(v(f"w{i}", 6, 6), kind, mode)
        h = tf.tanh(quantized_through(h, tf.qint8, "SCALED", low=-4.0, high=4.0) @ w) + h
    rows = quantized_through(v("rows", 6, 4), tf.qint8, "SCALED", axis=1)
    return softmax_loss(h @ rows, y % 4)


def crossed_rows(v, values, splits, more, y):
    """Rows of features of different lengths, crossed and hashed into a table; what a sparse matrix holds, summed and maximized by rows."""
    rows, others = (tf.RaggedTensor.from_row_splits(x, splits, validate=False) for x in (values, more))
    crossed = tf.ragged.cross_hashed([rows, others, tf.reshape(y, [-1, 1])], num_buckets=40)
    crossed = tf.concat([crossed, tf.cast(y, tf.int64)[:, None]], 1)
    pooled = tf.reduce_mean(tf.nn.embedding_lookup(v("table", 40, 6), crossed), 1)
    counts = tf.sparse.map_values(lambda x: tf.cast(x, tf.float32) / 30.0, rows.to_sparse())
    counts = tf.SparseTensor(counts.indices, counts.values, [4, 8])
    sums, most = (tf.sparse.to_dense(f(counts, axis=1, keepdims=True, output_is_sparse=True)) for f in (tf.sparse.reduce_sum, tf.sparse.reduce_max))
    return softmax_loss(v.dense("o", pooled + sums - 0.5 * most, 4), y)


def clustered(v, feeds):
    """K-means on what a layer makes of rows in another order: centers drawn in the first step, moved towards the means of their points after."""
    centers, begun = v.hold("centers", tf.zeros([3, 4])), v.hold("begun", tf.constant(False))

    def step(x, y):
        order = tf.raw_ops.RandomIndexShuffle(index=tf.range(16), seed=tf.constant([7, 1, 2]), max_index=15)
        x, y = tf.gather(x, order), tf.gather(y, order)
        with tf.GradientTape() as tape:
            h = tf.tanh(v.dense("h", x, 4))
            if not begun:
                chosen = tf.raw_ops.KmeansPlusPlusInitialization(points=h, num_to_sample=tf.constant(3, tf.int64), seed=tf.constant(5, tf.int64),
                                                                 num_retries_per_sample=tf.constant(-1, tf.int64))
                centers.assign(tf.stop_gradient(chosen))
                begun.assign(True)
            nearest, distance = tf.raw_ops.NearestNeighbors(points=tf.stop_gradient(h), centers=centers, k=tf.constant(1, tf.int64))
            near = tf.gather(centers, nearest[:, 0])
            value = softmax_loss(v.dense("o", h, 4), y) + 0.1 * tf.reduce_mean((h - near) ** 2)
        descend(v.list, tape.gradient(value, v.list))
        count = tf.math.unsorted_segment_sum(tf.ones(16), nearest[:, 0], 3)[:, None]
        centers.assign_add(0.5 * tf.math.unsorted_segment_sum(h - near, nearest[:, 0], 3) / tf.maximum(count, 1.0))
        far = tf.raw_ops.KMC2ChainInitialization(distances=distance[:, 0], seed=tf.constant(3, tf.int64))
        return value, tf.reduce_sum(distance), tf.gather(h, far)
    return step


PLACES = np.array([[0, 1], [0, 4], [1, 0], [1, 2], [2, 2], [3, 5], [4, 0], [4, 3], [5, 1], [5, 5]], np.int64)


def sparse_matrix(values):
    return csr.sparse_tensor_to_csr_sparse_matrix(PLACES, values, tf.constant([6, 6], tf.int64))


def graph_of_sparse_matrices(v, x, y):
    """Neighbours by a sparse matrix of trained weights: its product with dense features, its transpose, its entries made dense. On a CPU
    TensorFlow adds no gradients of sparse matrices: one for each use."""
    weights = tf.nn.softplus(v("edges", 10, value=0.3))
    h = tf.tanh(csr.sparse_matrix_mat_mul(sparse_matrix(weights), v.dense("in", x, 8)))
    back = csr.sparse_matrix_transpose(sparse_matrix(weights), type=tf.float32)
    h += csr.sparse_matrix_mat_mul(back, h) + tf.transpose(csr.sparse_matrix_mat_mul(sparse_matrix(weights), h, transpose_a=True, transpose_output=True))
    dense = csr.csr_sparse_matrix_to_dense(sparse_matrix(weights), tf.float32)
    count = tf.cast(csr.sparse_matrix_nnz(back), tf.float32)
    return softmax_loss(v.dense("o", h, 4), y) + 0.01 * tf.reduce_sum(dense ** 2) / count, dense


def two_steps_of_a_graph(v, x, y):
    """Neighbours of neighbours: the product of sparse matrices, with the gradients of its values."""
    first, second = v("first", 10, value=0.5), v("second", 10, value=0.2)
    both = csr.sparse_matrix_sparse_mat_mul(sparse_matrix(first), sparse_matrix(second), type=tf.float32)
    turned = csr.sparse_matrix_sparse_mat_mul(sparse_matrix(first), sparse_matrix(second), type=tf.float32, transpose_b=True)
    entries = tf.SparseTensor(*csr.csr_sparse_matrix_to_sparse_tensor(turned, type=tf.float32))
    h = csr.sparse_matrix_mat_mul(both, v.dense("in", x, 8))
    pairs = csr.dense_to_csr_sparse_matrix(tf.matmul(h, h, transpose_b=True), PLACES)
    held = tf.SparseTensor(*csr.csr_sparse_matrix_to_sparse_tensor(pairs, type=tf.float32))
    return softmax_loss(v.dense("o", tf.tanh(h), 4), y) + 0.01 * tf.reduce_sum(entries.values ** 2) + 0.001 * tf.reduce_sum(held.values)


def mapped_sparse_rows(v, indices, weights, y):
    """map_fn over the rows of a sparse tensor: to sums of embeddings, and to sparse rows again."""
    rows = tf.SparseTensor(indices, weights, [4, 9])
    table = v("table", 9, 6)

    def pooled(row):
        return tf.reduce_sum(tf.gather(table, row.indices[:, 0]) * row.values[:, None], 0)
    h = tf.map_fn(pooled, rows, fn_output_signature=tf.float32)
    halves = tf.map_fn(lambda row: row * 0.5, rows, fn_output_signature=tf.SparseTensorSpec([9], tf.float32))
    dense = tf.sparse.to_dense(tf.sparse.SparseTensor(halves.indices, halves.values, [4, 9]))
    return softmax_loss(v.dense("o", h, 4) + dense[:, :4], y), halves.dense_shape, tf.sparse.to_dense(halves)


def old_graph(x, poisson_shape):
    """What graphs of TensorFlow's first versions and of its tool for inference hold, with a version that still allows it."""
    graph = tf1.GraphDef()
    graph.versions.producer = 10
    pads, float_type = tf.constant([[0, 0], [2, 1], [1, 1], [0, 0]]), {"T": tf.float32.as_datatype_enum}
    filters, size = tf.constant(numbers(3, 3, 1, 2, seed=5)), tf.constant([9, 7])
    square = tf.matmul(x, x, transpose_b=True) + 3.0 * tf.eye(6)
    picture = tf.reshape(x, [1, 6, 5, 1])

    def add(name, op, inputs, types, **strings):
        node = graph.node.add(name=name, op=op, input=inputs)
        for key, value in types.items():
            node.attr[key].type = value
        for key, value in strings.items():
            node.attr[key].s = value
        return node
    for name, op, inputs in (("pad", "FusedPadConv2D", ["picture", "pads", "filters"]), ("resize", "FusedResizeAndPadConv2D", ["picture", "size", "pads", "filters"])):
        add(name, op, inputs, float_type, mode=b"REFLECT", padding=b"VALID").attr["strides"].list.i.extend([1, 2, 1, 1])
    round_trip = add("round", "QuantizeAndDequantize", ["x"], float_type)
    round_trip.attr["num_bits"].i, round_trip.attr["range_given"].b = 5, True
    round_trip.attr["input_min"].f, round_trip.attr["input_max"].f = -1.0, 1.5
    add("drawn", "RandomPoisson", ["shape", "rate"], {"S": tf.int32.as_datatype_enum, "dtype": tf.float32.as_datatype_enum}).attr["seed"].i = 7
    add("slope", "CholeskyGrad", ["factor", "square"], float_type)
    fed = {"picture": picture, "pads": pads, "filters": filters, "size": size, "x": x, "shape": poisson_shape, "rate": tf.constant([0.5, 20.0]),
           "factor": tf.linalg.cholesky(square), "square": square}
    names = ["pad", "resize", "round", "drawn", "slope"]
    return tf.import_graph_def(graph, fed, [f"{name}:0" for name in names], name="old")


def old_names():
    """TensorFlow 1: a small net whose loss holds the above."""
    feeds = {"x": numbers(6, 5)}
    x = tf1.placeholder(tf.float32, [6, 5], "x")
    w = tf1.get_variable("w", [5, 5], initializer=tf1.glorot_uniform_initializer(seed=1))
    h = tf.tanh(x @ w)
    pad, resized, rounded, drawn, slope = (tf.stop_gradient(part) for part in old_graph(h, tf.constant([4])))
    weights = rounded + tf.reduce_mean(pad) + tf.reduce_mean(resized) + 0.01 * tf.reduce_mean(drawn)
    loss = tf.reduce_mean(h * weights) + 0.01 * tf.reduce_mean(slope @ h)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


def cases():
    xy = {"x": numbers(16, 6), "y": integers(4, 16)}
    yield "old_names", old_names
    sparse = {"indices": np.array([[0, 1], [0, 4], [1, 0], [1, 2], [1, 8], [3, 5], [3, 6]], np.int64), "weights": numbers(7), "y": integers(4, 4)}
    yield "mapped_sparse_rows", trained(mapped_sparse_rows, sparse)
    nodes = {"x": numbers(6, 5), "y": integers(4, 6)}
    yield "graph_of_sparse_matrices", trained(graph_of_sparse_matrices, nodes)
    yield "two_steps_of_a_graph", trained(two_steps_of_a_graph, nodes)
    yield "clustered", stepped(lambda v, f: v.dense("o", v.dense("h", f["x"], 4), 4) is not None and clustered(v, f), xy)
    rows = {"values": integers(30, 14), "more": integers(9, 14), "splits": np.array([0, 3, 3, 9, 14], np.int64), "y": integers(4, 4)}
    yield "crossed_rows", trained(crossed_rows, rows)
    yield "quantized_layers", trained(quantized_layers, {"x": numbers(12, 6), "y": integers(12, 12)})
