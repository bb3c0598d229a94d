"""Exports of tiny decoders, made once per run."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """`exported(family)` → (Hugging Face folder, folder with openvino_model.xml in float32)."""
    if not HAS_EXPORT:
        pytest.skip("needs the export extra")
    root, made = tmp_path_factory.mktemp("decoders"), {}

    def make(family: str) -> tuple[Path, Path]:
        if family not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch and transformers warn of themselves while tracing
                made[family] = _export(family, root)
        return made[family]

    return make


def _export(family: str, root: Path) -> tuple[Path, Path]:
    from tiny_decoders import write_decoder

    from tools.export.decoder import export_decoder

    source, folder = root / family, root / f"{family}-openvino"
    write_decoder(family, source)
    export_decoder(str(source), folder, "fp32", lambda stage: None)
    return source, folder
