"""Traces a transformers model to an ONNX graph in Braid's format, checked against transformers' attention."""

from __future__ import annotations

import inspect
from typing import Any

import onnx_ir as ir
import torch

from pipelines.inference.backends.declared_attention import WITHOUT_KEYS, first_chunk
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    DOMAIN,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    OPSET,
    POSITION_IDS,
)
from tools.export.base.folder import ExportError, first_line
from tools.export.base.model_config import is_transformers_5
from tools.export.decoders.attention import NAME, Attention, Mode, installed
from tools.export.decoders.experts import route_experts
from tools.export.decoders.logit_check import SENTENCES
from tools.export.decoders.own_attention import replace_attention
from tools.export.decoders.own_masks import replace_masks
from tools.export.decoders.real_rotations import real_rotations, replace_rotations
from tools.export.decoders.recurrent import replace_recurrent
from tools.export.decoders.sparsity import fix_sparsity
from tools.export.graphs.simplifying import simplify

NUM_RANDOM, LONGEST = 48, 256  # ids of the prompt of random ids, and of any prompt
DECAYS = frozenset({"A_log", "recurrent_param"})
"""Parameters of state space models (Mamba) and of RG-LRU."""
NOT_REPLACED = "computes attention in its own way, which Braid cannot replace"
OLDER = {
    f"{family}ForCausalLM"
    for family in ("Jamba", "JetMoe", "Nemotron", "Olmoe", "Phimoe", "Qwen2Moe", "StableLm")
}
"""Families of which only transformers 5 lets attention be replaced."""
NO_STATES_ALONE = "has recurrent layers alone; Braid serves those beside attention"
TOLERANCE = {"float32": 2e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Allowed difference from transformers' logits: the mean difference over their standard deviation."""


class Packed(torch.nn.Module):
    """A decoder with the inputs and the output of Braid's format."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, logits_indices: torch.Tensor
    ) -> torch.Tensor:
        """input_ids, position_ids int64[1, tokens], logits_indices int64[rows] → float32[rows, vocab]."""
        rows = {"logits_to_keep": logits_indices} if self.keeps else {}
        logits = self.model(input_ids=input_ids, position_ids=position_ids, use_cache=False, **rows).logits[0]
        return (logits if self.keeps else logits[logits_indices]).float()


def prompts_of(tokenizer: Any, vocab_size: int) -> list[torch.Tensor]:
    """Ids int64[1, tokens] of some sentences, and random ids."""
    noise = torch.randint(0, vocab_size, (1, NUM_RANDOM), generator=torch.Generator().manual_seed(1))
    encoded = [tokenizer(each, return_tensors="pt")["input_ids"][:, :LONGEST] for each in SENTENCES]
    return [noise, *(ids for ids in encoded if ids.shape[1] > 1 and ids.max() < vocab_size)]


@torch.no_grad()
def watch(model: Any, prompts: list[torch.Tensor]) -> Attention:
    """Run the model and record each layer's attention, which `model` keeps using.

    Raises `ExportError` when Braid's format cannot express the model: its logits must be those of
    transformers' attention, and everything else must treat each token independently.
    """
    reach = first_chunk(model.config.get_text_config().to_dict(), LONGEST)
    prompts = [ids[:, :reach] for ids in prompts]
    expected = [_logits(model, ids) for ids in prompts]
    attention = Attention()
    num_recurrent = replace_recurrent(model, attention)
    has_own_attention = replace_attention(model, attention)
    _check_layers(model, num_recurrent)
    route_experts(model)
    fix_sparsity(model)
    if hasattr(model, "set_experts_implementation"):  # transformers 5, for experts that stay as they are
        model.set_experts_implementation("batched_mm")
    replace_rotations(model)
    with installed(attention), real_rotations(model):
        _set_attention(model)
        if has_own_attention or model.config.get_text_config()._attn_implementation == NAME:
            replace_masks(model)
        for ids, logits in zip(prompts, expected, strict=True):
            with attention.run():
                _compare(model, _logits(model, ids), logits)
        if not attention.layers:
            raise ExportError(f"{_family(model)} {_not_replaced(model, num_recurrent)}")
        _check_token_wise(model, attention, prompts[0])
    return attention


def trace(model: Any, attention: Attention) -> ir.Model:
    """The graph of a watched model, simplified; weights are shared with `model`."""
    attention.mode = Mode.TRACE
    tokens, rows = torch.export.Dim("num_tokens"), torch.export.Dim("num_logits")
    inputs = (torch.ones(1, 7, dtype=torch.int64), torch.arange(7)[None], torch.tensor([2, 6]))
    with installed(attention), real_rotations(model), attention.run():
        try:
            program = torch.onnx.export(
                Packed(model),
                inputs,
                dynamo=True,
                dynamic_shapes=({1: tokens}, {1: tokens}, {0: rows}),
                input_names=[INPUT_IDS, POSITION_IDS, LOGITS_INDICES],
                output_names=[LOGITS],
                opset_version=OPSET,
                optimize=False,
                verbose=False,
            )
        except (torch.onnx.errors.OnnxExporterError, RuntimeError, NotImplementedError) as error:
            raise ExportError(f"torch cannot trace {_family(model)}: {_cause(error)}") from error
    return _checked(simplify(program.model), len(attention.layers))


def _not_replaced(model: Any, num_recurrent: int) -> str:
    """Why no layer asked for attention."""
    if not is_transformers_5() and _family(model) in OLDER:
        return f"{NOT_REPLACED}; export it with transformers 5"
    return NO_STATES_ALONE if num_recurrent else NOT_REPLACED


def _check_layers(model: Any, num_recurrent: int) -> None:
    """Raise `ExportError` for a model with other recurrent layers than those that were replaced."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or ()
    stated = [kind for kind in kinds if kind in WITHOUT_KEYS]
    if names := stated[num_recurrent:] or _recurrent_modules(model):
        raise ExportError(
            f"{_family(model)} has recurrent layers ({names[0]}), which Braid's ONNX format cannot express"
        )


def _recurrent_modules(model: Any) -> list[str]:
    """Classes of modules with the decay of a state, in families whose config.json does not name them."""
    return [
        type(module).__name__
        for module in model.modules()
        if not DECAYS.isdisjoint(name for name, _ in module.named_parameters(recurse=False))
    ]


def _set_attention(model: Any) -> None:
    try:
        model.set_attn_implementation(NAME)
    except (ValueError, ImportError) as error:
        raise ExportError(f"{_family(model)} does not take another attention: {first_line(error)}") from error


def _logits(model: Any, ids: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
    """float[1, tokens, vocab].  The mask of ones says that positions in any order are one sequence."""
    try:
        logits: torch.Tensor = model(
            ids, attention_mask=torch.ones_like(ids), use_cache=False, **others
        ).logits
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        attention = model.config._attn_implementation
        raise ExportError(
            f"{_family(model)} does not run with attention {attention!r}: {first_line(error)}"
        ) from error
    return logits


def _compare(model: Any, given: torch.Tensor, expected: torch.Tensor) -> None:
    given, expected = given.float(), expected.float()
    distance = ((given - expected).abs().mean() / expected.std()).item()
    dtype = str(model.dtype).removeprefix("torch.")
    if not distance < TOLERANCE[dtype]:
        raise ExportError(
            f"Braid's ONNX format cannot express what {_family(model)} does: with its attention, logits lie "
            f"{distance:.2g} standard deviations from transformers' own"
        )


def _check_token_wise(model: Any, attention: Attention, ids: torch.Tensor) -> None:
    """Without attention, shuffled tokens with their positions must give shuffled logits."""
    positions = torch.arange(ids.shape[1])[None]
    order = torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(2))
    attention.mode = Mode.ALONE
    with attention.run():
        straight = _logits(model, ids, position_ids=positions)
    with attention.run():
        shuffled = _logits(model, ids[:, order], position_ids=positions[:, order])
    _compare(model, shuffled, straight[:, order])


def _checked(model: ir.Model, num_layers: int) -> ir.Model:
    """Check that the model has one attention per layer in order, no mask and no cache."""
    layers = [
        node.attributes["layer"].as_int()
        for node in model.graph
        if (node.domain, node.op_type) == (DOMAIN, ATTENTION)
    ]
    names = [value.name for value in (*model.graph.inputs, *model.graph.outputs)]
    if layers != list(range(num_layers)) or names != [INPUT_IDS, POSITION_IDS, LOGITS_INDICES, LOGITS]:
        raise ExportError(
            f"the traced graph has attention {layers} and values {names}: not Braid's ONNX format"
        )
    return model


def _family(model: Any) -> str:
    return type(model).__name__


def _cause(error: BaseException) -> str:
    """The first line of the innermost error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
