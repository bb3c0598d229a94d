"""Log-probabilities of prompts: which positions a step scores, and what is known so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.wire.logprobs import TokenLogprobs


@dataclass(slots=True)
class PromptScores:
    """The scores of one prompt, for all its choices: the logits of position p score token p + 1.

    `found[p]` is the score of token p + 1; len(found) <= num_positions, one less than the prompt has tokens.
    Positions are found in order, each once, however often they are computed.
    """

    num_positions: int
    num_alternatives: int
    found: list[TokenLogprobs] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.found) == self.num_positions

    def unknown(self, start: int, end: int) -> range:
        """The positions in [start, end) that are to be scored."""
        known = len(self.found)
        return range(max(start, known), max(min(end, self.num_positions), known))

    def computable(self, num_cached: int, num_rows: int) -> int:
        """How many tokens from `num_cached` on a step may compute with `num_rows` rows of logits for it."""
        return min(self.num_positions, len(self.found) + num_rows) - num_cached
