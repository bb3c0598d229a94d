"""The systems: Braid and its peers, each started in its own processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tools.lab.bench.base.environments import Recipe, environment
from tools.lab.bench.base.systems import ROOT, Piped, Served, SystemFailed, free_port, without_settings
from tools.lab.bench.peers.table import PEERS
from tools.lab.bench.pooling.systems import SENTENCE_TRANSFORMERS
from tools.lab.bench.speech.forms import SpeechForms
from tools.lab.bench.speech.load import Load, Timings, run_server

BRAID, MODEL = "braid", "whisper"
PREFIX = "tools.lab.bench.speech.peers"
FASTER_WHISPER = Recipe(("faster-whisper==1.2.1", "numpy==2.4.6"))


class SpeechLibrary(Piped):
    """A library on pipes (`child.py`)."""

    def __init__(self, python: Path, module: str, model: Path, weights: str, log: Path) -> None:
        program = ["-m", "tools.lab.bench.speech.child", f"{PREFIX}.{module}"]
        command = [str(python), *program, str(model), weights]
        super().__init__(command, log)

    def take(self, load: Load) -> Timings:
        """Raises SystemFailed."""
        return Timings(*self.ask(json.dumps(asdict(load)))["timings"])


class SpeechServer(Served):
    """A server with one model and POST /v1/audio/transcriptions."""

    def __init__(self, command: Sequence[str], settings: dict[str, str], port: int, log: Path) -> None:
        super().__init__(command, without_settings() | settings, port, MODEL, log)

    def take(self, load: Load) -> Timings:
        """Raises SystemFailed."""
        try:
            return run_server(load, self.port, MODEL)
        except Exception as error:  # whatever goes wrong between two programs
            raise SystemFailed(f"{type(error).__name__}: {error}") from error


SpeechSystem = SpeechLibrary | SpeechServer
Stage = Callable[[str], None]
Start = Callable[[SpeechForms, Path, Path, Stage], SpeechSystem]
"""Forms, folder of environments, log and what hears of stages → a system that is starting."""


def braid(forms: SpeechForms, venvs: Path, log: Path, stage: Stage) -> SpeechSystem:
    port = free_port()
    settings = {"BRAID_PORT": str(port), "BRAID_MODELS": str(forms.braid), "BRAID_WORKERS": "1"}
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    return SpeechServer(command, settings, port, log)


def openvino_genai(forms: SpeechForms, venvs: Path, log: Path, stage: Stage) -> SpeechSystem:
    peer = PEERS["openvino-genai"]
    python = environment(venvs / peer.environment, peer.recipe, stage)
    try:
        model = forms.openvino_genai(python)
    except subprocess.CalledProcessError as error:
        raise SystemFailed(f"its form of the model was not made: {error.stderr[-300:]!r}") from error
    return SpeechLibrary(python, "openvino_genai", model, forms.weights, log)


def faster_whisper(forms: SpeechForms, venvs: Path, log: Path, stage: Stage) -> SpeechSystem:
    python = environment(venvs / "faster-whisper", FASTER_WHISPER, stage)
    return SpeechLibrary(python, "faster_whisper", forms.ctranslate2, forms.weights, log)


def transformers(forms: SpeechForms, venvs: Path, log: Path, stage: Stage) -> SpeechSystem:
    if forms.weights != "fp32":
        raise SystemFailed("it computes in fp32 alone")
    python = environment(venvs / "sentence-transformers", SENTENCE_TRANSFORMERS, stage)
    return SpeechLibrary(python, "transformers", forms.huggingface.resolve(), forms.weights, log)


SYSTEMS: dict[str, Start] = {
    BRAID: braid,
    "openvino-genai": openvino_genai,
    "faster-whisper": faster_whisper,
    "transformers": transformers,
}
