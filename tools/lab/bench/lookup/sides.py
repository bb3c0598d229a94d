"""Engines around one opened model: the body of its graph with a lookup line, and once or twice without."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

from graphs.check import check
from graphs.graph import Binding
from pipelines.host.models.body import LiveBody
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.loading.load import Resources, live_nodes
from pipelines.nodes import VOCABULARY
from pipelines.nodes.generation.output_guide import grammar_writer
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.repository.model_folders import ModelFolder, scan
from pipelines.values.tasks import TASKS
from pipelines.wire.address import EngineAddress
from pipelines.wire.sampling_params import GuideSpec, SamplingParams
from tools.lab.bench.lookup.chats import Chat

PLAIN, LOOKUP, CONTROL = "without", "with", "again"
CACHE_GB = 0.25
MAX_SEQUENCES = 16
LINE = "      drafted: {{type: lookup, from: step{}}}\n"


@dataclass
class Spent:
    """What some requests took and gave: steps, draft tokens and those accepted; the texts as ids."""

    seconds: float = 0.0
    processor_s: float = 0.0
    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    texts: list[list[int]] = field(default_factory=list)

    def add(self, other: Spent) -> None:
        for name in ("seconds", "processor_s", "tokens", "steps", "drafted", "accepted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.texts += other.texts


class OtherBlocks(LiveBody):
    """A body whose steps use the blocks from `first_block` on of a cache that several engines share."""

    first_block = 0

    def __call__(self, root: Any, /) -> Any:
        step = root.step
        moved = replace(
            step, block_table=step.block_table + self.first_block, copies=step.copies + self.first_block
        )
        return super().__call__(root.with_step(moved))


class Sides:
    """The engines by name.  They share the model and the memory of its cache; none reuses prefixes."""

    def __init__(
        self, path: Path, settings: str, model_settings: str, turn_steps: int, control: bool = False
    ) -> None:
        """`settings` of the lookup line, `model_settings` of the model's, each as YAML.

        `turn_steps`: steps that an engine computes before the next one does.

        `control`: a second engine without the line, whose ratio to the first is what chance makes of 1.
        """
        self._turn_steps = turn_steps
        self._order = Random(turn_steps)
        self.model = next(iter(scan(path))).opened()
        graph = _plain(self.model, model_settings)
        line = LINE.format(f", {settings}" if settings else "")
        drafting = graph.replace("    body:\n", "    body:\n" + line)
        texts = {
            PLAIN: graph,
            LOOKUP: drafting.replace("type: model, from: step", "type: model, from: drafted"),
        } | ({CONTROL: graph} if control else {})
        resources = Resources(EngineAddress(self.model.name, 0, ""))
        self.bodies: dict[str, OtherBlocks] = {}
        self.engines: dict[str, GenerationEngine] = {}
        num_blocks = 0
        for name, text in texts.items():
            binding = _scheduler(text, self.model.path)
            body = OtherBlocks(binding, live_nodes(self.model, binding.body, resources))
            self.engines[name] = binding.type(binding.config, self.model.path).start(body)
            body.first_block, self.bodies[name] = num_blocks, body
            num_blocks += self.engines[name].counts().blocks_total
        session = self.bodies[PLAIN].sessions[-1]
        session.allocate(num_blocks)
        self.vocab_size = session.shape.vocab_size
        file = self.model.path / "tokenizer.json"
        self.tokenizer = open_tokenizer(file if file.exists() else self.model.path / "model" / file.name)
        self._write = grammar_writer(self.tokenizer)
        while self.bodies[LOOKUP].warm():
            pass
        for engine in self.engines.values():
            engine.seed_cost(session.step_times_s, session.shape_change_s)

    def run(self, chats: list[Chat], **sampling: Any) -> dict[str, Spent]:
        """Generate the answers of the chats, side by side, in each engine.

        The engines take turns, so that all run at the same speed of the machine.
        """
        spent = {name: Spent(texts=[[] for _ in chats]) for name in self.engines}
        before = {name: engine.counts() for name, engine in self.engines.items()}
        for name in self.engines:
            for number, chat in enumerate(chats):
                self._submit(name, number, chat, sampling)
        turns = list(self.engines)
        while any(engine.has_work for engine in self.engines.values()):
            self._order.shuffle(turns)  # none always runs after the same other
            for name in turns:
                self._take_turn(self.engines[name], spent[name])
        for name, engine in self.engines.items():
            after, total = engine.counts(), spent[name]
            total.steps = after.steps - before[name].steps
            total.drafted = after.draft_tokens - before[name].draft_tokens
            total.accepted = after.accepted_tokens - before[name].accepted_tokens
        return spent

    def _submit(self, name: str, number: int, chat: Chat, sampling: Mapping[str, Any]) -> None:
        params = SamplingParams(**{"temperature": 0.0, **sampling}, max_tokens=chat.max_tokens)
        guides, guide = self.bodies[name].guides, None
        if chat.schema is not None and guides is not None:
            schema = {"type": "json_schema", "json_schema": chat.schema}
            params.guide = GuideSpec(self._write(schema, "response_format"))
            guide = guides.maker(params)
        self.engines[name].submit(number, GenerationRequest([chat.ids], params, guide=guide))

    def _take_turn(self, engine: GenerationEngine, spent: Spent) -> None:
        for _ in range(self._turn_steps):
            if engine.has_work:
                self._step(engine, spent)

    def _step(self, engine: GenerationEngine, spent: Spent) -> None:
        begin_s, begin_cpu_s = perf_counter(), process_time()
        outputs = engine.step()
        spent.seconds += perf_counter() - begin_s
        spent.processor_s += process_time() - begin_cpu_s
        for output in outputs:
            spent.texts[output.key] += output.piece.token_ids
            spent.tokens += len(output.piece.token_ids)


def _scheduler(text: str, folder: Path) -> Binding:
    return next(each for each in check(text, VOCABULARY, TASKS, folder).bindings if each.body)


def _plain(model: ModelFolder, model_settings: str) -> str:
    """The graph without speculation lines, with a cache of a fixed size that reuses no prefixes."""
    text = re.sub(r"^ +\w+: {type: (lookup|draft).*\n", "", model.graph_text(), flags=re.MULTILINE)
    text = re.sub(r"{type: model, from: \w+", "{type: model, from: step", text)
    text = re.sub(r"cache: {.*", f"cache: {{memory_gb: {CACHE_GB}, reuse_prefixes: false}}", text)
    text = re.sub(r"max_sequences: \d+", f"max_sequences: {MAX_SEQUENCES}", text)
    return re.sub(r"({type: model, [^}]*)", rf"\1, {model_settings}", text) if model_settings else text
