"""Hugging Face transformers for TensorFlow: a training step with labels of each kind of model, from small configs."""
import numpy as np
import tensorflow as tf
import transformers as hf

from zoo import eager, function_net

RNG = np.random.default_rng(0)
BATCH, LENGTH, VOCABULARY, SIZE = 2, 8, 60, 32

SMALL = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
             max_position_embeddings=40, pad_token_id=0)
SMALL_D = dict(vocab_size=VOCABULARY, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
               decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=40,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
SMALL_V = dict(image_size=SIZE, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
               intermediate_size=32, num_labels=4)


def token_ids(shape=(BATCH, LENGTH)):
    return RNG.integers(3, VOCABULARY, shape).astype(np.int32)


def text(**labels):
    mask = np.ones((BATCH, LENGTH), np.int32)
    mask[1, -3:] = 0
    return {"input_ids": token_ids(), "attention_mask": mask, **labels}


def per_token():
    labels = token_ids()
    labels[0, 2] = -100  # ignored by the loss
    return {"labels": labels}


def per_text(classes=2):
    return {"labels": RNG.integers(0, classes, BATCH).astype(np.int32)}


def span():
    return {"start_positions": np.array([1, 2], np.int32), "end_positions": np.array([3, 4], np.int32)}


def tags(classes=2):
    return {"labels": RNG.integers(0, classes, (BATCH, LENGTH)).astype(np.int32)}


def image(size=SIZE, **labels):
    return {"pixel_values": RNG.normal(size=(BATCH, 3, size, size)).astype(np.float32), **labels}


def sequences():
    return {**text(), "decoder_input_ids": token_ids((BATCH, 6)), "labels": token_ids((BATCH, 6))}


def audio(samples=400, **labels):
    return {"input_values": RNG.normal(size=(BATCH, samples)).astype(np.float32), **labels}


def spectrogram(bins, frames):
    return {"input_features": RNG.normal(size=(BATCH, bins, frames)).astype(np.float32), "labels": token_ids((BATCH, 6))}


WAVES = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
             conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=8,
             num_conv_pos_embedding_groups=2, mask_time_prob=0.0, pad_token_id=0, feat_extract_norm="group")

# name: (model, config, its arguments, feeds)
MODELS = {
    "bert_mlm": ("TFBertForMaskedLM", "BertConfig", SMALL, text(**per_token())),
    "bert_pretraining": ("TFBertForPreTraining", "BertConfig", SMALL,
                         text(**per_token(), next_sentence_label=np.array([0, 1], np.int32))),
    "bert_classification": ("TFBertForSequenceClassification", "BertConfig", SMALL, text(**per_text())),
    "bert_squad": ("TFBertForQuestionAnswering", "BertConfig", SMALL, text(**span())),
    "bert_choice": ("TFBertForMultipleChoice", "BertConfig", SMALL, {"input_ids": token_ids((BATCH, 3, LENGTH)), **per_text(3)}),
    "bert_lm": ("TFBertLMHeadModel", "BertConfig", {**SMALL, "is_decoder": True}, text(**per_token())),
    "roberta_tags": ("TFRobertaForTokenClassification", "RobertaConfig", SMALL, text(**tags())),
    "roberta_prelayernorm_mlm": ("TFRobertaPreLayerNormForMaskedLM", "RobertaPreLayerNormConfig", SMALL, text(**per_token())),
    "xlm_roberta_squad": ("TFXLMRobertaForQuestionAnswering", "XLMRobertaConfig", SMALL, text(**span())),
    "camembert_classification": ("TFCamembertForSequenceClassification", "CamembertConfig", SMALL, text(**per_text())),
    "distilbert_mlm": ("TFDistilBertForMaskedLM", "DistilBertConfig",
                       dict(vocab_size=VOCABULARY, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=40),
                       text(**per_token())),
    "albert_mlm": ("TFAlbertForMaskedLM", "AlbertConfig", {**SMALL, "embedding_size": 8}, text(**per_token())),
    "albert_classification": ("TFAlbertForSequenceClassification", "AlbertConfig", {**SMALL, "embedding_size": 8},
                              text(**per_text())),
    "electra_mlm": ("TFElectraForMaskedLM", "ElectraConfig", {**SMALL, "embedding_size": 8}, text(**per_token())),
    "electra_squad": ("TFElectraForQuestionAnswering", "ElectraConfig", {**SMALL, "embedding_size": 8}, text(**span())),
    "deberta_mlm": ("TFDebertaForMaskedLM", "DebertaConfig",
                    {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, text(**per_token())),
    "deberta_v2_tags": ("TFDebertaV2ForTokenClassification", "DebertaV2Config",
                        {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 4,
                         "share_att_key": True, "norm_rel_ebd": "layer_norm", "conv_kernel_size": 3}, text(**tags())),
    "mobilebert_mlm": ("TFMobileBertForMaskedLM", "MobileBertConfig",
                       {**SMALL, "embedding_size": 16, "intra_bottleneck_size": 16}, text(**per_token())),
    "convbert_mlm": ("TFConvBertForMaskedLM", "ConvBertConfig", {**SMALL, "embedding_size": 16}, text(**per_token())),
    "mpnet_mlm": ("TFMPNetForMaskedLM", "MPNetConfig", SMALL, text(**per_token())),
    "rembert_lm": ("TFRemBertForMaskedLM", "RemBertConfig", {**SMALL, "input_embedding_size": 8, "output_embedding_size": 8},
                   text(**per_token())),
    "roformer_mlm": ("TFRoFormerForMaskedLM", "RoFormerConfig", {**SMALL, "embedding_size": 16}, text(**per_token())),
    "funnel_mlm": ("TFFunnelForMaskedLM", "FunnelConfig",
                   dict(vocab_size=VOCABULARY, block_sizes=[1, 1], num_decoder_layers=1, d_model=16, n_head=2, d_head=8,
                        d_inner=32, pad_token_id=0), text(**per_token())),
    "longformer_mlm": ("TFLongformerForMaskedLM", "LongformerConfig", {**SMALL, "attention_window": 4}, text(**per_token())),
    "longformer_squad": ("TFLongformerForQuestionAnswering", "LongformerConfig", {**SMALL, "attention_window": 4, "sep_token_id": 2},
                         {**text(**span()), "global_attention_mask": np.eye(BATCH, LENGTH, dtype=np.int32)}),
    "led_seq2seq": ("TFLEDForConditionalGeneration", "LEDConfig",
                    {**SMALL_D, "attention_window": 4, "max_encoder_position_embeddings": 40,
                     "max_decoder_position_embeddings": 40}, sequences()),
    "layoutlm_tags": ("TFLayoutLMForTokenClassification", "LayoutLMConfig", {**SMALL, "max_2d_position_embeddings": 40},
                      {**text(**tags()), "bbox": np.sort(RNG.integers(0, 40, (BATCH, LENGTH, 4)), -1).astype(np.int32)}),
    "esm_mlm": ("TFEsmForMaskedLM", "EsmConfig", {**SMALL, "mask_token_id": 1, "position_embedding_type": "rotary"},
                text(**per_token())),
    "flaubert_lm": ("TFFlaubertForSequenceClassification", "FlaubertConfig",
                    dict(vocab_size=VOCABULARY, emb_dim=16, n_layers=2, n_heads=2, max_position_embeddings=40), text(**per_text())),
    "xlm_classification": ("TFXLMForSequenceClassification", "XLMConfig",
                           dict(vocab_size=VOCABULARY, emb_dim=16, n_layers=2, n_heads=2, max_position_embeddings=40),
                           text(**per_text())),
    "xlnet_lm": ("TFXLNetLMHeadModel", "XLNetConfig", dict(vocab_size=VOCABULARY, d_model=16, n_layer=2, n_head=2, d_inner=32),
                 text(**per_token())),
    "xlnet_classification": ("TFXLNetForSequenceClassification", "XLNetConfig",
                             dict(vocab_size=VOCABULARY, d_model=16, n_layer=2, n_head=2, d_inner=32), text(**per_text())),
    "tapas": ("TFTapasForQuestionAnswering", "TapasConfig", {**SMALL, "type_vocab_sizes": [3, 8, 8, 2, 8, 8, 2]},
              {**text(labels=RNG.integers(0, 2, (BATCH, LENGTH)).astype(np.int32)),
               "token_type_ids": RNG.integers(0, 2, (BATCH, LENGTH, 7)).astype(np.int32)}),
    "lxmert": ("TFLxmertForPreTraining", "LxmertConfig",
               {**{k: v for k, v in SMALL.items() if k != "num_hidden_layers"}, "l_layers": 1, "x_layers": 1, "r_layers": 1,
                "visual_feat_dim": 12, "num_qa_labels": 4, "num_object_labels": 6, "num_attr_labels": 6,
                "task_obj_predict": False},
               {**text(masked_lm_labels=token_ids(), matched_label=np.array([0, 1], np.int32), ans=np.array([1, 3], np.int32)),
                "visual_feats": RNG.normal(size=(BATCH, 5, 12)).astype(np.float32), "visual_pos": RNG.uniform(size=(BATCH, 5, 4)).astype(np.float32)}),
    "gpt2_lm": ("TFGPT2LMHeadModel", "GPT2Config", dict(vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=2),
                text(**per_token())),
    "gpt2_classification": ("TFGPT2ForSequenceClassification", "GPT2Config",
                            dict(vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=2, pad_token_id=0),
                            text(**per_text())),
    "openai_gpt_lm": ("TFOpenAIGPTLMHeadModel", "OpenAIGPTConfig",
                      dict(vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=2), text(**per_token())),
    "gptj_lm": ("TFGPTJForCausalLM", "GPTJConfig",
                dict(vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=2, rotary_dim=4), text(**per_token())),
    "ctrl_lm": ("TFCTRLLMHeadModel", "CTRLConfig",
                dict(vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=2, dff=32), text(**per_token())),
    "opt_lm": ("TFOPTForCausalLM", "OPTConfig",
               dict(vocab_size=VOCABULARY, hidden_size=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2,
                    max_position_embeddings=40, word_embed_proj_dim=16, pad_token_id=1, bos_token_id=2, eos_token_id=2),
               text(**per_token())),
    "xglm_lm": ("TFXGLMForCausalLM", "XGLMConfig",
                dict(vocab_size=VOCABULARY, d_model=16, ffn_dim=32, num_layers=2, attention_heads=2, max_position_embeddings=40,
                     pad_token_id=0), text(**per_token())),
    "mistral_lm": ("TFMistralForCausalLM", "MistralConfig", {**SMALL, "num_key_value_heads": 1}, text(**per_token())),
    "bart_seq2seq": ("TFBartForConditionalGeneration", "BartConfig", SMALL_D, sequences()),
    "mbart_seq2seq": ("TFMBartForConditionalGeneration", "MBartConfig", SMALL_D, sequences()),
    "pegasus_seq2seq": ("TFPegasusForConditionalGeneration", "PegasusConfig", SMALL_D, sequences()),
    "marian_seq2seq": ("TFMarianMTModel", "MarianConfig", SMALL_D, sequences()),
    "blenderbot_seq2seq": ("TFBlenderbotForConditionalGeneration", "BlenderbotConfig", SMALL_D, sequences()),
    "blenderbot_small_seq2seq": ("TFBlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig", SMALL_D, sequences()),
    "t5_seq2seq": ("TFT5ForConditionalGeneration", "T5Config",
                   dict(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0),
                   {**text(), "labels": token_ids((BATCH, 6))}),
    "mt5_seq2seq": ("TFMT5ForConditionalGeneration", "MT5Config",
                    dict(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0,
                         feed_forward_proj="gated-gelu"), {**text(), "labels": token_ids((BATCH, 6))}),
    "whisper": ("TFWhisperForConditionalGeneration", "WhisperConfig",
                {**SMALL_D, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20}, spectrogram(8, 20)),
    "speech_to_text": ("TFSpeech2TextForConditionalGeneration", "Speech2TextConfig",
                       {**SMALL_D, "max_source_positions": 40, "max_target_positions": 20, "input_feat_per_channel": 8,
                        "conv_channels": 16, "conv_kernel_sizes": (3,), "num_conv_layers": 1}, spectrogram(20, 8)),
    "wav2vec2_ctc": ("TFWav2Vec2ForCTC", "Wav2Vec2Config", WAVES, audio(labels=token_ids((BATCH, 5)))),
    "wav2vec2_stable_ctc": ("TFWav2Vec2ForCTC", "Wav2Vec2Config",
                            {**WAVES, "feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True},
                            audio(labels=token_ids((BATCH, 5)))),
    "wav2vec2_classification": ("TFWav2Vec2ForSequenceClassification", "Wav2Vec2Config", {**WAVES, "classifier_proj_size": 8},
                                audio(**per_text())),
    "hubert_ctc": ("TFHubertForCTC", "HubertConfig", WAVES, audio(labels=token_ids((BATCH, 5)))),
    "vit": ("TFViTForImageClassification", "ViTConfig", SMALL_V, image(**per_text(4))),
    "vit_mae": ("TFViTMAEForPreTraining", "ViTMAEConfig",
                {**SMALL_V, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
                 "decoder_intermediate_size": 32}, image(noise=RNG.uniform(size=(BATCH, 16)).astype(np.float32))),
    "deit": ("TFDeiTForImageClassification", "DeiTConfig", SMALL_V, image(**per_text(4))),
    "deit_masked": ("TFDeiTForMaskedImageModeling", "DeiTConfig", {**SMALL_V, "encoder_stride": 8},
                    image(bool_masked_pos=RNG.integers(0, 2, (BATCH, 16)).astype(bool))),
    "swin": ("TFSwinForImageClassification", "SwinConfig",
             dict(image_size=SIZE, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4, num_labels=4),
             image(**per_text(4))),
    "swin_masked": ("TFSwinForMaskedImageModeling", "SwinConfig",
                    dict(image_size=SIZE, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4, encoder_stride=4),
                    image(bool_masked_pos=RNG.integers(0, 2, (BATCH, 256)).astype(bool))),
    "data2vec_vision": ("TFData2VecVisionForImageClassification", "Data2VecVisionConfig",
                        {**SMALL_V, "use_relative_position_bias": True}, image(**per_text(4))),
    "data2vec_segmentation": ("TFData2VecVisionForSemanticSegmentation", "Data2VecVisionConfig",
                              {**SMALL_V, "num_hidden_layers": 4, "out_indices": [0, 1, 2, 3], "auxiliary_channels": 8},
                              image(labels=RNG.integers(0, 4, (BATCH, SIZE, SIZE)).astype(np.int32))),
    "convnext": ("TFConvNextForImageClassification", "ConvNextConfig",
                 dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=4, image_size=SIZE), image(**per_text(4))),
    "convnext_v2": ("TFConvNextV2ForImageClassification", "ConvNextV2Config",
                    dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=4, image_size=SIZE), image(**per_text(4))),
    "resnet": ("TFResNetForImageClassification", "ResNetConfig",
               dict(embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_labels=4, layer_type="bottleneck"),
               image(64, **per_text(4))),
    "regnet": ("TFRegNetForImageClassification", "RegNetConfig",
               dict(embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], groups_width=8, num_labels=4),
               image(64, **per_text(4))),
    "mobilevit": ("TFMobileViTForImageClassification", "MobileViTConfig",
                  dict(image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32],
                       num_attention_heads=2, num_labels=4), image(64, **per_text(4))),
    "mobilevit_segmentation": ("TFMobileViTForSemanticSegmentation", "MobileViTConfig",
                               dict(image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32],
                                    num_attention_heads=2, num_labels=4, aspp_out_channels=8),
                               image(64, labels=RNG.integers(0, 4, (BATCH, 64, 64)).astype(np.int32))),
    "efficientformer": ("TFEfficientFormerForImageClassification", "EfficientFormerConfig",
                        dict(depths=[1, 1, 1, 2], hidden_sizes=[8, 8, 16, 16], num_meta3d_blocks=1, image_size=64, dim=16,
                             resolution=2, key_dim=8, num_labels=4), image(64, **per_text(4))),
    "swiftformer": ("TFSwiftFormerForImageClassification", "SwiftFormerConfig",
                    dict(depths=[1, 1, 1, 1], embed_dims=[8, 8, 16, 16], num_labels=4, image_size=64), image(64, **per_text(4))),
    "cvt": ("TFCvtForImageClassification", "CvtConfig", dict(embed_dim=[8, 16, 16], num_heads=[1, 2, 2], depth=[1, 2, 3], num_labels=4),
            image(64, **per_text(4))),
    "segformer_classification": ("TFSegformerForImageClassification", "SegformerConfig",
                                 dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], num_labels=4),
                                 image(64, **per_text(4))),
    "segformer": ("TFSegformerForSemanticSegmentation", "SegformerConfig",
                  dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], num_labels=4,
                       decoder_hidden_size=16), image(64, labels=RNG.integers(0, 4, (BATCH, 64, 64)).astype(np.int32))),
    "clip": ("TFCLIPModel", "CLIPConfig",
             dict(text_config=dict(**SMALL, bos_token_id=1, eos_token_id=2), vision_config=SMALL_V, projection_dim=8),
             {**text(), **image()}),
    "blip": ("TFBlipForConditionalGeneration", "BlipConfig",
             dict(text_config=dict(**SMALL, bos_token_id=1, sep_token_id=2, encoder_hidden_size=16),
                  vision_config=SMALL_V, projection_dim=8), {**text(**per_token()), **image()}),
    "groupvit": ("TFGroupViTModel", "GroupViTConfig",
                 dict(text_config=dict(**SMALL, bos_token_id=1, eos_token_id=2), projection_dim=8, projection_intermediate_dim=16,
                      vision_config=dict(image_size=SIZE, patch_size=8, hidden_size=16, depths=[1, 1, 1], num_hidden_layers=3,
                                         num_group_tokens=[4, 3, 0], num_output_groups=[4, 3, 0], num_attention_heads=2,
                                         intermediate_size=32)), {**text(), **image()}),
    "vision_text_dual": ("TFVisionTextDualEncoderModel", None, None, {**text(), **image()}),
    "vision_encoder_decoder": ("TFVisionEncoderDecoderModel", None, None, {**image(), "labels": token_ids((BATCH, 6))}),
    "encoder_decoder": ("TFEncoderDecoderModel", None, None, {**text(), "labels": token_ids((BATCH, 6))}),
}

CONTRASTIVE = ("clip", "groupvit", "vision_text_dual")
CTC = ("wav2vec2_ctc", "wav2vec2_stable_ctc", "hubert_ctc")  # whose own loss cannot be traced into a graph


def make_model(name):
    model, config, arguments, _ = MODELS[name]
    if name == "vision_text_dual":
        both = hf.VisionTextDualEncoderConfig.from_vision_text_configs(hf.ViTConfig(**SMALL_V), hf.BertConfig(**SMALL), projection_dim=8)
        return hf.TFVisionTextDualEncoderModel(both)
    if name in ("vision_encoder_decoder", "encoder_decoder"):
        encoder = hf.TFViTModel(hf.ViTConfig(**SMALL_V)) if name.startswith("vision") else hf.TFBertModel(hf.BertConfig(**SMALL))
        decoder = hf.TFBertLMHeadModel(hf.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True))
        both = getattr(hf, model)(encoder=encoder, decoder=decoder)
        both.config.decoder_start_token_id, both.config.pad_token_id = 1, 0
        return both
    for part in ([model] if name == "cvt" else ["TFBlipVisionModel", model] if name == "blip" else []):
        # whose configs do not tell how many channels their images have
        getattr(hf, part).input_signature = {"pixel_values": tf.TensorSpec((None, 3, None, None), tf.float32)}
    return getattr(hf, model)(getattr(hf, config)(**arguments))


def training_step(name):
    def build():
        model, feeds = make_model(name), MODELS[name][3]
        extra = {"return_loss": True} if name in CONTRASTIVE else {}

        def loss_of(labels=None, **values):
            if name not in CTC:
                labelled = values if labels is None else {**values, "labels": labels}
                return model(labelled, training=True, **extra).loss
            logits = model(values, training=True).logits
            lengths = tf.fill([BATCH], logits.shape[1]), tf.fill([BATCH], labels.shape[1])
            return tf.nn.ctc_loss(labels, logits, lengths[1], lengths[0], logits_time_major=False, blank_index=0)

        loss_of(**feeds)
        optimizer, _ = hf.create_optimizer(1e-3, num_train_steps=20, num_warmup_steps=2, weight_decay_rate=0.01)
        weights = model.trainable_variables
        optimizer._create_all_weights(weights)

        def step(**values):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(loss_of(**values))
            pairs = [(g, v) for g, v in zip(tape.gradient(loss, weights), weights) if g is not None]
            optimizer.apply_gradients(pairs)
            return loss

        return function_net(step, feeds, check_variables=False)
    return eager(build)


def cases():
    return [(name, training_step(name)) for name in MODELS]
