"""vLLM's counts of its parser of tool calls."""

import pytest
from exposed import sample

from pipelines.telemetry import deferred
from pipelines.telemetry.exposition import render
from pipelines.telemetry.tool_calls import ToolCallCounts


@pytest.mark.parametrize(
    ("streams", "mode", "calling", "plain"), [(True, "streaming", 2, 3), (False, "non_streaming", 1, 1)]
)
def test_deltas_of_streams_and_choices_otherwise(model, streams, mode, calling, plain):
    counts = ToolCallCounts(model, "responses", streams)
    for choice, has_call in ((0, False), (0, True), (0, True), (1, False), (1, False)):
        counts.add(choice, has_call)
    counts.ended(0)
    counts.ended(1)
    deferred.catch_up()
    text = render()
    for outcome, count in (("tool_call", calling), ("no_tool_call", plain)):
        labels = f'mode="{mode}",model_name="{model}",outcome="{outcome}",request_type="responses"'
        assert sample(text, f"vllm:tool_call_parser_invocations_total{{{labels}}}") == count
