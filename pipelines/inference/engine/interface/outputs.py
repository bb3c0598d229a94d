"""What an engine returns of its choices after each step.

Does not depend on steps, text or the wire's messages.
"""

from __future__ import annotations

from collections.abc import Hashable
from time import perf_counter
from typing import NamedTuple

from pipelines.inference.engine.sequences.sequence import Sequence
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.token_piece import ExpertChoices, PieceLogprobs, Speculation, TokenPiece

Piece = TokenPiece[TokenLogprobs]


class Output(NamedTuple):
    """What one step gave one choice of one request.

    Where `piece.finish` is "error", `error` is the message for the client and `error_status` its HTTP status.
    """

    key: Hashable
    choice: int
    piece: Piece
    error: str | None = None
    error_status: int = 500


def piece_of(
    sequence: Sequence,
    token_ids: list[int],
    logprobs: list[TokenLogprobs],
    finish: str | None,
    stop_token_id: int | None = None,
    experts: ExpertChoices | None = None,
) -> Piece:
    """The next tokens of a sequence, or its end, and what only its first piece has."""
    piece: Piece = TokenPiece(
        token_ids,
        len(token_ids),
        finish,
        stop_token_id,
        num_cached=sequence.num_reused or 0,
        speculation=speculation_of(sequence),
        experts=experts,
    )
    if sequence.scores is not None:
        piece.logprobs = PieceLogprobs(logprobs, sequence.scores.found)
        sequence.scores = None
    elif logprobs:
        piece.logprobs = PieceLogprobs(logprobs)
    if sequence.admitted_s is not None:
        piece.prefill_s, sequence.admitted_s = perf_counter() - sequence.admitted_s, None
    return piece


def failed_output(key: Hashable, choice: int, error: str, status: int = 500) -> Output:
    """The end of a choice by an error; `error` is the message for the client."""
    return Output(key, choice, TokenPiece([], 0, "error"), error, status)


def aborted_output(key: Hashable, choice: int, sequence: Sequence | None = None) -> Output:
    """The end of a choice that another client cancelled; `sequence` is its own, where it has one yet."""
    piece: Piece = TokenPiece([], 0, "abort")
    if sequence is not None:
        piece.num_cached, piece.speculation = sequence.num_reused or 0, speculation_of(sequence)
    return Output(key, choice, piece)


def speculation_of(sequence: Sequence) -> Speculation | None:
    """The totals of a sequence; None until a token was drafted for it."""
    return Speculation(sequence.num_drafted, sequence.num_accepted) if sequence.num_drafted else None
