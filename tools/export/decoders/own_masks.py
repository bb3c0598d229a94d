"""Masks that models of transformers 4 make by methods of their own, which `attention` cannot read."""

from __future__ import annotations

from typing import Any

import torch

from tools.export.decoders.attention import EVERYTHING, Seen

METHOD = "_update_causal_mask"


def replace_masks(model: Any) -> None:
    """Let models whose queries attend to everything before them say so in place of a tensor.

    That they do is compared with transformers afterwards.  Masks with windows stay, and are refused.
    """
    if getattr(model.config.get_text_config(), "sliding_window", None):
        return
    for module in model.modules():
        if hasattr(module, METHOD):
            setattr(module, METHOD, _everything)


def _everything(*_: Any, **__: Any) -> Seen | None:
    return None if torch.compiler.is_exporting() else Seen(EVERYTHING)
