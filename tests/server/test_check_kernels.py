"""`braid check` says in a line beside its report whether CPU kernels are used."""

from click.testing import CliRunner

from pipelines.inference.backends import cpu_kernels
from server.cli import main


def test_check_says_what_would_help(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_kernels, "runs_here", lambda: True)
    monkeypatch.setenv("BRAID_KERNELS", "auto")
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    shown = CliRunner().invoke(main, ["check", "model_repo/braid-embed"], catch_exceptions=False)
    assert shown.stderr.startswith("CPU kernels: none; with a C++ compiler (g++, clang++) or the wheel")
    assert "CPU kernels" not in shown.stdout
