"""Keras Hub, as Keras NLP came to be called: backbones of language and vision models of small sizes (Keras 3)."""
import keras
import keras_hub
import numpy as np
import tensorflow as tf

from zoo import eager, keras_net

RNG = np.random.default_rng(0)
hub = keras_hub.models
LENGTH, WORDS = 8, 50


def tokens(length=LENGTH):
    return RNG.integers(1, WORDS, (2, length)).astype(np.int32)


def texts(**more):
    mask = np.ones((2, LENGTH), np.int32)
    mask[1, -3:] = 0
    return {"token_ids": tokens(), "padding_mask": mask, **more}


def named(model, names):
    """A model of named inputs as one of a list."""
    class Named:
        losses = ()
        trainable_variables = model.trainable_variables

        def __call__(self, values, training):
            values = values if len(names) > 1 else [values]
            return model(dict(zip(names, values)), training=training)
    return Named()


def first(outputs):
    while not hasattr(outputs, "shape"):
        outputs = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs[0]
    return outputs


def spread(outputs, **feeds):
    """A loss that every output takes part in, whatever they mean."""
    outputs = tf.nest.flatten(outputs)
    return tf.add_n([tf.reduce_mean(tf.math.squared_difference(tf.tanh(tf.cast(x, tf.float32)), 0.3)) for x in outputs])


def hub_case(make, feeds, loss=spread, optimizer=lambda: keras.optimizers.Adam(1e-3), rtol=2e-3, **more):
    def build():
        keras.utils.set_random_seed(3)
        model = make()
        names = tuple(name for name in feeds if name != "labels")
        if isinstance(getattr(model, "input", None), dict):
            model = named(model, names)
        return keras_net(model, loss, optimizer(), feeds, names, rtol=rtol, **more)
    return eager(build)


def next_word(outputs, token_ids, **feeds):
    logits = first(outputs)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=token_ids[:, 1:], logits=logits[:, :-1]))


SIZES = dict(vocabulary_size=WORDS, num_layers=2, hidden_dim=16, intermediate_dim=32)


def causal(backbone, model, **sizes):
    return hub_case(lambda: model(backbone=backbone(**sizes)), texts(), next_word)


def encoder(backbone, feeds=None, **sizes):
    return hub_case(lambda: backbone(**sizes), feeds or texts())


PAIR = {"encoder_token_ids": tokens(), "encoder_padding_mask": np.ones((2, LENGTH), np.int32),
        "decoder_token_ids": tokens(6), "decoder_padding_mask": np.ones((2, 6), np.int32)}


def images(size=32, **more):
    return {"x": RNG.uniform(size=(2, size, size, 3)).astype(np.float32), **more}


def texts_of():
    segments = texts(segment_ids=np.zeros((2, LENGTH), np.int32))
    long = dict(num_heads=2, max_sequence_length=LENGTH)
    yield "bert", encoder(hub.BertBackbone, segments, **SIZES, **long)
    yield "bert_masked", hub_case(lambda: hub.BertMaskedLM(backbone=hub.BertBackbone(**SIZES, **long)),
                                  {**segments, "mask_positions": np.array([[1, 3], [2, 4]], np.int32)})
    yield "albert", encoder(hub.AlbertBackbone, segments, **SIZES, **long, embedding_dim=8)
    yield "roberta", encoder(hub.RobertaBackbone, **SIZES, **long)
    yield "distil_bert", encoder(hub.DistilBertBackbone, **SIZES, **long)
    yield "electra", encoder(hub.ElectraBackbone, segments, vocab_size=WORDS, num_layers=2, num_heads=2, hidden_dim=16, embedding_dim=8,
                             intermediate_dim=32, max_sequence_length=LENGTH)
    yield "deberta", encoder(hub.DebertaV3Backbone, **SIZES, **long, bucket_size=4)
    yield "f_net", encoder(hub.FNetBackbone, {k: segments[k] for k in ("token_ids", "segment_ids")}, **SIZES, max_sequence_length=LENGTH)
    yield "gpt2", causal(hub.GPT2Backbone, hub.GPT2CausalLM, **SIZES, **long)
    yield "gpt_neo_x", causal(hub.GPTNeoXBackbone, hub.GPTNeoXCausalLM, **SIZES, **long)
    yield "opt", causal(hub.OPTBackbone, hub.OPTCausalLM, **SIZES, **long)
    yield "bloom", causal(hub.BloomBackbone, hub.BloomCausalLM, **SIZES, num_heads=2)
    yield "falcon", causal(hub.FalconBackbone, hub.FalconCausalLM, **SIZES, num_attention_heads=2)
    grouped = dict(num_query_heads=4, num_key_value_heads=2)
    yield "llama", causal(hub.LlamaBackbone, hub.LlamaCausalLM, **SIZES, **grouped)
    yield "mistral", causal(hub.MistralBackbone, hub.MistralCausalLM, **SIZES, **grouped, sliding_window=4)
    yield "phi3", causal(hub.Phi3Backbone, hub.Phi3CausalLM, **SIZES, **grouped, pad_token_id=0)
    yield "gemma", causal(hub.GemmaBackbone, hub.GemmaCausalLM, **SIZES, **grouped, head_dim=4)
    yield "gemma2", causal(hub.GemmaBackbone, hub.GemmaCausalLM, **SIZES, **grouped, head_dim=4, use_post_ffw_norm=True,
                           use_post_attention_norm=True, attention_logit_soft_cap=50.0, final_logit_soft_cap=30.0,
                           use_sliding_window_attention=True, sliding_window_size=4)
    yield "t5", encoder(hub.T5Backbone, PAIR, vocabulary_size=WORDS, num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=32,
                        key_value_dim=8)
    yield "bart", encoder(hub.BartBackbone, PAIR, **SIZES, **long)
    yield "whisper", encoder(hub.WhisperBackbone, {"encoder_features": RNG.normal(size=(2, 12, 8)).astype(np.float32),
                                                   "decoder_token_ids": tokens(6), "decoder_padding_mask": np.ones((2, 6), np.int32)},
                             **SIZES, num_heads=2, num_mels=8, max_encoder_sequence_length=12, max_decoder_sequence_length=6)


def images_of():
    yield "vgg", hub_case(lambda: hub.VGGBackbone([1, 1, 1], [4, 8, 8], image_shape=(32, 32, 3)), images())
    yield "dense_net", hub_case(lambda: hub.DenseNetBackbone([1, 2, 1], compression_ratio=0.5, growth_rate=8, image_shape=(32, 32, 3)), images())
    yield "csp_dark_net", hub_case(lambda: hub.CSPDarkNetBackbone([8, 8, 16, 16], [1, 1, 1, 1], image_shape=(32, 32, 3)), images())
    yield "mi_t", hub_case(lambda: hub.MiTBackbone([1, 1], 2, [1, 2], [4, 2], 0.1, [7, 3], [4, 2], image_shape=(32, 32, 3),
                                                  hidden_dims=[8, 16]), images())
    yield "segment_anything_encoder", hub_case(lambda: hub.ViTDetBackbone(16, 2, 32, 2, [1], patch_size=8, num_output_channels=8,
                                                                         window_size=2, image_shape=(32, 32, 3)), images())
    yield "pali_gemma", hub_case(lambda: hub.PaliGemmaBackbone(
        vocabulary_size=WORDS, image_size=16, num_layers=1, num_query_heads=2, num_key_value_heads=1, hidden_dim=16, intermediate_dim=32,
        head_dim=8, vit_patch_size=8, vit_num_heads=2, vit_hidden_dim=16, vit_num_layers=1, vit_intermediate_dim=32),
        {"images": images(16)["x"], "token_ids": tokens(), "padding_mask": np.ones((2, LENGTH), np.int32),
         "response_mask": np.ones((2, LENGTH), np.int32)})


def cases():
    yield from texts_of()
    yield from images_of()
