"""Numbers of engines under vLLM's names."""

import subprocess
import sys

import pytest
from exposed import sample

from pipelines.telemetry import metrics
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.exposition import render


def test_engine_progress_adds_differences_only(model):
    first = Counts(prompt_tokens=10, output_tokens=5, prefix_query_tokens=10, prefix_hit_tokens=4)
    second = Counts(prompt_tokens=12, output_tokens=9, prefix_query_tokens=12, prefix_hit_tokens=4)
    metrics.engine_progress(model, first, None)
    metrics.engine_progress(model, second, first)
    text = render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:prompt_tokens_total{labels}") == 12
    assert sample(text, f"vllm:generation_tokens_total{labels}") == 9
    assert sample(text, f"vllm:prefix_cache_queries_total{labels}") == 12
    assert sample(text, f"vllm:prefix_cache_hits_total{labels}") == 4
    assert sample(text, f"vllm:prompt_tokens_cached_total{labels}") == 4
    name = "vllm:prompt_tokens_by_source_total"
    assert sample(text, f'{name}{{model_name="{model}",source="local_cache_hit"}}') == 4
    assert sample(text, f'{name}{{model_name="{model}",source="local_compute"}}') == 8


def test_engine_load_sums_a_models_engines(model):
    engines = [
        Counts(running=2, waiting=1, blocks_used=3, blocks_total=10),
        Counts(running=1, blocks_total=10),
    ]
    metrics.engine_load(model, engines)
    text = render()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:num_requests_running{labels}") == 3
    assert sample(text, f"vllm:num_requests_waiting{labels}") == 1
    reason = f'{{model_name="{model}",reason="capacity"}}'
    assert sample(text, f"vllm:num_requests_waiting_by_reason{reason}") == 1
    assert sample(text, f"vllm:kv_cache_usage_perc{labels}") == pytest.approx(0.15)


def test_model_without_engines_uses_no_cache(model):
    metrics.engine_load(model, [])
    assert sample(render(), f'vllm:kv_cache_usage_perc{{model_name="{model}"}}') == 0


def test_importing_loads_no_library():
    code = "import sys, pipelines.telemetry.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_guesses_are_counted_once_there_are_any(model):
    labels = f'{{model_name="{model}"}}'
    metrics.engine_progress(model, Counts(output_tokens=5), None)
    assert f"vllm:spec_decode_num_drafts_total{labels}" not in render().decode()
    first = Counts(drafts=1, draft_tokens=4, accepted_tokens=1, accepted_per_position=[1])
    second = Counts(drafts=3, draft_tokens=11, accepted_tokens=4, accepted_per_position=[2, 1, 1])
    metrics.engine_progress(model, first, None)
    metrics.engine_progress(model, second, first)
    text = render()
    assert sample(text, f"vllm:spec_decode_num_drafts_total{labels}") == 3
    assert sample(text, f"vllm:spec_decode_num_draft_tokens_total{labels}") == 11
    assert sample(text, f"vllm:spec_decode_num_accepted_tokens_total{labels}") == 4
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    samples = [sample(text, f'{name}{{model_name="{model}",position="{place}"}}') for place in range(4)]
    assert samples == [2, 1, 1, 0]


def test_steps_are_counted_by_their_tokens_in_vllms_buckets(model):
    for num_tokens in (1, 8, 9, 20000):
        metrics.step(model, num_tokens)
    metrics.write_steps(model)
    text = render()
    name, labels = "vllm:iteration_tokens_total", f'model_name="{model}"'
    below = [
        sample(text, f'{name}_bucket{{le="{bound}",{labels}}}') for bound in ("1.0", "8.0", "16.0", "16384.0")
    ]
    assert below == [1, 2, 3, 3]
    assert sample(text, f"{name}_sum{{{labels}}}") == 20018


def test_texts_side_by_side_waited_each_and_took_as_long(model):
    metrics.texts_ran(model, [(3, 0.5), (1, 2.0)], 0.25)
    text = render()

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
    assert sample(render(), line) == 1
    metrics.cache_shape(model, shape, False)
    assert sample(render(), line) == 0
