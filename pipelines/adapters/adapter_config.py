"""adapter_config.json, as PEFT writes it: what an adapter is, and what of it is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from pipelines.adapters.linear_names import ENDS, end_name
from pipelines.adapters.weights import AdapterError
from pipelines.base.deferred_model import DeferredModel

CONFIG = "adapter_config.json"

REFUSED = {
    "use_dora": "DoRA changes the length of the model's own weights",
    "lora_bias": "the bias of a linear layer stays the model's",
    "use_qalora": "QA-LoRA sums inputs in groups",
    "alora_invocation_tokens": "it takes effect from certain tokens on",
    "layer_replication": "it repeats layers of the model",
    "target_parameters": "it changes tensors of no linear layer, as those of experts",
    "trainable_token_indices": "it changes embeddings of tokens",
    "use_bdlora": "it is of blocks",
    "arrow_config": "it chooses among adapters by token",
    "kasa_config": "it changes the model's own weights",
    "monteclora_config": "it is a sum of samples",
    "velora_config": "it projects the inputs of linear layers",
}
"""Fields that must be absent, null, false or empty, and why."""

CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Beginnings of `init_lora_weights` with which training changes the model's own weights too."""


class AdapterConfig(DeferredModel):
    """The fields of adapter_config.json that say what an adapter computes; others are about training."""

    model_config = ConfigDict(extra="allow", frozen=True)

    peft_type: str
    r: int = Field(ge=1)
    lora_alpha: float
    use_rslora: bool = False
    bias: str = "none"
    init_lora_weights: bool | str | None = True
    target_modules: str | list[str] | None = None
    exclude_modules: str | list[str] | None = None
    modules_to_save: list[str] | None = None
    layers_to_transform: int | list[int] | None = None
    rank_pattern: dict[str, int] = {}
    alpha_pattern: dict[str, float] = {}

    def rank(self, module: str) -> int:
        return int(_by_pattern(self.rank_pattern, module, self.r))

    def scale(self, module: str) -> float:
        rank, alpha = self.rank(module), _by_pattern(self.alpha_pattern, module, self.lora_alpha)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank

    def names(self, module: str) -> bool:
        """Whether it says that this module is changed; False where only the tensors say so.

        `all-linear` are the linear layers of the layers.
        """
        targets = self.target_modules
        if targets is None or self.exclude_modules or self.layers_to_transform is not None:
            return False
        if isinstance(targets, str):
            is_named = re.fullmatch(targets, module) is not None
            return is_named if targets != "all-linear" else end_name(module) is None
        return any(module == target or module.endswith(f".{target}") for target in targets)


def read_adapter_config(folder: Path) -> AdapterConfig:
    """The settings of an adapter's folder.  Raises `AdapterError` for what is refused."""
    file = folder / CONFIG
    try:
        fields = json.loads(file.read_text())
        config = AdapterConfig.model_validate(fields)
    except OSError as error:
        raise AdapterError(f"{CONFIG} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        fault = error.errors()[0]
        raise AdapterError(f"{CONFIG}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise AdapterError(f"{CONFIG} is no JSON: {error}") from error
    _refuse(config, fields)
    return config


def _refuse(config: AdapterConfig, fields: dict[str, Any]) -> None:
    if config.peft_type != "LORA":
        raise AdapterError(f"{CONFIG}: peft_type is {config.peft_type}; only LORA is served")
    for name, reason in REFUSED.items():
        if fields.get(name):
            raise AdapterError(
                f"{CONFIG}: {name} is not supported: {reason}; merge it into the model instead"
            )
    other = next((module for module in config.modules_to_save or () if end_name(module) is None), None)
    if other is not None:
        raise AdapterError(
            f"{CONFIG}: modules_to_save names {other}; only {' and '.join(ENDS)} are replaced: merge it into "
            "the model instead"
        )
    if config.bias != "none":
        raise AdapterError(
            f"{CONFIG}: bias is {config.bias}; only none is supported: biases stay the model's"
        )
    how = config.init_lora_weights
    if isinstance(how, str) and how.startswith(CHANGES_BASE):
        raise AdapterError(
            f"{CONFIG}: init_lora_weights is {how}, which changes the model's own weights; save the adapter "
            "with path_initial_model_for_weight_conversion"
        )


def _by_pattern(patterns: dict[str, Any], module: str, default: float) -> float:
    """The first entry whose pattern matches the end of the module's name, as PEFT finds it."""
    found = (value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module))
    return next(found, default)
