"""Which exercises each notebook sets, and what the answer is called there."""

EXERCISES = {
    "01-gpt-configuration-and-skeleton": {
        "skeleton": "MySkeleton",
        "configuration": "my_configuration",
        "last_logits": "my_last_logits",
    },
    "02-layer-normalization": {
        "layer_norm": "MyLayerNorm",
        "rms_norm": "MyRMSNorm",
        "faulty_norms": "my_norm_is_right",
    },
    "03-gelu-and-feed-forward": {
        "gelu": "MyGELU",
        "feed_forward": "MyFeedForward",
        "gelu_slope": "my_gelu_slope",
        "is_position_wise": "my_is_position_wise",
    },
    "04-shortcut-connections": {
        "shortcut": "MyShortcutNetwork",
        "signal_per_layer": "my_signal_per_layer",
        "thirty_layers": "MyThirtyLayers",
    },
    "05-transformer-block": {
        "transformer_block": "MyTransformerBlock",
        "torch_referee": "my_torch_layer",
        "multi_head_attention": "MyMultiHeadAttention",
        "drop_rates": "MyDropRatesBlock",
    },
    "06-assembling-the-gpt-model": {
        "gpt_model": "MyGPTModel",
        "broken_models": "my_find_broken",
        "deepen": "my_deepen",
    },
    "07-parameter-count-and-memory": {
        "parameter_count": "my_count_parameters",
        "deepest": "my_deepest",
        "tie_weights": "my_tie",
    },
    "08-autoregressive-greedy-generation": {
        "generate": "my_generate",
        "cached_attention": "my_cached_attention",
        "stop_at_end": "my_generate_until",
        "batch_prompts": "my_generate_batch",
    },
}
