"""A sequence of token ids with its state in the engine, and the part of it that one step computes."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pipelines.adapters.weights import BASE
from pipelines.inference.contracts.guide import Guide
from pipelines.inference.engine.sequences.beam_group import Beam, Ending
from pipelines.inference.engine.sequences.encoder_states import EncoderStates
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.inference.engine.sequences.prompt_scoring import PromptScores
from pipelines.inference.engine.sequences.repetition import RepetitionWatch
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import SamplingParams

NO_SLOT = -1
"""The slot of a waiting sequence."""


class Search(Protocol):
    """The beam search that a sequence takes part in; its sequences run and end together."""

    beams: list[Sequence]

    @property
    def choices(self) -> dict[int, int]:
        """The choices that are not cancelled → their places among the hypotheses."""
        ...

    @property
    def waits(self) -> bool:
        """Whether the report of a beam is missing."""
        ...

    def report(self, beam: Sequence, top: TokenLogprobs) -> list[Beam] | None:
        """Record the candidates that may follow a beam; the next open beams once all have reported."""
        ...

    def endings(self) -> list[Ending]: ...


@dataclass(frozen=True, slots=True, eq=False)
class PromptRequest:
    """What a request asks of all choices of one of its prompts, which share it; `max_length` tokens in all,
    prompt included.

    `root` starts the chain of block digests; tenants take turns.  The tokens attend to `encoder_states`
    beside each other, some of the prompt's stand for `images`; `uncut` are these where a step has all tokens
    of an image or none.  `adapter` is the load number of what changes the model for it.
    """

    params: SamplingParams
    eos_token_ids: frozenset[int]  # empty when the request ignores them
    stop_token_ids: frozenset[int]
    max_length: int
    root: bytes
    tenant: str = ""
    encoder_states: EncoderStates | None = None
    adapter: int = BASE
    images: PromptEmbeds | None = None
    uncut: PromptEmbeds | None = None


@dataclass(slots=True, eq=False)
class Sequence:
    """One choice of one request: waiting (no slot, no blocks) → running (a slot, blocks) → finished.

    0 < num_prompt <= len(token_ids) and 0 <= num_cached < len(token_ids) while it runs or waits; only one
    of the beams of a `search` may run with num_cached == len(token_ids): it rests until the other beams have
    reported. Tokens [0, num_cached) have keys and values in the cache: num_cached <= len(blocks) *
    block_tokens. Tokens [num_cached, len) are pending: a prompt before its first token, one token while
    decoding (more where `guide` forced some), and all of them again after a preemption without swapping.
    After one that swapped it out, they are in `host_blocks` until the step that swaps them in is through.
    num_remembered * block_tokens <= num_cached.

    `followers` are the other choices of the same prompt.  Until the prompt is computed they have slots when
    their leader has one, own no blocks, and are in no queue; then they fork and run on their own.

    `scores` are shared by the choices of a prompt; each drops them when it has returned them. A prompt is
    scored to its last position but one before its last token is computed, and tokens without a score are not
    taken from the prefix cache: while `scoring`, num_cached <= len(scores.found).
    """

    key: Hashable
    choice: int
    token_ids: array[int]
    num_prompt: int
    request: PromptRequest
    submit_order: int  # unique; the smaller, the older
    num_cached: int = 0
    num_registered: int = 0  # blocks registered in the pool
    branch: int = 0  # tokens after which a step ends, since its state is to be stored; 0: nowhere
    num_reused: int | None = None  # prompt tokens found in the cache at the first admission
    admitted_s: float | None = None  # when that was; None once its first token was returned
    slot: int = NO_SLOT
    blocks: list[int] = field(default_factory=list)
    encoder_blocks: list[int] = field(default_factory=list)  # those of its encoder states while it runs
    host_blocks: list[int] = field(default_factory=list)  # blocks_for(num_cached) of them, or none
    digests: list[bytes] = field(default_factory=list)  # of its first full blocks
    followers: list[Sequence] = field(default_factory=list)
    leader: Sequence | None = None
    scores: PromptScores | None = None
    repetition: RepetitionWatch | None = None
    search: Search | None = None
    guide: Guide | None = None
    num_drafted: int = 0  # tokens that were drafted ahead, and of those the ones that were accepted
    num_accepted: int = 0
    num_routed: int = 0  # first tokens whose choices of experts were returned, or are not to be

    @property
    def num_pending(self) -> int:
        return len(self.token_ids) - self.num_cached

    @property
    def num_to_branch(self) -> int:
        """Pending tokens that the next step may compute: up to the branch, if that is to come."""
        before = self.branch - self.num_cached
        return before if 0 < before < self.num_pending else self.num_pending

    def num_uncut(self, num_tokens: int) -> int:
        """How many of the next `num_tokens` tokens end inside no image that must stay whole."""
        images = self.request.uncut
        return num_tokens if images is None else images.uncut(self.num_cached + num_tokens) - self.num_cached

    @property
    def scoring(self) -> bool:
        """Whether scores of its prompt are still to be found."""
        return self.scores is not None and not self.scores.complete

    @property
    def num_reusable(self) -> int:
        """Tokens that may be taken from the prefix cache: not the last, nor what is to be scored."""
        if self.scores is not None and not self.scores.complete:
            return len(self.scores.found)
        return len(self.token_ids) - 1

    def num_scorable(self, num_rows: int) -> int:
        """How many pending tokens of a `scoring` prompt fit in `num_rows` logit rows.

        Positions with a score need none; the last token, which is not scored, is left for another step.
        """
        assert self.scores is not None
        return self.scores.computable(self.num_cached, num_rows)

    def num_draftable(self, most: int) -> int:
        """How many tokens may be drafted: `most`, or fewer if its request limits them, up to its end."""
        if self.search is not None or (self.guide is not None and self.guide.is_slow):
            return 0
        wanted = self.request.params.num_draft_tokens
        most = most if wanted is None else min(most, wanted)
        return max(0, min(most, self.request.max_length - len(self.token_ids) - 1))

    @property
    def num_output(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def shift(self) -> int:
        """What is added to the places of its generated tokens for their positions."""
        images = self.request.images
        positions = None if images is None else images.positions
        return 0 if positions is None else positions.last_shift

    @property
    def waits_for_mask(self) -> bool:
        """A running sequence waits while the mask of its next token, or of a follower's, is computed."""
        masks = [member.guide.late for member in self.group if member.guide is not None]
        return self.slot != NO_SLOT and any(mask is not None and not mask.is_ready for mask in masks)

    @property
    def group(self) -> list[Sequence]:
        """The sequences that are admitted, preempted and sampled together with this one, itself first."""
        return [self, *self.followers]


class Slice(NamedTuple):
    """The share of one sequence in one step: tokens [start, start + num_tokens), >= 1.

    `draft_budget` draft tokens may follow them; only a decoding sequence has a budget.
    """

    sequence: Sequence
    start: int
    num_tokens: int
    draft_budget: int = 0

    @property
    def end(self) -> int:
        return self.start + self.num_tokens

    @property
    def samples(self) -> bool:
        """Whether the step computes the sequence's last token, whose logits choose the next one."""
        return self.start + self.num_tokens == len(self.sequence.token_ids)

    @property
    def scored(self) -> range:
        """The positions whose logits score the prompt's next token."""
        scores = self.sequence.scores
        return range(0) if scores is None else scores.unknown(self.start, self.end)

    @property
    def decodes(self) -> bool:
        """Whether it computes one token that gives one token: no prompt, nothing to fork."""
        sequence = self.sequence
        if sequence.num_pending > 1 or sequence.followers:
            return False
        images = sequence.request.images
        return images is None or images.end <= self.start
