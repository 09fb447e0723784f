"""Steps that keep more than variables: tables that they change, gradients that they gather."""
from guest_parts import *  # noqa: F403
from zoo import Net


def fed(feeds, **shapes):
    return feeds, *(tf1.placeholder(x.dtype, shapes.get(n, x.shape), n) for n, x in feeds.items())


def weight(name, *shape, **more):
    fan_in = max(int(np.prod(shape[:-1])), 1)
    return tf1.get_variable(name, initializer=numbers(*shape, seed=len(name)) / F32(np.sqrt(fan_in)), use_resource=True, **more)


def dynamic_embedding():
    """Rows of an embedding are in a table: made when an id is first seen, read, and written back after a step by hand."""
    feeds, ids, y = fed({"ids": integers(1000, 12, dtype=np.int64), "y": numbers(12, 4)})
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, tf.zeros([8]), tf.constant(-1, tf.int64), tf.constant(-2, tf.int64), 64)
    first = tf.sin(tf.cast(ids[:, None], tf.float32) + tf.range(8, dtype=tf.float32)) * 0.3
    rows = table.lookup(ids)
    rows = tf.where(tf.reduce_all(tf.equal(rows, 0.0), -1, keepdims=True), first, rows)
    loss = tf.reduce_mean((rows @ weight("w", 8, 4) - y) ** 2)
    gradient, = tf1.gradients(loss, [rows])
    with tf1.control_dependencies([gradient]):
        train = tf1.train.AdamOptimizer(0.01).minimize(loss)
    return Net(loss, tf.group(train, table.insert(ids, rows - 0.5 * gradient)), feeds)


def counted_classes():
    """How often a class was seen weighs its examples; steps count in a table from whole numbers to floats."""
    feeds, x, y = fed({"x": numbers(16, 6), "y": integers(5, 16, dtype=np.int64)})
    counts = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0, name="counts")
    classes, _, seen = tf.unique_with_counts(y)
    with tf1.control_dependencies([counts.insert(classes, counts.lookup(classes) + tf.cast(seen, tf.float32))]):
        often = counts.lookup(y)
        size = counts.size()
    logits = x @ weight("w", 6, 5)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
    loss = tf.reduce_sum(losses / often) / tf.reduce_sum(1.0 / often)
    return Net(loss, tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss), feeds, fetches=(often, size))


def remembered_losses():
    """A memory of losses by example: hard ones count more, the easiest are forgotten, and the mean of all is taken off."""
    feeds, ids, x, y = fed({"ids": np.arange(20, 36, dtype=np.int64) * 7, "x": numbers(16, 6), "y": numbers(16, 2)})
    memory = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 1.0, name="memory")
    before = memory.lookup(ids)
    losses = tf.reduce_mean((tf.nn.tanh(x @ weight("a", 6, 16)) @ weight("b", 16, 2) - y) ** 2, -1)
    loss = tf.reduce_mean(losses * tf.stop_gradient(before / tf.reduce_mean(before)))
    train = tf1.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf1.control_dependencies([train, memory.insert(ids, 0.7 * before + 0.3 * losses)]):
        _, values = memory.export()
        mean = tf.reduce_mean(values) - tf.reduce_min(values)
        easy = tf.boolean_mask(ids, losses < tf.reduce_mean(losses) * 0.3)
        with tf1.control_dependencies([values]):
            forget = memory.remove(easy)
        with tf1.control_dependencies([forget]):
            left = memory.size()
    return Net(loss, tf.group(train, forget), feeds, fetches=(mean, left))


def old_tables():
    """Tables behind references, as graphs of early TensorFlow have them, with rows of tensors; filled by an initializer and by steps."""
    feeds, ids, y = fed({"ids": integers(30, 8, dtype=np.int64), "y": numbers(8, 3)})
    table = tf.raw_ops.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[3], shared_name="rows")
    visits = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name="visits")
    start = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=tf.range(10, dtype=tf.int64), values=tf.constant(numbers(10, 3)))
    tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, start)
    rows = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=ids, default_value=tf.zeros([3]))
    seen = tf.raw_ops.LookupTableFindV2(table_handle=visits, keys=ids, default_value=tf.constant(0, tf.int64))
    loss = tf.reduce_mean((rows + weight("b", 3) - y) ** 2)
    train = tf1.train.AdagradOptimizer(0.1).minimize(loss)
    with tf1.control_dependencies([loss, seen]):
        write = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=ids, values=rows * 0.9 + y * 0.1)
        visit = tf.raw_ops.LookupTableInsertV2(table_handle=visits, keys=ids, values=seen + 1)
    with tf1.control_dependencies([write]):
        size = tf.raw_ops.LookupTableSizeV2(table_handle=table)
    return Net(loss, tf.group(train, write, visit), feeds, fetches=(seen, size))


def words_by_hash():
    """Words are keys by a strong hash, which is what a step may keep of them: seldom ones get no row of their own."""
    feeds = {"words": np.array([b"the", b"cat", b"sat", b"on", b"the", b"mat"]), "y": numbers(6, 3)}
    words, y = tf1.placeholder(tf.string, [6], "words"), tf1.placeholder(tf.float32, [6, 3], "y")
    keys = tf.strings.to_hash_bucket_strong(words, 1 << 40, [7, 9])
    seen = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    before = seen.lookup(keys)
    often = tf.reduce_sum(tf.cast(tf.equal(keys[:, None], keys[None]), tf.int64), -1)
    rows = tf.where(before + often > 2, keys % 30 + 1, tf.zeros_like(keys))
    loss = tf.reduce_mean((tf.gather(weight("rows", 31, 3), rows) - y) ** 2)
    train = tf1.train.AdagradOptimizer(0.3).minimize(loss)
    return Net(loss, tf.group(train, seen.insert(keys, before + often)), feeds, fetches=(rows,))


def synchronous(loss, optimizer, towers=1):
    """The losses' gradients gathered by accumulators, applied together, and a token for each tower's next step."""
    step = tf1.train.get_or_create_global_step()
    gathering = tf1.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=towers, total_num_replicas=towers)
    train = gathering.apply_gradients(gathering.compute_gradients(loss), step)
    sync, = gathering.get_chief_queue_runner().enqueue_ops
    return tf.group(train, sync)


def gathered_gradients():
    feeds, x, y = fed({"x": numbers(8, 6), "y": numbers(8, 2)})
    loss = tf.reduce_mean((tf.nn.tanh(x @ weight("a", 6, 16)) @ weight("b", 16, 2) - y) ** 2)
    return Net(loss, synchronous(loss, tf1.train.AdamOptimizer(0.05)), feeds)


def gathered_rows():
    """Of an embedding: sparse accumulators, rows that several examples have."""
    feeds, ids, y = fed({"ids": np.array([1, 3, 4, 7], np.int64), "y": numbers(4, 2)})
    rows = tf1.get_variable("rows", initializer=numbers(9, 6, seed=3), use_resource=False)
    loss = tf.reduce_mean((tf.gather(rows, ids) @ weight("b", 6, 2) - y) ** 2)
    return Net(loss, synchronous(loss, tf1.train.MomentumOptimizer(0.1, 0.9)), feeds)


def gathered_towers():
    """Three towers of one graph give to the accumulators of each weight; one update takes their mean."""
    feeds, x, y = fed({"x": numbers(12, 6), "y": numbers(12, 2)})
    w, v = weight("w", 6, 8), tf1.get_variable("v", initializer=numbers(8, 2, seed=5), use_resource=False)
    step = tf1.train.get_or_create_global_step()
    sums = [tf1.ConditionalAccumulator(tf.float32, u.shape, shared_name=f"{u.op.name}/sum") for u in (w, v)]
    given, losses = [], []
    for part, target in zip(tf.split(x, 3), tf.split(y, 3)):
        losses.append(tf.reduce_mean((tf.nn.elu(part @ w) @ v - target) ** 2))
        given += [s.apply_grad(g, step) for s, g in zip(sums, tf1.gradients(losses[-1], [w, v]))]
    with tf1.control_dependencies(given):
        count = sums[0].num_accumulated()
    with tf1.control_dependencies([count]):
        taken = [s.take_grad(3) for s in sums]
    train = tf1.train.RMSPropOptimizer(0.01).apply_gradients(zip(taken, [w, v]), step)
    return Net(tf.add_n(losses), train, feeds, fetches=(count, taken[0]))


def now_and_then():
    """Gradients are summed up over steps; every second one takes and applies them."""
    feeds, x, y = fed({"x": numbers(8, 6), "y": numbers(8, 2)})
    w = weight("w", 6, 2)
    loss = tf.reduce_mean((x @ w - y) ** 2)
    step = tf1.train.get_or_create_global_step()
    sums = tf1.ConditionalAccumulator(tf.float32, w.shape, reduction_type="SUM")
    gradient, = tf1.gradients(loss, [w])
    with tf1.control_dependencies([sums.apply_grad(gradient, 1 << 40)]):
        enough = sums.num_accumulated() >= 2
    optimizer = tf1.train.AdagradOptimizer(0.2)
    train = tf1.cond(enough, lambda: tf.group(optimizer.apply_gradients([(sums.take_grad(2), w)], step)), lambda: tf.no_op())
    return Net(loss, train, feeds, fetches=(step,), steps=5)


def cases():
    for case in (dynamic_embedding, counted_classes, remembered_losses, old_tables, words_by_hash, gathered_gradients, gathered_rows,
                 gathered_towers, now_and_then):
        yield case.__name__, case
