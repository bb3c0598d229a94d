"""A transformers model that reads whole texts: hidden states of tokens, or logits of labels; and its head.

Knows torch and transformers' classes; knows no tracing, no file that is written, no engine.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from tools.export.folder import ExportError, first_line

HIDDEN, LOGITS = "last_hidden_state", "logits"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""What an exported encoder reads, int64[texts, width] each; types only where the model has more than one."""
UNUSED = "pooler"
"""What an encoder may lack: nothing reads it."""
SCALED = ("final_logit_softcapping", "logits_scaling", "logit_scale")
"""Settings of decoders whose logits are not just hidden states times the head."""
GENERATIVE, CLASSIFIERS = "ForCausalLM", "ForSequenceClassification"
"""How the name of a decoder ends, with its own head and with one that scores."""


@dataclass(frozen=True)
class LinearHead:
    """Rows of a linear layer on the vector of a text: weight float32[labels, size], bias or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None


class WholeModel(torch.nn.Module):
    """A model with the inputs and the one output of an encoder; `head` is not a part of it."""

    def __init__(
        self, model: Any, output: str = HIDDEN, head: LinearHead | None = None, architecture: str = ""
    ) -> None:
        super().__init__()
        self.model = model.eval()
        self.config = model.config
        self.output, self.head = output, head
        self.architecture = architecture or type(model).__name__
        self.config.use_cache = False
        self.inputs = INPUTS if _reads_types(model) else INPUTS[:2]
        self.family, self.dtype = type(model).__name__, str(model.dtype).removeprefix("torch.")

    @property
    def per_token(self) -> bool:
        return self.output == HIDDEN

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """int64[texts, width] each → float32[texts, width, size], or float32[texts, labels]."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        given = self.model(input_ids=input_ids, attention_mask=attention_mask, **types)
        values: torch.Tensor = getattr(given, self.output)
        return values.float()


def read_model(source: str, task: str, dtype: str, answers: tuple[int, int] | None = None) -> WholeModel:
    """The model in `source` for `task`, a task but text; `answers`: ids of no and yes, of a decoder.

    Raises `ExportError`.
    """
    if task in ("embed", "token_embed"):
        return WholeModel(_read("AutoModel", source, dtype))
    if answers is not None:
        return _scoring_decoder(_read("AutoModelForCausalLM", source, dtype), answers)
    model = _read("AutoModelForSequenceClassification", source, dtype)
    if isinstance(getattr(model, "score", None), torch.nn.Linear):
        return WholeModel(model.base_model, HIDDEN, _head(model.score), type(model).__name__)
    return WholeModel(model, LOGITS)


def _read(kind: str, source: str, dtype: str) -> Any:
    import transformers

    read = getattr(transformers, kind).from_pretrained
    settings = {"dtype": getattr(torch, dtype), "trust_remote_code": False}
    try:
        try:
            model, told = read(source, attn_implementation="sdpa", output_loading_info=True, **settings)
        except ValueError:  # families with an attention of their own
            model, told = read(source, attn_implementation="eager", output_loading_info=True, **settings)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ExportError(f"transformers cannot read {source} as {kind}: {first_line(error)}") from error
    missing = [name for name in told["missing_keys"] if UNUSED not in name]
    if missing:
        raise ExportError(
            f"{source} lacks {len(missing)} weights of a {type(model).__name__}: {missing[0]} …"
        )
    return model


def _scoring_decoder(model: Any, answers: tuple[int, int]) -> WholeModel:
    """The decoder below its head, which becomes one row: the logit of yes less that of no."""
    scaled = [name for name in SCALED if getattr(model.config, name, None) not in (None, 1, 1.0)]
    if scaled:
        raise ExportError(f"{type(model).__name__} has {scaled[0]}, so that one row cannot score its answers")
    head = _head(model.get_output_embeddings())
    no, yes = answers
    bias = None if head.bias is None else head.bias[yes : yes + 1] - head.bias[no : no + 1]
    row = LinearHead(head.weight[yes : yes + 1] - head.weight[no : no + 1], bias)
    architecture = type(model).__name__.replace(GENERATIVE, CLASSIFIERS)
    return WholeModel(model.base_model, HIDDEN, row, architecture)


def _head(layer: Any) -> LinearHead:
    bias = getattr(layer, "bias", None)
    return LinearHead(layer.weight.detach().float(), None if bias is None else bias.detach().float())


def _reads_types(model: Any) -> bool:
    takes = "token_type_ids" in inspect.signature(model.forward).parameters
    return takes and getattr(model.config, "type_vocab_size", 0) > 1
