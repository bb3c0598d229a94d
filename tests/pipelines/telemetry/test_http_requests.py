"""HTTP requests under the names that prometheus-fastapi-instrumentator gives them in vLLM."""

from exposed import sample

from pipelines.telemetry import deferred
from pipelines.telemetry.exposition import render
from pipelines.telemetry.http_requests import count_request


def test_a_request_is_counted_by_handler_method_and_status(model):
    before = sample(render(), "http_request_duration_highr_seconds_count")
    for status, seconds in ((200, 0.3), (200, 0.05), (404, 0.7)):
        count_request(f"/{model}", "POST", status, 100, 40, seconds)
    deferred.catch_up()
    text = render()
    handler = f'handler="/{model}"'

    def number(name, labels):
        return sample(text, f"{name}{{{labels}}}")

    assert number("http_requests_total", f'{handler},method="POST",status="2xx"') == 2
    assert number("http_requests_total", f'{handler},method="POST",status="4xx"') == 1
    assert number("http_request_size_bytes_count", handler) == 3
    assert number("http_request_size_bytes_sum", handler) == 300
    assert number("http_response_size_bytes_sum", handler) == 120
    latency = "http_request_duration_seconds"
    below = [
        number(f"{latency}_bucket", f'{handler},le="{le}",method="POST"') for le in ("0.1", "0.5", "+Inf")
    ]
    assert below == [1, 2, 3]
    assert sample(text, "http_request_duration_highr_seconds_count") == before + 3


def test_nothing_is_written_before_somebody_catches_up(model):
    count_request(f"/{model}", "GET", 200, 0, 0, 0.1)
    line = f'http_requests_total{{handler="/{model}"'
    assert sample(render(), line) == 0
    deferred.catch_up()
    deferred.catch_up()
    assert sample(render(), line) == 1


def test_buckets_are_the_instrumentators():
    count_request("/buckets", "GET", 200, 0, 0, 0.1)
    deferred.catch_up()
    start = "http_request_duration_highr_seconds_bucket"
    rows = [row for row in render().decode().splitlines() if row.startswith(start)]
    bounds = [row.split('le="')[1].split('"')[0] for row in rows]
    assert (bounds[:3], bounds[-3:], len(bounds)) == (["0.01", "0.025", "0.05"], ["30.0", "60.0", "+Inf"], 22)
