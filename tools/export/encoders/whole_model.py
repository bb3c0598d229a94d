"""Loads a transformers model for embedding or pooling: hidden states or logits of labels, and its head."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from tools.export.base.folder import ExportError, first_line
from tools.export.base.model_config import read_model_config

HIDDEN, LOGITS = "last_hidden_state", "logits"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs of an exported encoder, int64[texts, width] each; types only if the model has more than one."""
UNUSED = "pooler"
"""Weights that an encoder may lack, because they are unused."""
SCALED = ("final_logit_softcapping", "logits_scaling", "logit_scale")
"""Settings of decoders whose logits are more than hidden states times the head."""
GENERATIVE, CLASSIFIERS = "ForCausalLM", "ForSequenceClassification"
"""Endings of a decoder's architecture, with its language head and with a scoring head."""
OF_TOKENS = ("ForTokenClassification", "ForMaskedLM")
"""Endings of architectures with logits for each token."""
TAGS, WORDS = "token_classify", "sparse"
"""Tasks of models with logits of tokens: over classes, and over the vocabulary."""


@dataclass(frozen=True)
class LinearHead:
    """A linear layer on the embedding of a text: weight float32[labels, size], bias or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None


class WholeModel(torch.nn.Module):
    """A model with the inputs and the single output of an encoder, without `head`."""

    def __init__(
        self, model: Any, output: str = HIDDEN, head: LinearHead | None = None, architecture: str = ""
    ) -> None:
        """`output` is the one that is exported; `architecture` replaces the name of the model's class."""
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
        return self.output == HIDDEN or self.architecture.endswith(OF_TOKENS)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """int64[texts, width] each → float32[texts, width, size], or float32[texts, labels]."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, **types)
        values: torch.Tensor = getattr(outputs, self.output)
        return values.float()


def read_model(source: str, task: str, dtype: str, answers: tuple[int, int] | None = None) -> WholeModel:
    """The model in `source` for an embedding or pooling `task`; `answers`: ids of no and yes of a decoder.

    Raises `ExportError`.
    """
    if task == TAGS:
        return WholeModel(_read("AutoModelForTokenClassification", source, dtype), LOGITS)
    if task == WORDS:
        return WholeModel(_read("AutoModelForMaskedLM", source, dtype), LOGITS)
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
    config = read_model_config(source)
    settings = {"config": config, "dtype": getattr(torch, dtype), "trust_remote_code": False}
    try:
        try:
            model, loading = read(source, attn_implementation="sdpa", output_loading_info=True, **settings)
        except ValueError:  # families with an attention of their own
            model, loading = read(source, attn_implementation="eager", output_loading_info=True, **settings)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ExportError(f"transformers cannot read {source} as {kind}: {first_line(error)}") from error
    missing = [name for name in loading["missing_keys"] if UNUSED not in name]
    if missing:
        raise ExportError(
            f"{source} lacks {len(missing)} weights of a {type(model).__name__}: {missing[0]} …"
        )
    return model


def _scoring_decoder(model: Any, answers: tuple[int, int]) -> WholeModel:
    """The decoder without its head, which becomes one row."""
    architecture = type(model).__name__.replace(GENERATIVE, CLASSIFIERS)
    return WholeModel(model.base_model, HIDDEN, answer_row(model, answers), architecture)


def answer_row(model: Any, answers: tuple[int, int]) -> LinearHead:
    """The head of a decoder that answers no or yes, `answers`: the logit of yes minus that of no.

    Raises `ExportError`.
    """
    scaled = [name for name in SCALED if getattr(model.config, name, None) not in (None, 1, 1.0)]
    if scaled:
        raise ExportError(f"{type(model).__name__} has {scaled[0]}, so that one row cannot score its answers")
    head = _head(model.get_output_embeddings())
    no, yes = answers
    bias = None if head.bias is None else head.bias[yes : yes + 1] - head.bias[no : no + 1]
    return LinearHead(head.weight[yes : yes + 1] - head.weight[no : no + 1], bias)


def _head(layer: Any) -> LinearHead:
    bias = getattr(layer, "bias", None)
    return LinearHead(layer.weight.detach().float(), None if bias is None else bias.detach().float())


def _reads_types(model: Any) -> bool:
    takes = "token_type_ids" in inspect.signature(model.forward).parameters
    return takes and getattr(model.config, "type_vocab_size", 0) > 1
