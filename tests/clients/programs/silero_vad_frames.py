"""Silero's voice detector, frame by frame with its state, run by the server and by ONNX Runtime.

Arguments: the server's address.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import tritonclient.http as triton
from cases import run

RATE, FRAME, CONTEXT = 16_000, 512, 64
DATATYPES = {"float32": "FP32", "int64": "INT64"}
client = triton.InferenceServerClient(sys.argv[1].removeprefix("http://"))
(package,) = find_spec("silero_vad").submodule_search_locations
session = onnxruntime.InferenceSession(Path(package) / "data" / "silero_vad.onnx")


def served(feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    given = [
        triton.InferInput(name, list(one.shape), DATATYPES[one.dtype.name]) for name, one in feeds.items()
    ]
    for tensor, array in zip(given, feeds.values(), strict=True):
        tensor.set_data_from_numpy(array)
    reply = client.infer("silero_vad", given)
    return [reply.as_numpy(name) for name in ("output", "stateN")]


def alone(feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return session.run(["output", "stateN"], feeds)


def probabilities(infer, audio: np.ndarray) -> list[float]:
    """Of speech in each frame; a frame is read with the end of the one before."""
    state, context, found = np.zeros((2, 1, 128), np.float32), np.zeros((1, CONTEXT), np.float32), []
    for frame in audio[: len(audio) // FRAME * FRAME].reshape(-1, 1, FRAME):
        given = np.concatenate([context, frame], 1)
        probability, state = infer({"input": given, "state": state, "sr": np.array(RATE)})
        context = frame[:, -CONTEXT:]
        found.append(float(probability[0, 0]))
    return found


def voice() -> np.ndarray:
    """Two seconds: silence, then the overtones of a voice through three resonances, then silence."""
    at = np.arange(2 * RATE) / RATE
    pitch = 120 + 15 * np.sin(2 * np.pi * 3 * at)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = np.zeros_like(at)
    for overtone in range(1, 40):
        heard = sum(np.exp(-(((overtone * 120 - place) / 130) ** 2)) for place in (700, 1220, 2600))
        sound += (heard + 0.02) * np.sin(overtone * phase)
    sound *= ((at > 0.5) & (at < 1.5)) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * at))
    return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def every_frame_is_heard_as_without_the_server() -> None:
    audio = voice()
    heard = probabilities(served, audio)
    np.testing.assert_allclose(heard, probabilities(alone, audio), atol=1e-5)
    assert max(heard) > 2 * heard[5]


run([every_frame_is_heard_as_without_the_server])
