"""`braid doctor` on machines that have what models gain by, and on those that lack it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pipelines.inference.backends import cpu_kernels
from server import doctor_command
from server.cli import main

LACKING = {
    "processor": "A Core, ",
    "compiler": "none; with g++ or clang++",
    "kernels": "none",
    "openvino": "not installed; pip install 'braid-server[cpu]'",
    "huge pages": "never; `madvise` in ",
    "memory": "8.0 GB, of which 2.0 GB are available",
}


def said():
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    return {line[:12].strip(): line[13:] for line in result.output.splitlines()}


def test_each_line_says_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path / "cache"))
    lines = said()
    assert lines["openvino"].startswith("openvino 20")
    assert lines["cache"].startswith(f"{tmp_path / 'cache'}, ")
    assert lines["kernels"] == "off, by BRAID_KERNELS"


def test_what_is_missing_is_named_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("model name\t: A Core\nflags\t\t: fpu sse2\nmodel name\t: Another\n")
    (tmp_path / "meminfo").write_text("MemTotal:  8000000 kB\nMemAvailable:  2000000 kB\n")
    (tmp_path / "huge").write_text("always madvise [never]\n")
    monkeypatch.setattr(doctor_command, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(doctor_command, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(doctor_command, "HUGE_PAGES", tmp_path / "huge")
    monkeypatch.setattr(doctor_command, "ENGINES", {"openvino": "no-such-package"})
    monkeypatch.setattr(doctor_command, "version", missing)
    monkeypatch.setattr(cpu_kernels, "CPU_FLAGS", tmp_path / "cpuinfo")
    monkeypatch.delenv("BRAID_KERNELS", raising=False)
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    cpu_kernels.runs_here.cache_clear()
    try:
        lines = said()
    finally:
        cpu_kernels.runs_here.cache_clear()
    for name, beginning in LACKING.items():
        assert lines[name].startswith(beginning)
    assert lines["kernels"] == "none, since they need an x86-64 processor with AVX2"


def missing(name):
    raise doctor_command.PackageNotFoundError(name)


@pytest.mark.parametrize("kernels", [True, False])
def test_check_asks_for_the_layers_where_there_are_kernels(tmp_path, monkeypatch, kernels):
    from fake_decoder import write_fake_model

    write_fake_model(tmp_path / "m")
    calls = []
    monkeypatch.setattr(cpu_kernels, "kernel_library", lambda engine: tmp_path if kernels else None)
    monkeypatch.setattr(cpu_kernels, "describe", lambda: "as in other tests")
    monkeypatch.setattr("server.cli.subprocess.call", lambda command: calls.append(command[2:]) or 0)
    result = CliRunner().invoke(main, ["check", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert calls == ([["-m", "tools.kernel_layers", str(tmp_path)]] if kernels else [])
