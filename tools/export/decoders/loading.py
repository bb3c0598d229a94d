"""Loads a decoder with transformers, whole and ready to be traced."""

from __future__ import annotations

from typing import Any

import torch

from tools.export.base.folder import ExportError, Stage, first_line
from tools.export.base.model_config import is_transformers_5, read_model_config

UNTRACED = ("gemma3n_text", "longcat_flash")
"""Families whose code in transformers 4 makes constants while it runs, or loops over what a router chose."""
LANGUAGE_KEYS = {
    r"^(?:model\.)?(?:language|text)_model\.(?:model\.)?(?!lm_head)": "model.",
    r"^(?:model\.)?(?:language|text)_model\.lm_head": "lm_head",
}
"""Names of weights in multimodal checkpoints → in those of their language model."""


def load(source: str, dtype: str, stage: Stage = lambda _: None) -> Any:
    """The causal language model in `source`, ready to run in `dtype`; that of a multimodal model, which reads
    text alone here.

    Raises `ExportError`, also when the checkpoint lacks weights of the model; `stage` receives what is left
    out.
    """
    whole = read_model_config(source)
    _check_shared_keys(whole.get_text_config())
    kind, config, keys = _of_language(whole)
    try:
        model, loading = kind.from_pretrained(
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
    if whole.get_text_config() is not whole:
        stage(f"taking the language model of {whole.model_type}: it will read text alone")
    elif unused := sorted(loading["unexpected_keys"]):
        stage(f"leaving out {len(unused)} weights that {type(model).__name__} does not have: {unused[0]} …")
    _fix_rope(model)
    return model.eval()


def _of_language(config: Any) -> tuple[Any, Any, dict[str, str] | None]:
    """What loads a decoder of text, its configuration, and how names of weights change.

    A model of images and text is loaded whole and then given text alone; of others with several parts, the
    language model is loaded.
    """
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    for kind in (AutoModelForCausalLM, AutoModelForImageTextToText):
        if type(config) in kind._model_mapping:
            return kind, config, None
    text = config.get_text_config()
    known = type(text) in AutoModelForCausalLM._model_mapping
    return AutoModelForCausalLM, *((text, LANGUAGE_KEYS) if known else (config, None))


def _check_shared_keys(config: Any) -> None:
    """Raise `ExportError` where layers attend to keys of others, which transformers 4 does not do without a
    cache, and for families that it computes in a way that no trace follows.
    """
    if config.model_type in UNTRACED and not is_transformers_5():
        raise ExportError(
            f"{config.model_type} cannot be traced in transformers 4; export it with transformers 5"
        )
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
            reach = model.config.get_text_config().max_position_embeddings
            module.inv_freq, module.attention_scaling = ROPE_INIT_FUNCTIONS[rope](
                module.config, None, seq_len=reach
            )
            module.rope_type = "longrope, long"
