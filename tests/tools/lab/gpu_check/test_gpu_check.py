"""The checks' runner and report, without a GPU: what is missing, what is said, what is written."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import PATIENCE_S

from tools.lab.gpu_check import __main__ as command
from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.base.tracing import read_trace
from tools.lab.gpu_check.checks import CHECKS, Check
from tools.lab.gpu_check.correctness.sanitizer import find_sanitizer
from tools.lab.gpu_check.environment import missing, op_schema
from tools.lab.gpu_check.packs.driving import Decoding
from tools.lab.gpu_check.packs.models import SHAPES
from tools.lab.gpu_check.report import markdown, verdicts, write_json
from tools.lab.gpu_check.run import line, run_checks
from tools.lab.gpu_check.speed.bench import CONTEXT, NEW_TOKENS, figures, words

ROOT = Path(__file__).parents[4]
NO_GPU = any(one.startswith("no GPU") for one in missing())


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU here")
def test_without_a_gpu_it_says_what_is_missing():
    done = subprocess.run(
        [sys.executable, "-m", "tools.lab.gpu_check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == command.LACKING
    assert "Nothing can be checked here" in done.stdout
    assert "no GPU: there is no NVIDIA driver" in done.stdout
    assert done.stderr == ""


def test_every_check_is_there(capsys):
    assert all(callable(check.load()) for check in CHECKS)
    assert command.main(["--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == [one.name for one in CHECKS]


def test_this_onnxruntime_knows_the_operator():
    assert {"slot_mapping", "k_scale", "attention_metadata"} <= set(op_schema()["inputs"])


# The runner: checks that stand in for the real ones, in real processes

STAND_INS = """
import os, signal, time
from tools.lab.gpu_check import checks
from tools.lab.gpu_check.base.setting import Absent, Failed
from tools.lab.gpu_check.checks import Check
def passes(setting): setting.note("answer", 42); setting.say("working")
def fails(setting): raise Failed("3 of 4 differ", "look here")
def breaks(setting): {}["nothing"]
def lacks(setting): raise Absent("no tool")
def hangs(setting):
    setting.note("half", 1)
    open(__file__ + ".hangs", "w").close()
    time.sleep(3600)
def dies(setting): os.kill(os.getpid(), signal.SIGSEGV)
checks.CHECKS = tuple(
    Check(name, 1, 3, "stand_ins:" + name, "") for name in ("passes", "fails", "breaks", "lacks", "hangs", "dies")
)
"""


HANGS_S = 1


def waiting_for(file):
    """`Popen.wait`, whose time for the check that hangs begins when it does."""

    def wait(self, timeout=None, wait=subprocess.Popen.wait):
        end_s = time.monotonic() + PATIENCE_S
        while timeout == HANGS_S and not file.exists():
            assert time.monotonic() < end_s
            time.sleep(0.02)
        return wait(self, timeout)

    return wait


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What becomes of each stand-in."""
    folder = tmp_path_factory.mktemp("stand_ins")
    (folder / "stand_ins.py").write_text(STAND_INS)
    start = "import sys, stand_ins; sys.modules['tools.lab.gpu_check.stand_ins'] = stand_ins\n"
    (folder / "sitecustomize.py").write_text(start)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    names = ("passes", "fails", "breaks", "lacks", "hangs", "dies")
    limits = {name: HANGS_S if name == "hangs" else int(PATIENCE_S) for name in names}
    checks = [Check(name, 1, limit_s, f"stand_ins:{name}", "") for name, limit_s in limits.items()]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subprocess.Popen, "wait", waiting_for(folder / "stand_ins.py.hangs"))
        results = run_checks(checks, Setting(), {**os.environ, "PYTHONPATH": paths}, 10 * int(PATIENCE_S))
    return {result["name"]: result for result in results}


def test_a_check_that_passes_leaves_its_figures(outcomes):
    assert outcomes["passes"]["state"] == "pass"
    assert outcomes["passes"]["figures"] == {"answer": 42}


def test_a_check_that_fails_says_why_and_where_to_look(outcomes):
    assert outcomes["fails"]["state"] == "fail"
    assert line(outcomes["fails"]).splitlines()[1:] == ["       3 of 4 differ", "       look here"]


def test_an_error_shows_the_end_of_its_traceback(outcomes):
    assert outcomes["breaks"]["why"] == "KeyError: 'nothing'"
    assert "in breaks" in outcomes["breaks"]["look_at"]


def test_what_is_absent_is_no_failure(outcomes):
    assert (outcomes["lacks"]["state"], outcomes["lacks"]["why"]) == ("absent", "no tool")


def test_a_check_that_hangs_is_stopped_and_keeps_what_it_found(outcomes):
    assert outcomes["hangs"]["state"] == "fail"
    assert f"stopped after its {HANGS_S} s" in outcomes["hangs"]["why"]
    assert outcomes["hangs"]["figures"] == {"half": 1}


def test_a_check_that_takes_its_process_along_costs_no_other(outcomes):
    assert "SIGSEGV" in outcomes["dies"]["why"]


def test_no_check_begins_when_the_time_is_over():
    (result,) = run_checks([CHECKS[0]], Setting(), {}, 5)
    assert (result["state"], result["why"]) == ("absent", "no time was left")


# The report

DECODE = {
    "tokens_s": 250.0,
    "step_ms": 4.0,
    "floor_ms": 3.0,
    "of_floor": 0.75,
    "host_ms": 0.3,
    "model_ms": 3.5,
    "sample_ms": 0.2,
    "whole_tokens_s": 240.0,
}


def result(name, figures, state="pass", why=""):
    return {"name": name, "state": state, "seconds": 1.25, "why": why, "look_at": "", "figures": figures}


RESULTS = [
    result("environment", {"GPU": "NVIDIA Example", "onnxruntime": "1.2.3"}),
    result("attention", {}, "fail", "f16, decode: off | by one\nmore"),
    result("kernel_times", {"choose greedy 1": {"call_us": 12.34, "device_us": 5.6, "gb_s": None}}),
    result(
        "decode_8b",
        {
            "bandwidth GB/s": 4000.0,
            "decode 1": DECODE,
            "decode 32": {**DECODE, "whole_tokens_s": 700.0},
            "decode 32 without graphs": DECODE,
            "prefill": {"tokens": 8192, "chunk": 2048, "tokens_s": 9000.0, "tflops": 150.0},
            "profile 1": {
                "idle share": 0.125,
                "launches": 400.0,
                "kernels": {"gemm": {"us": 10.0, "launches": 3.0}},
            },
        },
    ),
    result("transformers_8b", {"decode 32": {"whole_tokens_s": 350.0}}),
]


def test_the_report_has_every_part():
    text = markdown({"date": "2000-01-01", "command": "python -m tools.lab.gpu_check", "results": RESULTS})
    assert "2000-01-01, `python -m tools.lab.gpu_check`: GPU NVIDIA Example, onnxruntime 1.2.3." in text
    assert "| attention | fail | 1 | f16, decode: off \\| by one |" in text
    assert "| 1 | yes | 250 | 4.00 | 3.00 | 0.75 | 0.30 | 3.50 | 0.20 | 240 |  |  |" in text
    assert "| 32 | yes | 250 | 4.00 | 3.00 | 0.75 | 0.30 | 3.50 | 0.20 | 700 | 350 | 2.0 |" in text
    assert "| 32 | no |" in text
    assert "9000 tokens/s, 150 TFLOP/s" in text
    assert "idle 12.5%" in text
    assert "| choose greedy 1 | 12.3 | 6 |  |" in text
    assert "0.6b" not in text  # nothing was measured of it
    columns = {row.count("|") - row.count("\\|") for row in text.splitlines() if row.startswith("| 1 |")}
    head = next(row for row in text.splitlines() if row.startswith("| sequences"))
    assert columns == {head.count("|")}


def test_the_aims_are_judged():
    assert verdicts({one["name"]: one for one in RESULTS}) == [
        "8B, 1 sequence, share of the memory-bandwidth floor: 0.75 (aim 0.6: reached)",
        "8B, 32 sequences, times transformers' continuous batching: 2.00 (aim 3: missed)",
    ]
    assert verdicts({}) == []


def test_two_parts_write_one_file(tmp_path, capsys):
    path = tmp_path / "all.json"
    write_json(path, RESULTS[:2], "first", "2000-01-01")
    write_json(path, [result("attention", {}), RESULTS[2]], "second", "2000-01-02")
    written = json.loads(path.read_text())
    assert [(result_written["name"], result_written["state"]) for result_written in written["results"]] == [
        ("environment", "pass"),
        ("attention", "pass"),
        ("kernel_times", "pass"),
    ]
    assert command.main(["report", str(path)]) == 0
    assert "NVIDIA Example" in capsys.readouterr().out


def test_a_step_is_beside_its_floor():
    """8B at 4 TB/s: 15.1 GB of matrices and 544 tokens of 147,456 B take 3.8 ms."""
    shape = SHAPES["qwen3-8b"]
    assert shape.matrix_elements * 2 == pytest.approx(15.14e9, rel=0.001)
    steps = Decoding(0.5, 1.0, [0.006] * 3, [0.001] * 3, [0.003] * 3, [0.002] * 3)
    figures_found = figures(shape, steps, steps, 1, 4000.0, True)
    read = shape.matrix_elements * 2 + (CONTEXT + NEW_TOKENS // 2) * 36 * 2 * 8 * 128 * 2
    assert figures_found.floor_ms == pytest.approx(read / 4e12 * 1e3)
    assert figures_found.of_floor == pytest.approx(figures_found.floor_ms / 6)
    assert (figures_found.tokens_s, figures_found.whole_tokens_s) == (pytest.approx(1000 / 6), NEW_TOKENS)
    assert "167 tokens/s" in words(figures_found)


def test_a_trace_says_how_long_the_device_waited():
    kernel = {"cat": "kernel", "name": "gemm", "ts": 100, "dur": 10}
    events = [
        kernel,
        {**kernel, "ts": 105, "dur": 10},  # beside the first
        {"cat": "gpu_memcpy", "name": "copy", "ts": 125, "dur": 15},
        {"cat": "cpu_op", "name": "host", "ts": 0, "dur": 1000},
        {"name": "no category"},
    ]
    trace = read_trace(events)
    assert (trace.busy_us, trace.span_us, trace.launches) == (30, 40, 3)
    assert trace.idle_share == 0.25
    assert trace.kernels == {"gemm": (2, 20), "copy": (1, 15)}


def test_an_empty_trace_is_no_error():
    assert read_trace([]).idle_share == 0


def test_the_sanitizer_is_looked_for_on_the_path(tmp_path, monkeypatch):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_sanitizer() == str(tool)
