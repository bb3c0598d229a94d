"""Numbers under vLLM's names, in one process and summed over several."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipelines.telemetry import metrics
from pipelines.telemetry.engine_counts import Counts


def sample(text: bytes, line: str) -> float:
    found = [row for row in text.decode().splitlines() if row.startswith(line)]
    return sum(float(row.rsplit(" ", 1)[1]) for row in found)


@pytest.fixture
def model(request):
    """A label that no other test writes to."""
    return request.node.name


def test_engine_progress_adds_differences_only(model):
    first = Counts(prompt_tokens=10, output_tokens=5, prefix_query_tokens=10, prefix_hit_tokens=4)
    second = Counts(prompt_tokens=12, output_tokens=9, prefix_query_tokens=12, prefix_hit_tokens=4)
    metrics.engine_progress(model, first, None)
    metrics.engine_progress(model, second, first)
    text = metrics.render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:prompt_tokens_total{labels}") == 12
    assert sample(text, f"vllm:generation_tokens_total{labels}") == 9
    assert sample(text, f"vllm:prefix_cache_queries_total{labels}") == 12
    assert sample(text, f"vllm:prefix_cache_hits_total{labels}") == 4


def test_engine_load_sums_a_models_engines(model):
    engines = [
        Counts(running=2, waiting=1, blocks_used=3, blocks_total=10),
        Counts(running=1, blocks_total=10),
    ]
    metrics.engine_load(model, engines)
    text = metrics.render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:num_requests_running{labels}") == 3
    assert sample(text, f"vllm:num_requests_waiting{labels}") == 1
    assert sample(text, f"vllm:kv_cache_usage_perc{labels}") == pytest.approx(0.15)


def test_model_without_engines_uses_no_cache(model):
    metrics.engine_load(model, [])
    assert sample(metrics.render(), f'vllm:kv_cache_usage_perc{{model_name="{model}"}}') == 0


def test_request_is_timed_per_choice(model):
    timing = metrics.RequestTiming(model)
    for choice in (0, 1):
        timing.tokens(choice, 1)
        timing.tokens(choice, 3)
        timing.ended(choice, "stop")
    text = metrics.render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:time_to_first_token_seconds_count{labels}") == 2
    assert sample(text, f"vllm:inter_token_latency_seconds_count{labels}") == 2
    assert sample(text, f"vllm:request_time_per_output_token_seconds_count{labels}") == 2
    assert sample(text, f"vllm:e2e_request_latency_seconds_count{labels}") == 2
    finished = f'vllm:request_success_total{{finished_reason="stop",model_name="{model}"}}'
    assert sample(text, finished) == 2


def test_texts_that_are_answered_together_each_count(model):
    timing = metrics.RequestTiming(model)
    timing.read([3, 5, 400])
    timing.completed(3, "stop")
    text = metrics.render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:request_prompt_tokens_count{labels}") == 3
    assert sample(text, f"vllm:request_prompt_tokens_sum{labels}") == 408
    assert sample(text, f"vllm:request_params_n_sum{labels}") == 3
    assert sample(text, f"vllm:e2e_request_latency_seconds_count{labels}") == 3
    finished = f'vllm:request_success_total{{finished_reason="stop",model_name="{model}"}}'
    assert sample(text, finished) == 3


def test_request_without_tokens_has_no_token_times(model):
    metrics.RequestTiming(model).ended(0, "abort")
    text = metrics.render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:time_to_first_token_seconds_count{labels}") == 0
    assert sample(text, f"vllm:request_time_per_output_token_seconds_count{labels}") == 0


def test_what_a_request_asks_for_is_counted(model):
    timing = metrics.RequestTiming(model)
    timing.started([3, 4], n=2, max_tokens=50)
    timing.tokens(0, 5)
    timing.ended(0, "length")
    text = metrics.render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:request_prompt_tokens_count{labels}") == 2
    assert sample(text, f"vllm:request_prompt_tokens_sum{labels}") == 7
    assert sample(text, f"vllm:request_params_n_sum{labels}") == 2
    assert sample(text, f"vllm:request_params_max_tokens_sum{labels}") == 50
    assert sample(text, f"vllm:request_generation_tokens_sum{labels}") == 5


def test_buckets_are_vllms(model):
    metrics.RequestTiming(model).ended(0, "abort")
    text = metrics.render().decode()
    bounds = [
        row.split('le="')[1].split('"')[0]
        for row in text.splitlines()
        if row.startswith("vllm:e2e_request_latency_seconds_bucket") and model in row
    ]
    assert bounds[:4] == ["0.3", "0.5", "0.8", "1.0"]
    assert bounds[-2:] == ["7680.0", "+Inf"]


def test_importing_loads_no_library():
    code = "import sys, pipelines.telemetry.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def in_another_process(folder, code):
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-c", f"from pipelines.telemetry import metrics\n{code}"]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


def test_processes_are_summed_and_a_dead_ones_totals_stay(tmp_path):
    write = """
from pipelines.telemetry.engine_counts import Counts
metrics.engine_progress("m", Counts(output_tokens=5), None)
metrics.engine_load("m", [Counts(running=2)])
import os; print(os.getpid())
"""
    pids = [int(in_another_process(tmp_path, write)) for _ in range(2)]
    read = "import sys; sys.stdout.buffer.write(metrics.render())"
    text = in_another_process(tmp_path, read)
    assert sample(text, 'vllm:generation_tokens_total{model_name="m"}') == 10
    assert sample(text, 'vllm:num_requests_running{model_name="m"}') == 4
    text = in_another_process(tmp_path, f"metrics.mark_dead({pids[0]})\n{read}")
    assert sample(text, 'vllm:generation_tokens_total{model_name="m"}') == 10
    assert sample(text, 'vllm:num_requests_running{model_name="m"}') == 2


def test_each_process_says_what_it_holds_until_it_dies(tmp_path):
    write = "metrics.process_memory({!r}); import os; print(os.getpid())"
    host, worker = (int(in_another_process(tmp_path, write.format(one))) for one in ("host", "worker"))
    read = "import sys; sys.stdout.buffer.write(metrics.render())"
    text = in_another_process(tmp_path, read)
    for process, pid in (("host", host), ("worker", worker)):
        line = f'braid:process_resident_bytes{{pid="{pid}",process="{process}"}}'
        assert 1e6 < sample(text, line) < 1e9
    text = in_another_process(tmp_path, f"metrics.mark_dead({host})\n{read}").decode()
    assert f'pid="{host}"' not in text
    assert f'pid="{worker}"' in text


def test_a_process_that_is_both_says_it_of_both():
    """As `braid serve --in-process` is."""
    for process in ("host", "worker"):
        metrics.process_memory(process)
        assert sample(metrics.render(), f'braid:process_resident_bytes{{process="{process}"}}') > 1e6


def test_a_process_measures_itself_once_a_second(monkeypatch):
    metrics.process_memory("test")
    monkeypatch.setattr(metrics, "_this_process", None)  # whoever measures again fails
    metrics.process_memory("test")


def test_guesses_are_counted_once_there_are_any(model):
    labels = f'{{model_name="{model}"}}'
    metrics.engine_progress(model, Counts(output_tokens=5), None)
    assert f"vllm:spec_decode_num_drafts_total{labels}" not in metrics.render().decode()
    first = Counts(drafts=1, draft_tokens=4, accepted_tokens=1, accepted_per_position=[1])
    second = Counts(drafts=3, draft_tokens=11, accepted_tokens=4, accepted_per_position=[2, 1, 1])
    metrics.engine_progress(model, first, None)
    metrics.engine_progress(model, second, first)
    text = metrics.render()
    assert sample(text, f"vllm:spec_decode_num_drafts_total{labels}") == 3
    assert sample(text, f"vllm:spec_decode_num_draft_tokens_total{labels}") == 11
    assert sample(text, f"vllm:spec_decode_num_accepted_tokens_total{labels}") == 4
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    found = [sample(text, f'{name}{{model_name="{model}",position="{place}"}}') for place in range(4)]
    assert found == [2, 1, 1, 0]


def test_the_phases_of_a_choice_are_its_time(model, monkeypatch):
    now_s = iter([10.0, 11.0, 16.0, 18.5, 18.5])  # made, sent, first token, last token, end
    monkeypatch.setattr(metrics, "process_memory", lambda process: None)
    monkeypatch.setattr(metrics.time, "monotonic", lambda: next(now_s))
    timing = metrics.RequestTiming(model)
    timing.started([3], n=1, max_tokens=50)
    timing.prefilled(0, 1.5)
    timing.tokens(0, 1)
    timing.tokens(0, 4)
    timing.ended(0, "stop")
    monkeypatch.undo()
    text = metrics.render()
    sums = {
        phase: sample(text, f'vllm:request_{phase}_time_seconds_sum{{model_name="{model}"}}')
        for phase in ("queue", "prefill", "decode", "inference")
    }
    assert sums == {"queue": 3.5, "prefill": 1.5, "decode": 2.5, "inference": 4.0}


def test_a_choice_without_a_token_has_no_phases(model):
    timing = metrics.RequestTiming(model)
    timing.started([3], n=1, max_tokens=50)
    timing.ended(0, "abort")
    line = f'vllm:request_queue_time_seconds_count{{model_name="{model}"}}'
    assert sample(metrics.render(), line) == 0


def test_steps_are_counted_by_their_tokens_in_vllms_buckets(model):
    for num_tokens in (1, 8, 9, 20000):
        metrics.step(model, num_tokens)
    text = metrics.render()
    name, labels = "vllm:iteration_tokens_total", f'model_name="{model}"'
    below = [
        sample(text, f'{name}_bucket{{le="{bound}",{labels}}}') for bound in ("1.0", "8.0", "16.0", "16384.0")
    ]
    assert below == [1, 2, 3, 3]
    assert sample(text, f"{name}_sum{{{labels}}}") == 20018


def test_texts_side_by_side_waited_each_and_took_as_long(model):
    metrics.texts_ran(model, [(3, 0.5), (1, 2.0)], 0.25)
    text = metrics.render()

    def number(phase, part):
        return sample(text, f'vllm:request_{phase}_time_seconds_{part}{{model_name="{model}"}}')

    told = {
        phase: [number(phase, "count"), number(phase, "sum")]
        for phase in ("queue", "prefill", "inference", "decode")
    }
    assert told == {"queue": [4, 3.5], "prefill": [4, 1.0], "inference": [4, 1.0], "decode": [0, 0]}


def test_a_cache_is_told_until_it_is_gone(model):
    shape = metrics.CacheShape(16, 100, 5, True)
    line = "vllm:cache_config_info{" + ",".join(
        [
            *('block_size="16"', 'enable_prefix_caching="True"', f'model_name="{model}"'),
            *('num_cpu_blocks="5"', 'num_gpu_blocks="100"'),
        ]
    )
    metrics.cache_shape(model, shape, True)
    assert sample(metrics.render(), line) == 1
    metrics.cache_shape(model, shape, False)
    assert sample(metrics.render(), line) == 0


def test_an_answer_is_counted_when_somebody_catches_up(model):
    names = ("request_prompt_tokens_sum", "e2e_request_latency_seconds_count", "request_params_n_count")

    def counted():
        text = metrics.render()
        return [sample(text, f'vllm:{name}{{model_name="{model}"}}') for name in names]

    timing = metrics.RequestTiming(model)
    timing.read([3, 4])
    timing.completed_later(2, "stop")
    assert counted() == [0, 0, 0]
    metrics.catch_up()
    assert counted() == [7, 2, 2]
    metrics.catch_up()
    assert counted() == [7, 2, 2]


def test_no_more_than_so_many_answers_are_put_off(model, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_LATE", 3)
    metrics.catch_up()
    for _ in range(4):
        metrics.RequestTiming(model).completed_later(1, "stop")
    line = f'vllm:e2e_request_latency_seconds_count{{model_name="{model}"}}'
    assert sample(metrics.render(), line) == 3
    metrics.catch_up()
