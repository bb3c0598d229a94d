"""`braid check --run`: runs the decoders of a folder's models, and compares what they give.

Random tokens run through Braid's own paged steps: each prompt alone in one step, then in chunks beside one
another, then token by token.  All must give the same log-probabilities, and so must what is at hand of these:
the file itself without paging (OpenVINO IR), and transformers with the model that was exported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from graphs.graph import Binding
from pipelines.inference.backends.declared_attention import reaches
from pipelines.inference.backends.model_config import read_config
from pipelines.inference.backends.open_model import open_decoder
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.loading.load import BuildError, checked_graph
from pipelines.nodes.generation.body.model import DecoderConfig, Model
from pipelines.repository.model_folders import ModelFolder, scan
from tools.logit_distance import GROUP, LONGEST, distances, log_softmax, rows_to_compare
from tools.paged_steps import Prompt, prompt_logits

SHORT, MIDDLE = 24, 100
"""Tokens of the prompts; the third is longer than every window and chunk of the model, up to LONGEST."""
CHUNK = 48
EXACT = {"precision": "f32", "kv_cache": "f32"}
SAME = 5e-3
"""Allowed distance between ways of computing."""
OF_BITS = {12.0: 2e-2, 6.0: 0.15, 0.0: 0.7}
"""Allowed distance from transformers, by the least bits of a weight."""

Logits = list[NDArray[np.float32]]
Way = Callable[[Sequence[Prompt]], Logits]


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--source", metavar="HF_FOLDER", help="The model that was exported; needs the extra `export`.")
def main(folder: Path, source: str | None) -> None:
    """Run every decoder of a folder of models, or of one model; exit with 1 where something differs."""
    checked = [_is_right(model, line, source) for model in scan(folder) for line in decoders(model)]
    if not checked:
        raise click.ClickException(f"{folder} holds no model that generates text")
    sys.exit(0 if all(checked) else 1)


def decoders(model: ModelFolder) -> Iterator[Binding]:
    """The lines of a model's graph that open a decoder.  Raises ClickException for a graph with problems."""
    try:
        graph = checked_graph(model.opened(), None)
    except BuildError as error:
        raise click.ClickException(str(error)) from error
    for engine in graph.bindings:
        yield from (line for line in engine.body if issubclass(line.type, Model))


def _is_right(model: ModelFolder, line: Binding, source: str | None) -> bool:
    """Print how far each way of computing a decoder is from the first."""
    path = model.opened().path / line.config.path
    click.echo(f"{model.name}: {path}")
    try:
        session = _open(path, line.config)
    except ModelError as error:
        click.echo(f"  refused: {error}")
        return False
    prompts = _prompts(session, path.parent / "config.json")
    click.echo(f"  {', '.join(f'{name} {value}' for name, value in session.describe().items())}")
    click.echo(f"  prompts of {', '.join(str(len(prompt.ids)) for prompt in prompts)} random tokens")
    whole = [prompt_logits(session, [prompt], len(prompt.ids))[0] for prompt in prompts]
    ways: list[tuple[str, Way, float]] = [
        (
            f"beside one another, {CHUNK} tokens a step",
            lambda some: prompt_logits(session, some, CHUNK),
            SAME,
        ),
        ("token by token", lambda some: prompt_logits(session, some[:2], 1), SAME),
    ]
    if path.suffix == ".xml":
        ways.append(("without paging", lambda some: _unpaged(path, some), SAME))
    if source is not None:
        allowed = next(limit for bits, limit in OF_BITS.items() if _bits(path, source) >= bits)
        ways.append((f"transformers, {source}", lambda some: _of_source(source, some), allowed))
    same = [_report(name, whole, prompts, way(prompts), allowed) for name, way, allowed in ways]
    session.close()
    return all(same)


def _open(path: Path, config: DecoderConfig) -> DecoderSession:
    """In exact arithmetic where the engine has it, as small faults show there."""
    settings = config.settings()
    if config.device == "cpu" and config.engine != "onnxruntime":
        try:
            return open_decoder(path, replace(settings, **EXACT))
        except ModelError:  # by an engine without it
            return open_decoder(path, settings)
    return open_decoder(path, settings)


def _prompts(session: DecoderSession, config: Path) -> list[Prompt]:
    reach = max(reaches(read_config(config)) if config.is_file() else [], default=0)
    length = max(MIDDLE, min(reach + 2 * GROUP, LONGEST))
    sizes = [min(size, session.shape.max_context) for size in (SHORT, MIDDLE, length)]
    noise = np.random.default_rng(1).integers(0, session.shape.vocab_size, max(sizes))
    return [Prompt(noise[:size], rows_to_compare(size, reach)) for size in sizes]


def _report(name: str, whole: Logits, prompts: Sequence[Prompt], computed: Logits, allowed: float) -> bool:
    """Print the largest distance of `computed`, of the first prompts, and where it lies."""
    by_prompt = [
        (distance, begin, len(prompt.ids))
        for logits, prompt, other in zip(whole, prompts, computed, strict=False)
        for begin, distance in distances(log_softmax(logits), log_softmax(other), prompt.rows)
    ]
    apart = [distance for distance in by_prompt if not distance[0] <= allowed]
    worst = max(by_prompt)[0]
    click.echo(f"  {'PARTS' if apart else 'same '}  {worst:.2g} (up to {allowed:g})  {name}")
    if apart:
        _, begin, size = apart[0]
        end = min(begin + GROUP, size) - 1
        click.echo(f"         first at tokens {begin} to {end} of the prompt of {size}")
    return not apart


def _unpaged(path: Path, prompts: Sequence[Prompt]) -> Logits:
    """What the IR gives as it is, with its own cache and masks."""
    import openvino as ov

    compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    logits = []
    for prompt in prompts:
        request, size = compiled.create_infer_request(), len(prompt.ids)
        inputs = {
            "input_ids": prompt.ids[None],
            "attention_mask": np.ones((1, size), np.int64),
            "position_ids": np.arange(size)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        request.infer({port: inputs[port.any_name] for port in compiled.inputs})
        logits.append(request.get_output_tensor(0).data[0, prompt.rows].astype(np.float32))
    return logits


def _of_source(source: str, prompts: Sequence[Prompt]) -> Logits:
    """What transformers gives with the model in `source`, in float32."""
    import torch

    model = _model(source)
    with torch.no_grad():
        every = [model(torch.from_numpy(prompt.ids)[None], use_cache=False).logits[0] for prompt in prompts]
    return [logits[prompt.rows].float().numpy() for logits, prompt in zip(every, prompts, strict=True)]


def _bits(path: Path, source: str) -> float:
    """Bits of a weight in the file at `path`."""
    files = [path, *path.parent.glob(f"{path.stem}*.bin"), *path.parent.glob(f"{path.name}*data*")]
    return 8 * sum(file.stat().st_size for file in set(files)) / _model(source).num_parameters()


@cache
def _model(source: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.float32, attn_implementation="eager", trust_remote_code=False
    ).eval()


if __name__ == "__main__":
    main(prog_name="braid check --run")
