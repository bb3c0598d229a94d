"""Fixtures for all tests, and hooks that run the suite in several processes."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx._config
import pytest
import server_logs
from closed_clients import close_clients
from compiled_kernels import compiled_kernels
from fake_decoder import byte_tokenizer
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from patience import PATIENCE_S
from suite_schedule import make_scheduler, sort_items
from suite_times import write_table
from tokenizers import Tokenizer
from torch_operators import list_once

if TYPE_CHECKING:
    from server_process import ServerProcess

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
NO_KERNELS = {"BRAID_KERNELS": "off"}
"""What the user's cache holds changes no test; `kernel_folder` has kernels for those that want them."""
AT_ONCE = {"BRAID_FIRST_RUN": "0"}
"""Models load, and end their export, without a process of their own."""
NO_CERTIFICATES = {"SSL_CERT_FILE": "", "SSL_CERT_DIR": str(Path(__file__).parent / "fixtures")}
"""A folder without certificates: no test speaks TLS, and every HTTP client reads the machine's for 40 ms."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # the shell that started this run in the background ignores Ctrl-C, and so would all programs of the tests
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "braid", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("few", settings.get_profile("braid"), max_examples=30)
"""No example fails for being slow: machines of continuous integration are, at times.  `few`: without `breadth`."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += server_logs.sections()
    return report


@pytest.fixture(autouse=True, scope="module")
def _closed_clients() -> Iterator[None]:
    yield
    close_clients()


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    byte_tokenizer().save(str(path))
    return path


@pytest.fixture(scope="session")
def kernel_folder() -> Path:
    """A folder with the CPU kernels of this checkout, compiled for the engines that are installed.

    It is shared by all processes of the run, and by later runs until a source changes.  Tests that want kernels
    set BRAID_KERNELS to it.
    """
    return compiled_kernels()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the shipped models, shared by all tests that do not stop it.

    Links to them lie in `models`, where a file of tests may add others for its time.
    """
    from server_process import ServerProcess

    models = tmp_path_factory.mktemp("demo") / "models"
    models.mkdir()
    for shipped in (Path(__file__).parents[1] / "model_repo").iterdir():
        (models / shipped.name).symlink_to(shipped)
    with ServerProcess(models, WORKERS="2") as running:
        running.models = models  # type: ignore[attr-defined]
        running.all_ready()
        yield running


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the models of `small_models`, gRPC at `grpc`; models lie in `models`."""
    from server_process import ServerProcess, free_port
    from small_models import write_small_models

    folder, port = tmp_path_factory.mktemp("small"), free_port()
    settings = write_small_models(folder)
    with ServerProcess(folder / "models", GRPC_PORT=str(port), **settings) as running:
        running.models, running.grpc = folder / "models", f"127.0.0.1:{port}"  # type: ignore[attr-defined]
        running.all_ready()
        yield running


def pytest_sessionstart() -> None:
    """No test fails for the end of a thread that took too long, where a callback of the garbage collector has
    swallowed it: it is raised again.
    """
    from pipelines.base.bounded_thread import _Stop

    report = sys.unraisablehook
    sys.unraisablehook = lambda ignored: None if ignored.exc_type is _Stop else report(ignored)


def pytest_configure(config: pytest.Config) -> None:
    """The environment of each process of the run, and of those that it starts.

    One thread for each, since the models of tests are tiny; what Python compiles is kept for the next process.
    A request that names no timeout waits longer than httpx's 5 seconds, which a busy machine can take.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in THREADS:
        os.environ.setdefault(name, "1")
    os.environ.update(NO_CERTIFICATES | AT_ONCE | NO_KERNELS)
    for name in ("connect", "read", "write", "pool"):
        setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, name, PATIENCE_S)
    set_examples(few="not breadth" in config.option.markexpr)


def set_examples(few: bool) -> None:
    """How many random cases a test has that says nothing of it, and whether hypothesis draws constants of the code.

    To find these takes each process of a run longer than it takes to collect its tests.
    """
    settings.load_profile("few" if few else "braid")
    if few:
        providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """No items are made of cases of `breadth` that the run leaves out, a third of all; the first one stands for them."""
    yield
    if "not breadth" in metafunc.config.option.markexpr:
        is_breadth = metafunc.definition.get_closest_marker("breadth") is not None
        kept = [] if is_breadth else [case for case in metafunc._calls if not _is_breadth(case.marks)]
        metafunc._calls[:] = kept or metafunc._calls[:1]


def _is_breadth(marks: Iterable[pytest.Mark]) -> bool:
    return any(mark.name == "breadth" for mark in marks)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        sort_items(items)


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no collection of garbage looks at them again.

    A host that runs in this process unfreezes all when a model leaves; to look at a million objects of torch
    and of the tests then takes a second each time.
    """
    gc.collect()
    gc.freeze()
    gc.unfreeze = lambda: None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    list_once()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return make_scheduler(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write_table(terminalreporter)
