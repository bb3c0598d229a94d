"""llama.cpp's own server, as the package xllamacpp holds it: requests are batched as they come.

`python -m tools.lab.bench.peers.llama_server FILE PORT SLOTS STEP_TOKENS THREADS EXACT` runs in an
environment of its own.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tools.lab.bench.base.load import Settings
from tools.lab.bench.base.systems import Served, free_port, without_settings

SLOTS, CACHE_TOKENS = 16, 8192
"""Sequences in a step, and tokens of all of them in the cache."""
NAME = "model"


def llama_server(python: Path, folder: Path, settings: Settings, log: Path, exact: bool = False) -> Served:
    """`exact`: with a cache in float32."""
    port = free_port()
    numbers = (port, SLOTS, settings.max_step_tokens, settings.threads, int(exact))
    module = ("-m", "tools.lab.bench.peers.llama_server")
    command = [str(python), *module, str(folder / "model.gguf"), *map(str, numbers)]
    return Served(command, without_settings(), port, NAME, log)


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.port, params.n_parallel, params.n_batch, threads, exact = map(int, sys.argv[2:])
    params.n_ctx, params.kv_unified = CACHE_TOKENS, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    if exact:
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
