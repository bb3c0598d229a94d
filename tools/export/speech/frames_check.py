"""Compares the frames of an exported encoder with those of transformers, where that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tools.export.base.folder import ExportError, quiet
from tools.export.speech.ctranslate2_file import Arrays

PREFIX = "model.encoder."
TOLERANCES = {"fp32": 1e-3, "int8": 0.2}
"""Weights → the root mean square of the difference, over that of the frames."""


def check_encoder_states(file: Path, weights: Arrays, config: dict[str, Any], form: str) -> None:
    """Raise `ExportError` where the frames of random features differ by more than the tolerance."""
    import onnxruntime as ort

    shape = 1, int(config["num_mel_bins"]), 2 * int(config["max_source_positions"])
    features = np.random.default_rng(0).uniform(-1, 1.5, shape).astype(np.float32)
    with quiet():
        wanted = _frames_of_transformers(weights, config, features)
    session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    (computed,) = session.run(None, {"input_features": features})
    distance = float(np.sqrt(np.mean((computed - wanted) ** 2) / np.mean(wanted**2)))
    if not distance <= TOLERANCES[form]:
        raise ExportError(
            f"the frames of the {form} encoder differ from those of transformers by {distance:.2g} of their "
            f"size; {TOLERANCES[form]} is allowed"
        )


def _frames_of_transformers(weights: Arrays, config: dict[str, Any], features: np.ndarray) -> np.ndarray:
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    encoder = WhisperEncoder(WhisperConfig(**config)).eval()
    own = {name: value for name, value in weights.items() if name.startswith(PREFIX)}
    encoder.load_state_dict(
        {
            name.removeprefix(PREFIX): torch.tensor(np.asarray(array, np.float32))
            for name, array in own.items()
        }
    )
    with torch.no_grad():
        frames: np.ndarray = encoder(torch.tensor(features)).last_hidden_state.numpy()
    return frames
