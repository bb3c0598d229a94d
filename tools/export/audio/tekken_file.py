"""Reads tekken.json, the vocabulary of Mistral's models, as a tokenizer of transformers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tools.export.base.folder import ExportError, read_json

TEKKEN = "tekken.json"


def read_tekken(path: Path) -> Any:
    """A PreTrainedTokenizerFast whose ids are those of mistral-common.  Raises `ExportError`."""
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.mistral import MistralConverter

    fields = read_json(path)
    try:
        settings = fields["config"]
        num_special, size = settings["default_num_special_tokens"], settings["default_vocab_size"]
        specials = _specials(fields["special_tokens"], num_special)
        words = [base64.b64decode(entry["token_bytes"]) for entry in fields["vocab"][: size - num_special]]
        ranks = dict.fromkeys(specials) | dict.fromkeys(words)
        vocab: dict[Any, int] = {token: number for number, token in enumerate(ranks)}
        converter = MistralConverter(
            vocab, pattern=settings["pattern"], additional_special_tokens=list(specials)
        )
        tokenizer = converter.converted()
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"{path} is no vocabulary of the form tekken: {error!r}") from error
    if len(vocab) != num_special + len(words):
        raise ExportError(f"{path} has a token twice")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )


def _specials(given: list[dict[str, Any]], count: int) -> list[str]:
    """The special tokens by id; those without a name have one of mistral-common's."""
    named = {each["rank"]: each["token_str"] for each in given}
    return [str(named.get(number, f"<SPECIAL_{number}>")) for number in range(count)]
