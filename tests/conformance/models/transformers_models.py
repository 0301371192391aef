"""Entries made from `transformers` configurations."""

from __future__ import annotations

from models.entries import Built, DEC, ENC, S2S, TEXT, VIS, entry, hf, ids, image_in, lm_in, ones, padded_in, randn, seq2seq_in, text_in

# ------------------------------------------------------------------------------------------ text encoders
hf("bert", "encoder", "BertForMaskedLM", "BertConfig", ENC, lm_in)
hf("bert_padded", "encoder", "BertModel", "BertConfig", ENC, padded_in)
hf("roberta_cls", "encoder", "RobertaForSequenceClassification", "RobertaConfig", ENC, lambda: dict(text_in(), labels=ones(2)))
hf(
    "distilbert",
    "encoder",
    "DistilBertModel",
    "DistilBertConfig",
    dict(vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0),
    text_in,
)
hf("albert", "encoder", "AlbertModel", "AlbertConfig", dict(ENC, embedding_size=16), text_in)
hf(
    "electra",
    "encoder",
    "ElectraForTokenClassification",
    "ElectraConfig",
    dict(ENC, embedding_size=16),
    lambda: dict(text_in(), labels=ones(2, 16)),
)
hf(
    "deberta_v2",
    "encoder",
    "DebertaV2Model",
    "DebertaV2Config",
    dict(ENC, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"]),
    padded_in,
)
hf("modernbert", "encoder", "ModernBertModel", "ModernBertConfig", dict(TEXT, cls_token_id=1, sep_token_id=2, local_attention=8), padded_in)
hf("longformer", "encoder", "LongformerModel", "LongformerConfig", dict(ENC, attention_window=4), text_in)
hf(
    "big_bird",
    "encoder",
    "BigBirdModel",
    "BigBirdConfig",
    dict(ENC, attention_type="block_sparse", block_size=4, num_random_blocks=1, max_position_embeddings=128),
    lambda: dict(input_ids=ids(1, 64), attention_mask=ones(1, 64)),
)
hf("fnet", "encoder", "FNetModel", "FNetConfig", dict(TEXT, hidden_dropout_prob=0.0, type_vocab_size=2), lambda: dict(input_ids=ids()))
hf("xlnet", "encoder", "XLNetModel", "XLNetConfig", dict(vocab_size=96, d_model=32, n_layer=2, n_head=4, d_inner=48, dropout=0.0), text_in)
hf(
    "perceiver_io",
    "encoder",
    "PerceiverModel",
    "PerceiverConfig",
    dict(
        d_model=32,
        num_latents=8,
        d_latents=32,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
        attention_probs_dropout_prob=0.0,
    ),
    lambda: dict(inputs=randn(2, 16, 32)),
)
hf(
    "reformer",
    "encoder",
    "ReformerModel",
    "ReformerConfig",
    dict(
        vocab_size=96,
        hidden_size=32,
        attention_head_size=8,
        num_attention_heads=4,
        feed_forward_size=48,
        attn_layers=["local", "lsh"],
        num_buckets=2,
        num_hashes=1,
        lsh_attn_chunk_length=8,
        local_attn_chunk_length=8,
        axial_pos_embds=False,
        max_position_embeddings=64,
        is_decoder=False,
        hash_seed=7,
        hidden_dropout_prob=0.0,
        lsh_attention_probs_dropout_prob=0.0,
        local_attention_probs_dropout_prob=0.0,
        use_cache=False,
    ),
    lambda: dict(input_ids=ids()),
)
hf(
    "esm_protein",
    "encoder",
    "EsmModel",
    "EsmConfig",
    dict(ENC, position_embedding_type="rotary", mask_token_id=3, token_dropout=True),
    padded_in,
)
hf(
    "layoutlm",
    "encoder",
    "LayoutLMModel",
    "LayoutLMConfig",
    dict(ENC, max_2d_position_embeddings=64),
    lambda: dict(text_in(), bbox=_boxes()),
)


def _boxes():
    import torch

    corner = torch.randint(0, 30, (2, 16, 2))
    return torch.cat([corner, corner + torch.randint(1, 30, (2, 16, 2))], -1)


# ------------------------------------------------------------------------------------------ text decoders
hf(
    "gpt2",
    "decoder",
    "GPT2LMHeadModel",
    "GPT2Config",
    dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False),
    lm_in,
)
hf("gpt_neox", "decoder", "GPTNeoXForCausalLM", "GPTNeoXConfig", dict(TEXT, use_cache=False), lm_in)
hf(
    "bloom_alibi",
    "decoder",
    "BloomForCausalLM",
    "BloomConfig",
    dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4, use_cache=False),
    lm_in,
)
hf("opt", "decoder", "OPTForCausalLM", "OPTConfig", dict(TEXT, ffn_dim=48, word_embed_proj_dim=32, dropout=0.0, use_cache=False), lm_in)
hf("llama", "decoder", "LlamaForCausalLM", "LlamaConfig", DEC, lm_in)
hf("llama_kv_cache", "decoder", "LlamaForCausalLM", "LlamaConfig", dict(DEC, use_cache=True), text_in, notes="returns a cache object")
hf("mistral_sliding", "decoder", "MistralForCausalLM", "MistralConfig", dict(DEC, sliding_window=8), lm_in)
hf("qwen3", "decoder", "Qwen3ForCausalLM", "Qwen3Config", dict(DEC, head_dim=8), lm_in)
hf("gemma2", "decoder", "Gemma2ForCausalLM", "Gemma2Config", dict(DEC, head_dim=8, sliding_window=8), lm_in)
hf("gemma3_text", "decoder", "Gemma3ForCausalLM", "Gemma3TextConfig", dict(DEC, head_dim=8, sliding_window=8), lm_in)
hf("phi3", "decoder", "Phi3ForCausalLM", "Phi3Config", DEC, lm_in)
hf(
    "falcon",
    "decoder",
    "FalconForCausalLM",
    "FalconConfig",
    dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, use_cache=False, bos_token_id=1, eos_token_id=2),
    lm_in,
)
hf("mixtral_moe", "moe", "MixtralForCausalLM", "MixtralConfig", dict(DEC, num_local_experts=4, num_experts_per_tok=2), lm_in)
hf(
    "qwen3_moe",
    "moe",
    "Qwen3MoeForCausalLM",
    "Qwen3MoeConfig",
    dict(DEC, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24),
    lm_in,
)
hf(
    "deepseek_v3",
    "moe",
    "DeepseekV3ForCausalLM",
    "DeepseekV3Config",
    dict(
        DEC,
        num_key_value_heads=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=24,
        kv_lora_rank=8,
        q_lora_rank=8,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        first_k_dense_replace=1,
    ),
    lm_in,
)
hf(
    "gpt_oss",
    "moe",
    "GptOssForCausalLM",
    "GptOssConfig",
    dict(DEC, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    lm_in,
)
hf(
    "switch_t5_moe",
    "moe",
    "SwitchTransformersModel",
    "SwitchTransformersConfig",
    dict(
        vocab_size=96,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_decoder_layers=2,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        num_heads=4,
        num_experts=2,
        dropout_rate=0.0,
        use_cache=False,
        router_jitter_noise=0.0,
        decoder_start_token_id=0,
    ),
    lambda: dict(input_ids=ids(), decoder_input_ids=ids(2, 8)),
)
hf(
    "mamba",
    "ssm",
    "MambaForCausalLM",
    "MambaConfig",
    dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8, use_cache=False),
    lambda: dict(input_ids=ids(), labels=ids()),
)
hf(
    "mamba2",
    "ssm",
    "Mamba2ForCausalLM",
    "Mamba2Config",
    dict(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=8, use_cache=False
    ),
    lambda: dict(input_ids=ids(), labels=ids()),
)
hf(
    "rwkv",
    "ssm",
    "RwkvForCausalLM",
    "RwkvConfig",
    dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, context_length=64, use_cache=False),
    lambda: dict(input_ids=ids(), labels=ids()),
)
hf(
    "recurrent_gemma",
    "ssm",
    "RecurrentGemmaForCausalLM",
    "RecurrentGemmaConfig",
    dict(DEC, head_dim=8, lru_width=32, attention_window_size=8, block_types=("recurrent", "attention")),
    lm_in,
)
hf(
    "xlstm",
    "ssm",
    "xLSTMForCausalLM",
    "xLSTMConfig",
    dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_heads=4, use_cache=False),
    lambda: dict(input_ids=ids()),
)


@entry("gpt2_generate", "transformers", "decoder", train=False, notes="greedy generation, 6 new tokens")
def _():
    import transformers

    m = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=None, pad_token_id=0
        )
    )
    return Built(m, (ids(1, 8),), {}, call=lambda x: m.generate(x, max_new_tokens=6, do_sample=False))


# ------------------------------------------------------------------------------------------ seq2seq, speech
hf(
    "t5",
    "seq2seq",
    "T5ForConditionalGeneration",
    "T5Config",
    dict(
        vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False, decoder_start_token_id=0
    ),
    seq2seq_in,
)
hf("bart", "seq2seq", "BartForConditionalGeneration", "BartConfig", S2S, seq2seq_in)
hf("m2m_100", "seq2seq", "M2M100ForConditionalGeneration", "M2M100Config", S2S, seq2seq_in)
hf("pegasus", "seq2seq", "PegasusForConditionalGeneration", "PegasusConfig", S2S, seq2seq_in)
hf(
    "whisper",
    "audio",
    "WhisperForConditionalGeneration",
    "WhisperConfig",
    dict(S2S, num_mel_bins=8, max_source_positions=16, max_target_positions=32, suppress_tokens=[], begin_suppress_tokens=[]),
    lambda: dict(input_features=randn(2, 8, 32), labels=ids(2, 8)),
)
hf(
    "wav2vec2",
    "audio",
    "Wav2Vec2Model",
    "Wav2Vec2Config",
    dict(
        ENC,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        feat_extract_norm="group",
        mask_time_prob=0.0,
        layerdrop=0.0,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
    ),
    lambda: dict(input_values=randn(2, 1000)),
)
hf(
    "wav2vec2_ctc",
    "audio",
    "Wav2Vec2ForCTC",
    "Wav2Vec2Config",
    dict(
        ENC,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
        layerdrop=0.0,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        ctc_zero_infinity=True,
    ),
    lambda: dict(input_values=randn(2, 1000), labels=ids(2, 6)),
)
hf(
    "wavlm",
    "audio",
    "WavLMModel",
    "WavLMConfig",
    dict(
        ENC,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        num_buckets=16,
        max_bucket_distance=32,
        mask_time_prob=0.0,
        layerdrop=0.0,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
    ),
    lambda: dict(input_values=randn(2, 1000)),
)
hf(
    "audio_spectrogram",
    "audio",
    "ASTModel",
    "ASTConfig",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        patch_size=8,
        frequency_stride=8,
        time_stride=8,
        max_length=32,
        num_mel_bins=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ),
    lambda: dict(input_values=randn(2, 32, 16)),
)
hf(
    "vits_tts",
    "audio",
    "VitsModel",
    "VitsConfig",
    dict(
        vocab_size=96,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=48,
        flow_size=32,
        spectrogram_bins=17,
        upsample_initial_channel=32,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        prior_encoder_num_flows=2,
        posterior_encoder_num_wavenet_layers=2,
        wavenet_dilation_rate=1,
        duration_predictor_num_flows=2,
        depth_separable_num_layers=2,
        noise_scale=0.0,
        noise_scale_duration=0.0,
    ),
    lambda: dict(input_ids=ids(1, 8)),
    train=False,
)

# ------------------------------------------------------------------------------------------ vision
hf("vit", "vision", "ViTForImageClassification", "ViTConfig", VIS, lambda: dict(image_in(), labels=ones(2)))
hf("beit", "vision", "BeitModel", "BeitConfig", dict(VIS, use_relative_position_bias=True, drop_path_rate=0.0), image_in)
hf("dinov2", "vision", "Dinov2Model", "Dinov2Config", dict(VIS, mlp_ratio=2), image_in)
hf(
    "swin",
    "vision",
    "SwinModel",
    "SwinConfig",
    dict(
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        drop_path_rate=0.0,
    ),
    image_in,
)
hf(
    "convnext",
    "cnn",
    "ConvNextForImageClassification",
    "ConvNextConfig",
    dict(hidden_sizes=[16, 32], depths=[1, 2], num_stages=2, drop_path_rate=0.0),
    lambda: dict(image_in(), labels=ones(2)),
)
hf(
    "resnet_hf",
    "cnn",
    "ResNetForImageClassification",
    "ResNetConfig",
    dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], layer_type="bottleneck"),
    lambda: dict(image_in(), labels=ones(2)),
)
hf("mobilenet_v2", "cnn", "MobileNetV2Model", "MobileNetV2Config", dict(image_size=32, depth_multiplier=0.35), image_in)
hf("regnet", "cnn", "RegNetModel", "RegNetConfig", dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], groups_width=8), image_in)
hf(
    "efficientnet_hf",
    "cnn",
    "EfficientNetModel",
    "EfficientNetConfig",
    dict(image_size=32, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320, dropout_rate=0.0, drop_connect_rate=0.0),
    image_in,
)
hf(
    "segformer",
    "segmentation",
    "SegformerForSemanticSegmentation",
    "SegformerConfig",
    dict(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=32,
        classifier_dropout_prob=0.0,
        drop_path_rate=0.0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ),
    lambda: dict(image_in(), labels=ones(2, 32, 32)),
)
hf(
    "videomae",
    "vision",
    "VideoMAEModel",
    "VideoMAEConfig",
    dict(VIS, num_frames=4, tubelet_size=2),
    lambda: dict(pixel_values=randn(1, 4, 3, 32, 32)),
)
hf(
    "vit_mae",
    "vision",
    "ViTMAEForPreTraining",
    "ViTMAEConfig",
    dict(VIS, decoder_hidden_size=32, decoder_num_hidden_layers=1, decoder_num_attention_heads=4, decoder_intermediate_size=48),
    lambda: dict(image_in(), noise=randn(2, 16).abs()),
)
hf(
    "depth_dpt",
    "vision",
    "DPTForDepthEstimation",
    "DPTConfig",
    dict(
        VIS,
        num_hidden_layers=4,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[16, 16, 32, 32],
        fusion_hidden_size=16,
        reassemble_factors=[4, 2, 1, 0.5],
        is_hybrid=False,
    ),
    image_in,
)


def _resnet_backbone():
    import transformers

    return transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"])


hf(
    "detr",
    "detection",
    "DetrForObjectDetection",
    "DetrConfig",
    lambda: dict(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=_resnet_backbone(),
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_queries=6,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
    ),
    lambda: image_in(64),
)
hf("yolos", "detection", "YolosModel", "YolosConfig", dict(VIS, image_size=[32, 32], num_detection_tokens=4), image_in)
hf(
    "sam_mask_decoder",
    "segmentation",
    "SamModel",
    "SamConfig",
    lambda: dict(
        vision_config=dict(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            output_channels=16,
            num_pos_feats=8,
            mlp_dim=48,
            window_size=2,
            global_attn_indexes=[1],
        ),
        prompt_encoder_config=dict(hidden_size=16, image_size=32, patch_size=8, mask_input_channels=8),
        mask_decoder_config=dict(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            mlp_dim=32,
            iou_head_hidden_dim=16,
            iou_head_depth=2,
            attention_downsample_rate=2,
        ),
    ),
    lambda: dict(pixel_values=randn(1, 3, 32, 32), input_points=randn(1, 1, 2, 2).abs() * 8),
)

# ------------------------------------------------------------------------------------------ several modalities
hf(
    "clip",
    "multimodal",
    "CLIPModel",
    "CLIPConfig",
    lambda: dict(
        text_config=dict(TEXT),
        vision_config=dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48),
        projection_dim=16,
    ),
    lambda: dict(text_in(), **image_in(), return_loss=True),
)
hf(
    "siglip",
    "multimodal",
    "SiglipModel",
    "SiglipConfig",
    lambda: dict(
        text_config=dict(TEXT),
        vision_config=dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48),
    ),
    lambda: dict(input_ids=ids(), **image_in(), return_loss=True),
)
hf(
    "blip_captioning",
    "multimodal",
    "BlipForConditionalGeneration",
    "BlipConfig",
    lambda: dict(
        text_config=dict(TEXT, encoder_hidden_size=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        vision_config=dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48),
        projection_dim=16,
        image_text_hidden_size=16,
    ),
    lambda: dict(text_in(), **image_in(), labels=ids()),
)
hf(
    "llava",
    "multimodal",
    "LlavaForConditionalGeneration",
    "LlavaConfig",
    lambda: dict(
        text_config=dict(DEC, model_type="llama"),
        vision_config=dict(
            model_type="clip_vision_model",
            image_size=32,
            patch_size=8,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
        ),
        image_token_index=95,
        image_token_id=95,
        vision_feature_layer=-1,
    ),
    lambda: dict(input_ids=_with_image_tokens(), **image_in()),
)


def _with_image_tokens():
    import torch

    x = torch.randint(5, 90, (2, 24))
    x[:, 2:18] = 95
    return x


# ------------------------------------------------------------------------------------------ time series, RL (transformers)
_TS = dict(
    prediction_length=4,
    context_length=8,
    input_size=1,
    num_time_features=1,
    lags_sequence=[1, 2],
    d_model=16,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
    encoder_layerdrop=0.0,
    decoder_layerdrop=0.0,
    use_cache=False,
)


def _ts_in():
    import torch

    return dict(
        past_values=randn(2, 10),
        past_time_features=randn(2, 10, 1),
        past_observed_mask=torch.ones(2, 10),
        future_values=randn(2, 4),
        future_time_features=randn(2, 4, 1),
    )


hf("time_series_transformer", "time series", "TimeSeriesTransformerForPrediction", "TimeSeriesTransformerConfig", _TS, _ts_in)
hf(
    "informer",
    "time series",
    "InformerForPrediction",
    "InformerConfig",
    dict(_TS, sampling_factor=2),
    _ts_in,
    notes="prob-sparse attention samples",
)
hf("autoformer", "time series", "AutoformerForPrediction", "AutoformerConfig", dict(_TS, label_length=4, moving_average=3), _ts_in)
hf(
    "patchtst",
    "time series",
    "PatchTSTForPrediction",
    "PatchTSTConfig",
    dict(
        num_input_channels=3,
        context_length=32,
        prediction_length=8,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=24,
        attention_dropout=0.0,
        ff_dropout=0.0,
        head_dropout=0.0,
    ),
    lambda: dict(past_values=randn(2, 32, 3), future_values=randn(2, 8, 3)),
)
hf(
    "patchtsmixer",
    "time series",
    "PatchTSMixerForPrediction",
    "PatchTSMixerConfig",
    dict(
        num_input_channels=3,
        context_length=32,
        prediction_length=8,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_layers=2,
        dropout=0.0,
        head_dropout=0.0,
    ),
    lambda: dict(past_values=randn(2, 32, 3), future_values=randn(2, 8, 3)),
)
hf(
    "timesfm",
    "time series",
    "TimesFmModelForPrediction",
    "TimesFmConfig",
    dict(
        patch_length=8,
        context_length=32,
        horizon_length=8,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        head_dim=8,
        freq_size=3,
    ),
    lambda: dict(past_values=[randn(32), randn(20)]),
    train=False,
)


@entry("decision_transformer", "transformers", "reinforcement learning")
def _():
    import torch
    import transformers

    m = transformers.DecisionTransformerModel(
        transformers.DecisionTransformerConfig(
            state_dim=5, act_dim=3, hidden_size=32, n_layer=2, n_head=4, max_ep_len=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
    )
    return (
        m,
        (),
        dict(
            states=randn(2, 6, 5),
            actions=randn(2, 6, 3),
            rewards=randn(2, 6, 1),
            returns_to_go=randn(2, 6, 1),
            timesteps=torch.arange(6).repeat(2, 1),
            attention_mask=ones(2, 6),
        ),
    )
