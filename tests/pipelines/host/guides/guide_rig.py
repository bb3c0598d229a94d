"""An engine over a fake model whose outputs are kept to grammars, with the demo model's tokenizer."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from pipelines.grammars.grammar_text import grammar_of_format
from pipelines.host.backends.fake_decoder import FakeSession
from pipelines.host.contracts.step import Sampled
from pipelines.host.engine.generation_engine import GenerationEngine, Output, StepBody
from pipelines.host.engine.interface.engine_contract import GenerationRequest
from pipelines.host.engine.kv_cache.cache_size import CacheSize
from pipelines.host.engine.sequences.policy import EngineSettings
from pipelines.host.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.host.guides.token_tables import TokenTable
from pipelines.host.sampling.stages import sample
from pipelines.host.sampling.step_context import Logits, StepContext
from pipelines.nodes.generation.body.grammar import Grammar
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer, special_tokens
from pipelines.wire.sampling_params import GuideSpec, SamplingParams

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "model_repo" / "braid-demo" / "model"
TOKENIZER = FOLDER / "tokenizer.json"
VOCAB_SIZE = 2048
ENDS = frozenset({2037, 2039})


@cache
def tokens() -> TokenTable:
    return TokenTable(TOKENIZER.read_bytes(), VOCAB_SIZE, ENDS)


def text_of(token_ids: list[int]) -> str:
    return b"".join(map(tokens().bytes_of, token_ids)).decode(errors="replace")


@cache
def specials() -> dict[str, int]:
    return special_tokens(open_tokenizer(TOKENIZER))


def grammar(format) -> str:
    return grammar_of_format(format, "f", specials())


def schema(value, **options) -> str:
    return grammar({"type": "json_schema", "json_schema": value, **options})


def grammar_node() -> Grammar:
    node = Grammar(Grammar.Config(tokenizer="tokenizer.json"), FOLDER)
    node.start(VOCAB_SIZE, ENDS)
    return node


def allowed(found) -> set[int]:
    """The tokens that a guide allows next."""
    if not found.restricts():
        return set(range(VOCAB_SIZE))
    bits = np.full(tokens().num_words, -1, np.int32)
    found.fill(bits)
    return set(np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist())


class GuidedRig:
    """`outputs[key, choice]` is what came so far, `endings` what it ended with; `steps` counts steps.

    Where `foreseen[key, choice]` is known, that is drafted, and every fifth token wrong.
    """

    def __init__(self, node: Grammar, session=None, max_sequences=4, max_step_tokens=64, **more):
        self.node = node
        self.session = session or FakeSession(VOCAB_SIZE, block_tokens=8, max_context=400)
        num_blocks, ends = more.pop("num_blocks", 400), more.pop("ends", ENDS)
        self.session.allocate(num_blocks, more.get("num_host_blocks", 0))
        settings = EngineSettings(
            max_sequences,
            max_step_tokens,
            reuse_prefixes=True,
            num_draft_tokens=more.pop("num_draft_tokens", 0),
        )
        self.engine = GenerationEngine(
            StepBody(self._body),
            settings,
            self.session.shape,
            CacheSize(num_blocks, **more),
            ends,
        )
        self.outputs: dict = {}
        self.endings: dict[tuple, Output] = {}
        self.steps = 0
        self.foreseen: dict[tuple, list[int]] = {}

    def _body(self, context: StepContext) -> Sampled:
        self.steps += 1
        step = context.step
        if context.speculation is not None:
            drafted = [
                self._draft_tokens(*of)
                for of in zip(step.slots.tolist(), step.draft_budget.tolist(), strict=True)
            ]
            counts = np.array([len(ids) for ids in drafted], np.int64)
            ids = np.array([one for ids in drafted for one in ids], np.int64)
            context = context.with_step(with_draft_tokens(step, counts, ids))
        self.node.prepare(context)
        return sample(self.node.run(Logits(self.session.run(context.step), context, self.session.ops)))

    def _draft_tokens(self, slot: int, room: int) -> list[int]:
        if not room:
            return []
        sequence = next(one for one in self.engine.scheduler.running if one.slot == slot)
        begin = sequence.num_output
        coming = self.foreseen.get((sequence.key, sequence.choice), [])[begin : begin + room]
        return [one if (begin + k) % 5 else one + 1 for k, one in enumerate(coming)]

    def submit(self, key, spec: GuideSpec | None, prompt=(1, 2, 3), n=1, **params) -> None:
        wanted = SamplingParams(**{"temperature": 0.0, "max_tokens": 60, "guide": spec, **params})
        request = GenerationRequest([list(prompt)], wanted, n, guide=self.node.maker(wanted))
        self.engine.submit(key, request)

    def step(self) -> None:
        for output in self.engine.step():
            at = output.key, output.choice
            self.outputs.setdefault(at, []).extend(output.piece.token_ids)
            if output.piece.finish:
                self.endings[at] = output

    def run(self, max_steps=5000) -> None:
        for _ in range(max_steps):
            if not self.engine.has_work:
                return
            self.step()
        raise AssertionError("the engine does not come to an end")

    def text(self, key, choice=0) -> str:
        """Without the end token."""
        ids = self.outputs.get((key, choice), [])
        return text_of(ids[:-1] if self.finish(key, choice) == "stop" else ids)

    def finish(self, key, choice=0):
        return self.endings[key, choice].piece.finish
