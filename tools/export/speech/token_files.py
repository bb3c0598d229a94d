"""The tokenizer, the token ids by meaning and the settings of features that a served Whisper model needs."""

from __future__ import annotations

import re
from typing import Any

from tools.export.base.folder import ExportError

LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
TASKS = ("translate", "transcribe")
NO_TIMES, END, START = "<|notimestamps|>", "<|endoftext|>", "<|startoftranscript|>"
SECONDS_PER_TIME, LAST_SECOND = 0.02, 30
ENGLISH_END = 50256
"""The id of END in the English vocabulary, GPT-2's, in which languages have tokens too; that of all languages
has one more token before it.
"""
RATE, WINDOW, HOP = 16_000, 400, 160


def with_times(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json with the tokens of times, which CTranslate2's folders leave out.

    Raises `ExportError` for the tokenizer of another model.
    """
    ids = token_ids(tokenizer)
    first = ids[NO_TIMES] + 1
    names = [f"<|{i * SECONDS_PER_TIME:.2f}|>" for i in range(round(LAST_SECOND / SECONDS_PER_TIME) + 1)]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    times = [{"id": first + i, "content": name, **plain} for i, name in enumerate(names) if name not in ids]
    return {**tokenizer, "added_tokens": [*tokenizer["added_tokens"], *times]}


def token_ids(tokenizer: dict[str, Any]) -> dict[str, int]:
    """Special tokens → their ids.  Raises `ExportError`."""
    try:
        ids = {str(each["content"]): int(each["id"]) for each in tokenizer["added_tokens"]}
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"tokenizer.json cannot be read: {error!r}") from error
    missing = [name for name in (NO_TIMES, END, START) if name not in ids]
    if missing:
        raise ExportError(f"tokenizer.json has no {', '.join(missing)}: it is not a Whisper model's")
    return ids


def generation_fields(ids: dict[str, int]) -> dict[str, Any]:
    """The fields of generation_config.json that follow from the tokenizer."""
    fields: dict[str, Any] = {
        "decoder_start_token_id": ids[START],
        "eos_token_id": ids[END],
        "pad_token_id": ids[END],
        "bos_token_id": ids[END],
        "no_timestamps_token_id": ids[NO_TIMES],
        "max_initial_timestamp_index": 50,
        "is_multilingual": ids[END] != ENGLISH_END and all(f"<|{name}|>" in ids for name in TASKS),
        "suppress_tokens": [],
        "begin_suppress_tokens": [],
    }
    if fields["is_multilingual"]:
        between = range(ids[START] + 1, ids[f"<|{TASKS[0]}|>"])
        fields["lang_to_id"] = {
            name: token_id
            for name, token_id in ids.items()
            if token_id in between and LANGUAGE.fullmatch(name)
        }
        fields["task_to_id"] = {name: ids[f"<|{name}|>"] for name in TASKS}
    return fields


def feature_fields(config: dict[str, Any]) -> dict[str, Any]:
    """The fields of preprocessor_config.json that follow from config.json."""
    samples = 2 * int(config["max_source_positions"]) * HOP
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": config["num_mel_bins"],
        "sampling_rate": RATE,
        "n_fft": WINDOW,
        "hop_length": HOP,
        "chunk_length": samples // RATE,
        "n_samples": samples,
        "nb_max_frames": samples // HOP,
        "padding_value": 0.0,
        "return_attention_mask": False,
    }
