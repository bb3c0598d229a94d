"""`python -m tools.lab.bench.step_shapes MODEL`: what a step costs whose shape differs from the step before.

OpenVINO prepares the operators of a graph anew where shapes change.  One sequence decodes 1 token or several,
as with draft tokens: always the same number, and in turns with 1.  MODEL: openvino_model.xml, model.onnx.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.packed_parts import PromptPart, packed_step

CONTEXT, NUM_STEPS = 128, 16
WIDTHS = (1, 2, 3, 4, 6, 8, 11)


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rounds", default=3, show_default=True)
def main(model: Path, rounds: int) -> None:
    """Print medians in milliseconds."""
    session = OpenVINOSession(model)
    size = session.shape.block_tokens
    session.reserve(CONTEXT, 1)
    num_blocks = -(-(CONTEXT + max(WIDTHS)) // size)
    session.allocate(num_blocks)

    def step_of(begin: int, width: int) -> Step:
        blocks, rows = np.arange(num_blocks, dtype=np.int32), np.arange(width)
        return packed_step([PromptPart(rows + 1, begin, blocks, rows, 0, None)], size)

    session.run(step_of(0, CONTEXT))
    steps = {width: step_of(CONTEXT, width) for width in WIDTHS}
    timed(session, [steps[width] for width in WIDTHS for _ in range(4)])  # first steps are slow
    for number in range(rounds):
        click.echo(f"round {number + 1}")
        for width in WIDTHS:
            same = timed(session, [steps[width]] * NUM_STEPS)[1:]
            line = f"  {width:2} tokens: {statistics.median(same):5.1f}"
            if width > 1:
                turns = timed(session, [steps[1], steps[width]] * NUM_STEPS)[1:]
                line += f", in turns with 1: {statistics.median(turns[::2]):5.1f}"
                line += f" and {statistics.median(turns[1::2]):5.1f} for the 1"
            click.echo(line)
    session.close()


def timed(session: OpenVINOSession, steps: Sequence[Step]) -> list[float]:
    """Milliseconds of each step."""
    found = []
    for step in steps:
        begin_s = time.perf_counter()
        session.run(step)
        found.append(1e3 * (time.perf_counter() - begin_s))
    return found


if __name__ == "__main__":
    main()
