"""Loads a decoder with transformers, whole and ready to be traced."""

from __future__ import annotations

from typing import Any

import torch

from tools.export.folder import ExportError, Stage, first_line
from tools.export.model_config import is_transformers_5, read_model_config

LANGUAGE_KEYS = {
    r"^(?:model\.)?language_model\.(?:model\.)?(?!lm_head)": "model.",
    r"^(?:model\.)?language_model\.lm_head": "lm_head",
}
"""Names of weights in multimodal checkpoints → in those of their language model."""


def load(source: str, dtype: str, stage: Stage = lambda _: None) -> Any:
    """The causal language model in `source`, ready to run in `dtype`.

    Raises `ExportError`, also when the checkpoint lacks weights of the model; `stage` receives the weights
    that the model does not have.
    """
    from transformers import AutoModelForCausalLM

    config, keys = _of_language(read_model_config(source))
    _check_shared_keys(config)
    try:
        model, loading = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",
            trust_remote_code=False,
            output_loading_info=True,
            key_mapping=keys,
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ExportError(f"transformers cannot read a decoder in {source}: {first_line(error)}") from error
    if missing := sorted(loading["missing_keys"]):
        raise ExportError(
            f"{source} lacks {len(missing)} weights of a {type(model).__name__}: {missing[0]} …"
        )
    if unused := sorted(loading["unexpected_keys"]):
        stage(f"leaving out {len(unused)} weights that {type(model).__name__} does not have: {unused[0]} …")
    _fix_rope(model)
    return model.eval()


def _of_language(config: Any) -> tuple[Any, dict[str, str] | None]:
    """The configuration of a decoder of text, and how names of its weights change: those of a multimodal
    model's language model, where transformers has no decoder of the whole.
    """
    from transformers import AutoModelForCausalLM

    text = config.get_text_config()
    known = AutoModelForCausalLM._model_mapping
    if type(config) in known or type(text) not in known:
        return config, None
    return text, LANGUAGE_KEYS


def _check_shared_keys(config: Any) -> None:
    """Raise `ExportError` where layers attend to keys of others, which transformers 4 does not do without a
    cache.
    """
    if getattr(config, "num_kv_shared_layers", 0) and not is_transformers_5():
        raise ExportError(f"{config.model_type} shares keys between layers; export it with transformers 5")


def _fix_rope(model: Any) -> None:
    """Fix rotary embeddings that change with the longest position of a call.

    In a packed step the selection for one prompt would apply to all.  `longrope` uses its long factors, as
    a model that serves its whole context must.  `dynamic` changes behind the model's context only, where
    nothing is served.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    for module in model.modules():
        rope = getattr(module, "rope_type", "")
        if isinstance(rope, str) and "dynamic" in rope:
            module.rope_type = "fixed within its context"
        if rope == "longrope":
            reach = model.config.max_position_embeddings
            module.inv_freq, module.attention_scaling = ROPE_INIT_FUNCTIONS[rope](
                module.config, None, seq_len=reach
            )
            module.rope_type = "longrope, long"
