"""TensorFlow GNN: message passing over graphs of several kinds of nodes and edges, with attention, convolution and readouts."""
import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn
from tensorflow_gnn.models import gat_v2, gcn, graph_sage, hgt, mt_albis, multi_head_attention, vanilla_mpnn

from package_steps import cross_entropy, floats, taped

RNG = np.random.default_rng(0)
PAPERS, AUTHORS, CITES, WRITES = 8, 5, 14, 12
FEEDS = {"paper": floats(RNG, PAPERS, 6), "author": floats(RNG, AUTHORS, 4), "weight": floats(RNG, CITES, 3),
         "cites_from": RNG.integers(0, PAPERS, CITES).astype(np.int32), "cites_to": RNG.integers(0, PAPERS, CITES).astype(np.int32),
         "writes_from": RNG.integers(0, AUTHORS, WRITES).astype(np.int32), "writes_to": RNG.integers(0, PAPERS, WRITES).astype(np.int32),
         "labels": RNG.integers(0, 3, 2).astype(np.int32)}


def graph_of(paper, author, weight, cites_from, cites_to, writes_from, writes_to):
    """Two graphs in one, of half of the papers each."""
    papers, authors = ("paper", paper), ("author", author)
    return tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(features={"size": tf.constant([[1.0], [2.0]])}),
        node_sets={"paper": tfgnn.NodeSet.from_fields(sizes=tf.constant([4, 4]), features={"hidden_state": papers[1]}),
                   "author": tfgnn.NodeSet.from_fields(sizes=tf.constant([2, 3]), features={"hidden_state": authors[1]})},
        edge_sets={"cites": tfgnn.EdgeSet.from_fields(sizes=tf.constant([7, 7]), features={"hidden_state": weight},
                                                      adjacency=tfgnn.Adjacency.from_indices((papers[0], cites_from), (papers[0], cites_to))),
                   "writes": tfgnn.EdgeSet.from_fields(sizes=tf.constant([6, 6]),
                                                       adjacency=tfgnn.Adjacency.from_indices((authors[0], writes_from), (papers[0], writes_to)))})


def dense(units=8):
    return tf.keras.layers.Dense(units, "relu")


def embedded():
    return tfgnn.keras.layers.MapFeatures(node_sets_fn=lambda nodes, node_set_name: dense()(nodes["hidden_state"]),
                                          edge_sets_fn=lambda edges, edge_set_name: None if edge_set_name == "writes" else edges["hidden_state"])


def case(*layers, pool="mean"):
    """Papers and authors are embedded, the layers pass messages, and the pooled papers of every graph are classified."""
    def make():
        spec = graph_of(*(tf.constant(FEEDS[name]) for name in FEEDS if name != "labels")).spec
        given = tf.keras.Input(type_spec=spec)
        graph = embedded()(given)
        for layer in layers:
            graph = layer()(graph)
        pooled = tfgnn.keras.layers.Pool(tfgnn.CONTEXT, pool, node_set_name="paper")(graph)
        model = tf.keras.Model(given, tf.keras.layers.Dense(3)(pooled))
        best = tf.keras.optimizers.legacy.Adam(1e-2)

        def loss(labels, **pieces):
            value = cross_entropy(model(graph_of(**pieces), training=True), labels)
            return value + tf.add_n(model.losses) if model.losses else value
        loss(**{name: tf.constant(value) for name, value in FEEDS.items()})
        return loss, lambda: model.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))
    return taped(make, FEEDS, rtol=2e-3)


def update(convolution, authors=True):
    """One round of messages: along citations, and from authors where the convolution allows it."""
    edges = {"cites": convolution(), **({"writes": convolution()} if authors else {})}
    return tfgnn.keras.layers.GraphUpdate(node_sets={"paper": tfgnn.keras.layers.NodeSetUpdate(edges, tfgnn.keras.layers.NextStateFromConcat(dense()))})


def edge_update():
    return tfgnn.keras.layers.GraphUpdate(
        edge_sets={"cites": tfgnn.keras.layers.EdgeSetUpdate(tfgnn.keras.layers.NextStateFromConcat(dense()))},
        node_sets={"paper": tfgnn.keras.layers.NodeSetUpdate({"cites": tfgnn.keras.layers.Pool(tfgnn.TARGET, "sum"),
                                                              "writes": tfgnn.keras.layers.SimpleConv(dense(), "max_no_inf", receiver_tag=tfgnn.TARGET)},
                                                             tfgnn.keras.layers.ResidualNextState(dense()), )},
        context=tfgnn.keras.layers.ContextUpdate({"paper": tfgnn.keras.layers.Pool(tfgnn.CONTEXT, "mean")},
                                                 tfgnn.keras.layers.NextStateFromConcat(dense()), context_input_feature="size"))


def cases():
    target = tfgnn.TARGET
    yield "simple", case(*[lambda: update(lambda: tfgnn.keras.layers.SimpleConv(dense(), "mean", receiver_tag=target))] * 2)
    yield "edges_and_context", case(edge_update)
    yield "gat_v2", case(*[lambda: update(lambda: gat_v2.GATv2Conv(num_heads=2, per_head_channels=4, edge_dropout=0.1, receiver_tag=target))] * 2)
    yield "gcn", case(lambda: update(lambda: gcn.GCNConv(units=8, receiver_tag=target, add_self_loops=True), authors=False))
    yield "attention", case(lambda: update(lambda: multi_head_attention.MultiHeadAttentionConv(num_heads=2, per_head_channels=4, receiver_tag=target)),
                            pool="max")
    yield "mpnn", case(lambda: vanilla_mpnn.VanillaMPNNGraphUpdate(units=8, message_dim=8, receiver_tag=target, l2_regularization=1e-3,
                                                                   dropout_rate=0.1))
    yield "graph_sage", case(lambda: graph_sage.GraphSAGEGraphUpdate(node_set_names=["paper"], receiver_tag=target, units=8, hidden_units=8,
                                                                     reduce_type="max_no_inf", use_pooling=True))
    yield "hgt", case(lambda: hgt.HGTGraphUpdate(num_heads=2, per_head_channels=4, receiver_tag=target))
    yield "mt_albis", case(lambda: mt_albis.MtAlbisGraphUpdate(units=8, message_dim=8, receiver_tag=target, attention_type="multi_head",
                                                               attention_num_heads=2, attention_edge_set_names=["cites"],
                                                               edge_dropout_rate=0.1, normalization_type="layer"))
