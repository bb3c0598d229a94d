from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest


def tiny_export(name: str) -> Any:
    """A fixture: a tiny model of a family, (Hugging Face's folder, that of its export by optimum-intel)."""

    @pytest.fixture(scope="session", name=name)
    def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        pytest.importorskip("optimum.exporters.openvino", reason="needs the extra optimum")
        module = importlib.import_module(f"tiny_{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(module, f"write_{name}")(tmp_path_factory.mktemp(name))

    return exported


llava, gemma3, idefics3, smolvlm, internvl, voxtral = map(
    tiny_export, ("llava", "gemma3", "idefics3", "smolvlm", "internvl", "voxtral")
)
