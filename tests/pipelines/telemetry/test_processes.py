"""Numbers of several processes: summed, and what each of them uses."""

import os
import subprocess
import sys

import pytest
from exposed import sample

IMPORTS = "from pipelines.telemetry import exposition, metrics, processes, registry\n"
READ = "import sys; sys.stdout.buffer.write(exposition.render())"
NAMES = (
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
)


def in_another_process(folder, code):
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-c", IMPORTS + code]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


def test_processes_are_summed_and_a_dead_ones_totals_stay(tmp_path):
    write = """
from pipelines.telemetry.engine_counts import Counts
metrics.engine_progress("m", Counts(output_tokens=5), None)
metrics.engine_load("m", [Counts(running=2)])
import os; print(os.getpid())
"""
    pids = [int(in_another_process(tmp_path, write)) for _ in range(2)]
    text = in_another_process(tmp_path, READ)
    assert sample(text, 'vllm:generation_tokens_total{model_name="m"}') == 10
    assert sample(text, 'vllm:num_requests_running{model_name="m"}') == 4
    text = in_another_process(tmp_path, f"registry.mark_dead({pids[0]})\n{READ}")
    assert sample(text, 'vllm:generation_tokens_total{model_name="m"}') == 10
    assert sample(text, 'vllm:num_requests_running{model_name="m"}') == 2


@pytest.fixture
def running(tmp_path):
    """A process that has registered as the host and waits."""
    code = IMPORTS + "processes.register('host'); print(flush=True); input()"
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_each_process_is_measured_when_metrics_are_read(tmp_path, running):
    text = in_another_process(tmp_path, f"processes.register('worker')\n{READ}")
    for name in NAMES:
        host = sample(text, f'{name}{{pid="{running.pid}",process="host"}}')
        every = sample(text, f"{name}{{")
        assert 0 < host < every, name
    assert 1e6 < sample(text, f'process_resident_memory_bytes{{pid="{running.pid}"') < 1e9


def test_a_process_that_ended_uses_nothing(tmp_path, running):
    running.kill()
    running.wait()
    text = in_another_process(tmp_path, READ).decode()
    assert [row for row in text.splitlines() if row.startswith("process_resident")] == []
    text = in_another_process(tmp_path, f"registry.mark_dead({running.pid})\n{READ}").decode()
    assert f'pid="{running.pid}"' not in text
