"""Which exercises each notebook sets, and what the answer is called there."""

EXERCISES = {
    "01-gpt-configuration-and-skeleton": {
        "skeleton": "MySkeleton",
        "predict_shapes": "my_shapes",
        "round_trip": "my_round_trip",
    },
    "02-layer-normalization": {
        "layer_norm": "MyLayerNorm",
        "rms_norm": "MyRMSNorm",
    },
    "03-gelu-and-feed-forward": {
        "gelu": "MyGELU",
        "feed_forward": "MyFeedForward",
        "swiglu": "MySwiGLU",
    },
    "04-shortcut-connections": {
        "shortcut": "MyShortcutNetwork",
        "vanishing_depth": "my_vanishing_depth",
    },
    "05-transformer-block": {
        "multi_head_attention": "MyMultiHeadAttention",
        "transformer_block": "MyTransformerBlock",
        "post_norm": "MyPostNormBlock",
        "drop_rates": "MyDropRatesBlock",
    },
    "06-assembling-the-gpt-model": {
        "gpt_model": "MyGPTModel",
        "broken_models": "my_find_broken",
    },
    "07-parameter-count-and-memory": {
        "parameter_count": "my_count_parameters",
        "fit_xl": "my_fit_xl",
    },
    "08-autoregressive-greedy-generation": {
        "generate": "my_generate",
        "cached_attention": "my_cached_attention",
        "stop_at_end": "my_generate_until",
        "batch_prompts": "my_generate_batch",
    },
}
