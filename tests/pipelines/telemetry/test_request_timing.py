"""Times and lengths of requests, under vLLM's names."""

from exposed import sample

from pipelines.telemetry import deferred, request_timing
from pipelines.telemetry.exposition import render
from pipelines.telemetry.request_timing import RequestTiming


def rendered():
    deferred.catch_up()
    return render()


def test_request_is_timed_per_choice(model):
    timing = RequestTiming(model)
    for choice in (0, 1):
        timing.tokens(choice, 1)
        timing.tokens(choice, 3)
        timing.ended(choice, "stop")
    text = rendered()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:time_to_first_token_seconds_count{labels}") == 2
    assert sample(text, f"vllm:inter_token_latency_seconds_count{labels}") == 2
    assert sample(text, f"vllm:request_time_per_output_token_seconds_count{labels}") == 2
    assert sample(text, f"vllm:e2e_request_latency_seconds_count{labels}") == 2
    finished = f'vllm:request_success_total{{finished_reason="stop",model_name="{model}"}}'
    assert sample(text, finished) == 2


def test_texts_that_are_answered_together_each_count(model):
    timing = RequestTiming(model)
    timing.read([3, 5, 400])
    timing.completed(3, "stop")
    text = rendered()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:request_prompt_tokens_count{labels}") == 3
    assert sample(text, f"vllm:request_prompt_tokens_sum{labels}") == 408
    assert sample(text, f"vllm:request_params_n_sum{labels}") == 3
    assert sample(text, f"vllm:e2e_request_latency_seconds_count{labels}") == 3
    finished = f'vllm:request_success_total{{finished_reason="stop",model_name="{model}"}}'
    assert sample(text, finished) == 3


def test_request_without_tokens_has_no_token_times(model):
    RequestTiming(model).ended(0, "abort")
    text = rendered()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:time_to_first_token_seconds_count{labels}") == 0
    assert sample(text, f"vllm:request_time_per_output_token_seconds_count{labels}") == 0


def test_what_a_request_asks_for_is_counted(model):
    timing = RequestTiming(model)
    timing.started([3, 4], n=2, max_tokens=50)
    timing.tokens(0, 5)
    timing.ended(0, "length")
    text = rendered()
    labels = f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:request_prompt_tokens_count{labels}") == 2
    assert sample(text, f"vllm:request_prompt_tokens_sum{labels}") == 7
    assert sample(text, f"vllm:request_params_n_sum{labels}") == 2
    assert sample(text, f"vllm:request_params_max_tokens_sum{labels}") == 50
    assert sample(text, f"vllm:request_generation_tokens_sum{labels}") == 5


def test_buckets_are_vllms(model):
    RequestTiming(model).ended(0, "abort")
    text = rendered().decode()
    bounds = [
        row.split('le="')[1].split('"')[0]
        for row in text.splitlines()
        if row.startswith("vllm:e2e_request_latency_seconds_bucket") and model in row
    ]
    assert bounds[:4] == ["0.3", "0.5", "0.8", "1.0"]
    assert bounds[-2:] == ["7680.0", "+Inf"]


def test_the_phases_of_a_choice_are_its_time(model, monkeypatch):
    now_s = iter([10.0, 11.0, 16.0, 18.5, 18.5])  # made, sent, first token, last token, end
    monkeypatch.setattr(request_timing.time, "monotonic", lambda: next(now_s))
    timing = RequestTiming(model)
    timing.started([3], n=1, max_tokens=50)
    timing.prefilled(0, 1.5, num_cached=0)
    timing.tokens(0, 1)
    timing.tokens(0, 4)
    timing.ended(0, "stop")
    monkeypatch.undo()
    text = rendered()
    sums = {
        phase: sample(text, f'vllm:request_{phase}_time_seconds_sum{{model_name="{model}"}}')
        for phase in ("queue", "prefill", "decode", "inference")
    }
    assert sums == {"queue": 3.5, "prefill": 1.5, "decode": 2.5, "inference": 4.0}


def test_a_choice_without_a_token_has_no_phases(model):
    timing = RequestTiming(model)
    timing.started([3], n=1, max_tokens=50)
    timing.ended(0, "abort")
    line = f'vllm:request_queue_time_seconds_count{{model_name="{model}"}}'
    assert sample(rendered(), line) == 0


def test_an_answer_is_counted_with_the_next_catch_up(model):
    names = ("request_prompt_tokens_sum", "e2e_request_latency_seconds_count", "request_params_n_count")

    def counted():
        text = render()
        return [sample(text, f'vllm:{name}{{model_name="{model}"}}') for name in names]

    timing = RequestTiming(model)
    timing.read([3, 4])
    timing.completed(2, "stop")
    assert counted() == [0, 0, 0]
    deferred.catch_up()
    assert counted() == [7, 2, 2]
    deferred.catch_up()
    assert counted() == [7, 2, 2]


def test_the_longest_choice_of_a_prompt_counts_when_its_last_one_ends(model):
    """vLLM's metric: one number for each prompt, not for each choice."""
    timing = RequestTiming(model)
    timing.started([3, 4], n=2, max_tokens=50)
    name, labels = "vllm:request_max_num_generation_tokens", f'{{model_name="{model}"}}'

    def counted():
        text = rendered()
        return sample(text, f"{name}_count{labels}"), sample(text, f"{name}_sum{labels}")

    for choice, num_tokens in ((0, 5), (1, 2), (2, 4), (3, 9)):
        timing.tokens(choice, num_tokens)
    timing.ended(0, "stop")
    timing.ended(2, "stop")
    assert counted() == (0, 0)
    timing.ended(3, "length")
    assert counted() == (1, 9)
    timing.ended(1, "stop")
    assert counted() == (2, 14)


def test_what_the_cache_left_of_a_prompt_counts_once(model):
    timing = RequestTiming(model)
    timing.started([30, 40], n=2, max_tokens=50)
    for choice, num_cached in ((0, 16), (1, 16), (2, 0), (3, 0)):
        timing.prefilled(choice, 0.1, num_cached)
    text, labels = rendered(), f'{{model_name="{model}"}}'
    assert sample(text, f"vllm:request_prefill_kv_computed_tokens_count{labels}") == 2
    assert sample(text, f"vllm:request_prefill_kv_computed_tokens_sum{labels}") == 14 + 40


def test_a_choice_that_calls_tools_stopped(model):
    """vLLM's label knows stop, length, abort, error and repetition alone."""
    RequestTiming(model).ended(0, "tool_calls")
    labels = f'{{finished_reason="stop",model_name="{model}"}}'
    assert sample(rendered(), f"vllm:request_success_total{labels}") == 1
