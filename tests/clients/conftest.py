from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import ServerProcess

MODEL_REPO = Path(__file__).resolve().parents[2] / "model_repo"


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the shipped model."""
    models = tmp_path_factory.mktemp("clients") / "models"  # the log is written next to it
    models.symlink_to(MODEL_REPO)
    with ServerProcess(models, WORKERS="2") as running:
        running.ready(model="braid-demo")
        yield running.url


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-client", action="store_true", help="run the programs of `make clients`, and show a table"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--every-client", default=False):
        return
    terminalreporter.section("programs of other projects' clients: cases")
    terminalreporter.line(f"{'program':28} {'version':10} {'passed':>7} {'failed':>7} {'seconds':>8}")
    for group in terminalreporter.stats.values():
        for report in group:
            for name, row in getattr(report, "user_properties", ()):
                if name == "client" and report.when == "call":
                    program, version, passed, failed, seconds = row
                    terminalreporter.line(f"{program:28} {version:10} {passed:7} {failed:7} {seconds:8.1f}")
