from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scripts import CLAUDE, CODEX, GUARD, GUARDED, PI, SCRIPTS, SEEING
from client_programs import REAL_TENSORS, python_of
from composed_agents import write_composed_agents
from scripted_images import write_scripted_with_images
from scripted_model import GRAPH, write_scripted_model
from server_process import ServerProcess, free_port
from three_kinds import write_three_kinds

GUARD_GRAPH = GRAPH.replace("reasoning: qwen3, tools: hermes", "guard: llama_guard")
GLINER = Path(__file__).parents[1] / "fixtures/recorded/gliner/span"
REAL_MODELS = {
    "silero_vad": "silero_vad/data/silero_vad.onnx",
    **{
        f"ocr/{part}": f"rapidocr_onnxruntime/models/ch_{name}_infer.onnx"
        for part, name in (("det", "PP-OCRv4_det"), ("cls", "ppocr_mobile_v2.0_cls"), ("rec", "PP-OCRv4_rec"))
    },
}
"""Name → file in the packages of the environment of real tensor models."""


@pytest.fixture(scope="package")
def demo(demo: ServerProcess) -> str:
    """The address of the server with the shipped models."""
    return demo.url


@pytest.fixture(scope="package")
def speech(small: ServerProcess) -> str:
    """The address of the server with small random models that hear and speak."""
    return small.url


@pytest.fixture(scope="package")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a small random T5, `flan-t5`."""
    from tiny_text_models import save_tiny, tiny_text_model

    folder = tmp_path_factory.mktemp("translator")
    _export(save_tiny(tiny_text_model("t5"), folder / "t5"), "flan-t5", folder / "models")
    with ServerProcess(folder / "models") as running:
        running.all_ready()
        yield running.url


def _export(source: Path, name: str, models: Path) -> None:
    from click.testing import CliRunner

    from tools.export.__main__ import main

    options = ["--name", name, "--models", str(models), "--weights", "fp32", "--no-first-run"]
    done = CliRunner().invoke(main, [str(source), *options])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="package")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a small random model that sees, `llava`."""
    from pipelines.repository.new_graph import new_graph

    models = _llava(tmp_path_factory.mktemp("vision")).parent
    shutil.rmtree(models / "source")
    (models / "llava" / "graph.yaml").write_text(new_graph(models / "llava"))
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


def _llava(folder: Path) -> Path:
    """A small random vision model, as optimum exports it."""
    pytest.importorskip("optimum.exporters.openvino", reason="needs the extra optimum")
    from tiny_llava import write_llava

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch and transformers
        return write_llava(folder)[1]


@pytest.fixture(scope="package")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose models say what the sessions of coding agents need."""
    folder = tmp_path_factory.mktemp("agents")
    models = folder / "models"
    for name in ("gpt-5.5", "agent"):
        write_scripted_model(models / name, CODEX, max_context=131072)
    for name, script in {"pi": PI, **SCRIPTS}.items():
        write_scripted_model(models / name, script, max_context=131072)
    write_scripted_model(models / "claude", CLAUDE, max_context=131072, strict=True)
    write_scripted_model(models / "claude-short", CLAUDE, max_context=72000, strict=True)
    write_scripted_with_images(models / "seeing", _llava(folder), SEEING, max_context=131072)
    write_composed_agents(models)
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


@pytest.fixture(scope="package")
def guards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a guard model of Llama Guard's form, `guard`, and a chat model, `said`."""
    models = tmp_path_factory.mktemp("guards") / "models"
    write_scripted_model(models / "guard", GUARD, graph=GUARD_GRAPH)
    write_scripted_model(models / "said", GUARDED)
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


@pytest.fixture(scope="package")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a model of dense, sparse and token vectors, `three`."""
    models = tmp_path_factory.mktemp("vectors") / "models"
    write_three_kinds(models / "three")
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


@pytest.fixture(scope="package")
def entities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a small random GLiNER model."""
    models = tmp_path_factory.mktemp("entities") / "models"
    shutil.copytree(GLINER, models / "span")
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


@pytest.fixture(scope="package")
def tensors(small: ServerProcess) -> str:
    """The addresses, HTTP and gRPC, of the server with small tensor models."""
    return f"{small.url} {small.grpc}"  # type: ignore[attr-defined]


@pytest.fixture(scope="package")
def real_tensors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of a server with the models of packages that people install."""
    models = tmp_path_factory.mktemp("real_tensors") / "models"
    (packages,) = python_of(REAL_TENSORS).parents[1].glob("lib/python*/site-packages")
    for name, file in REAL_MODELS.items():
        (models / name).mkdir(parents=True)
        shutil.copy(packages / file, models / name / "model.onnx")
    port = free_port()
    with ServerProcess(models, GRPC_PORT=str(port)) as running:
        running.all_ready()
        yield f"{running.url} 127.0.0.1:{port}"


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
