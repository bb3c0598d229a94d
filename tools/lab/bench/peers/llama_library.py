"""llama.cpp by its shared library, all sequences in one batch, for `tools/lab/bench/child.py`.

The library is that of a package of prebuilt ones, as the npm package @node-llama-cpp/linux-x64: the folder
that LLAMA_LIBRARY names holds libllama and the libraries of processors, of which llama.cpp chooses one.
Structures are those of llama.cpp 0.5.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np

from tools.lab.bench.base.load import Load, Request, Settings


class ModelParams(ctypes.Structure):
    _fields_ = (("rest", ctypes.c_char * 80),)


class ContextParams(ctypes.Structure):
    _fields_ = (
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("n_seq_max", ctypes.c_uint32),
        ("n_rs_seq", ctypes.c_uint32),
        ("n_outputs_max", ctypes.c_uint32),
        ("n_outputs_max_per_seq", ctypes.c_uint32),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        ("rest", ctypes.c_char * 124),
    )


class Batch(ctypes.Structure):
    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


POINTER = ctypes.c_void_p
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (POINTER, [ctypes.c_char_p, ModelParams]),
    "llama_init_from_model": (POINTER, [POINTER, ContextParams]),
    "llama_model_get_vocab": (POINTER, [POINTER]),
    "llama_vocab_n_tokens": (ctypes.c_int32, [POINTER]),
    "llama_get_memory": (POINTER, [POINTER]),
    "llama_memory_seq_rm": (ctypes.c_bool, [POINTER, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]),
    "llama_batch_init": (Batch, [ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]),
    "llama_decode": (ctypes.c_int32, [POINTER, Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [POINTER, ctypes.c_int32]),
}
"""Name → what it returns, and its arguments."""


def library(folder: Path) -> Any:
    """libllama with its processor's part loaded."""
    for stem in ("libggml-base", "libggml.", "libllama."):
        (file,) = folder.glob(f"{stem}*so*")
        loaded = ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
        if stem == "libggml.":
            loaded.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
            loaded.ggml_backend_load_all_from_path(str(folder).encode())
    for name, (returned, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = returned, arguments
    return loaded


class Sequence:
    """A request: tokens that are to be computed, and where they begin."""

    def __init__(self, number: int, request: Request) -> None:
        self.number, self.left, self.past = number, request.output_tokens, 0
        self.pending = list(request.prompt)


class Engine:
    """Prompts in chunks of a step, together with sequences that decode."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._llama = library(Path(os.environ["LLAMA_LIBRARY"]))
        model = self._llama.llama_model_load_from_file(
            str(path).encode(), self._llama.llama_model_default_params()
        )
        params = self._llama.llama_context_default_params()
        params.n_ctx, params.n_seq_max = settings.max_context * settings.max_sequences, settings.max_sequences
        params.n_batch = params.n_ubatch = settings.max_step_tokens
        params.n_threads = params.n_threads_batch = settings.threads
        self._context = self._llama.llama_init_from_model(model, params)
        self._size = self._llama.llama_vocab_n_tokens(self._llama.llama_model_get_vocab(model))
        self._memory = self._llama.llama_get_memory(self._context)
        self._batch = self._llama.llama_batch_init(settings.max_step_tokens, 0, 1)
        self._most = settings.max_step_tokens
        self._free = list(range(settings.max_sequences))
        self._running: dict[int, Sequence] = {}

    def submit(self, number: int, request: Request, load: Load) -> None:
        self._running[self._free.pop()] = Sequence(number, request)

    def turn(self) -> list[tuple[int, int]]:
        ends = self._fill()
        if self._llama.llama_decode(self._context, self._batch):
            raise RuntimeError("llama_decode failed")
        return [self._chosen(seat, place) for place, seat in ends]

    def _fill(self) -> list[tuple[int, int]]:
        """Put the pending tokens into the batch; returns the places of last tokens, with their sequences."""
        batch, ends, count = self._batch, [], 0
        for seat, sequence in self._running.items():
            taken = sequence.pending[: self._most - count]
            for token in taken:
                batch.token[count], batch.pos[count] = token, sequence.past
                batch.n_seq_id[count], batch.seq_id[count][0], batch.logits[count] = 1, seat, 0
                sequence.past += 1
                count += 1
            del sequence.pending[: len(taken)]
            if taken and not sequence.pending:
                batch.logits[count - 1] = 1
                ends.append((count - 1, seat))
        batch.n_tokens = count
        return ends

    def _chosen(self, seat: int, place: int) -> tuple[int, int]:
        """The likeliest next token of a sequence is pending, or it ends."""
        sequence = self._running[seat]
        logits = self._llama.llama_get_logits_ith(self._context, place)
        sequence.pending = [int(np.ctypeslib.as_array(logits, (self._size,)).argmax())]
        sequence.left -= 1
        if not sequence.left:
            del self._running[seat]
            self._free.append(seat)
            self._llama.llama_memory_seq_rm(self._memory, seat, -1, -1)
        return sequence.number, 1
