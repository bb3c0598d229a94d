"""The tokenizer of a GGUF file as a `tokenizers` object, with its added tokens and those around a text."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, processors

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.tokenizer_kinds import KINDS, SEPARATOR, Made
from pipelines.gguf.vocabulary import CONTROL, USER_DEFINED, GgufVocabulary


def make_tokenizer(metadata: Metadata, vocabulary: GgufVocabulary) -> Tokenizer:
    """Raises `GgufError` for a kind or a pre-tokenizer that is not served, and for damaged ones."""
    kind = metadata.text("tokenizer.ggml.model") or ""
    if kind not in KINDS:
        raise GgufError(f"has a tokenizer of kind {kind or '(none)'}; {', '.join(KINDS)} are served")
    try:
        built = KINDS[kind](metadata, vocabulary)
        for kinds, special in ((CONTROL, True), (USER_DEFINED, False)):
            names = vocabulary.of_kind(kinds)
            built.tokenizer.add_tokens(
                [AddedToken(name, special=special, normalized=False) for name in names if name]
            )
        _add_ends(built, metadata, vocabulary)
    except GgufError:
        raise
    except Exception as error:  # the library raises plain exceptions
        raise GgufError(f"has a tokenizer that cannot be made: {error}") from error
    if built.tokenizer.get_vocab_size() != len(vocabulary.tokens):
        raise GgufError("has tokens that the tokenizer would number anew")
    return built.tokenizer


def _add_ends(built: Made, metadata: Metadata, vocabulary: GgufVocabulary) -> None:
    """What stands before and after each text, where the file or its kind of tokenizer says so."""

    def token(name: str, role: str, default: bool) -> list[str]:
        said = metadata.flag(f"tokenizer.ggml.add_{name}_token")
        text = vocabulary.text(role) if (default if said is None else said) else None
        return [] if text is None else [text]

    before = token("bos", built.first, built.begins)
    separator = token("sep", SEPARATOR, built.last == SEPARATOR)
    end = token("eos", "eos", built.last == "eos")
    after = end or separator
    if not before and not after:
        return
    second = [f"{name}:1" for name in before]
    if (
        separator
    ):  # texts of a pair have one between them, behind the end of the first one where it has an end
        second = separator if end else []
    built.tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, *second, "$B:1", *(f"{name}:1" for name in after)],
        special_tokens=[(name, vocabulary.tokens.index(name)) for name in {*before, *after}],
    )
