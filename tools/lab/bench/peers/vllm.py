"""vLLM on a processor, as its own command starts it."""

from __future__ import annotations

from pathlib import Path

from tools.lab.bench.base.load import Settings
from tools.lab.bench.base.systems import Served, free_port, without_settings

CACHE_GB = 3
NAME = "bench"


def vllm(python: Path, folder: Path, settings: Settings, log: Path) -> Served:
    port = free_port()
    environment = without_settings() | {
        "VLLM_CPU_KVCACHE_SPACE": str(CACHE_GB),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(settings.threads),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_AOT_COMPILE": "0",  # what it keeps, this version cannot load again
    }
    options = {
        "--host": "127.0.0.1",
        "--port": port,
        "--served-model-name": NAME,
        "--dtype": "bfloat16",
        "--max-model-len": settings.max_context,
        "--max-num-seqs": settings.max_sequences,
        "--max-num-batched-tokens": settings.max_step_tokens,
        "--generation-config": "vllm",
    }
    pairs = [str(part) for option in options.items() for part in option]
    command = [str(python.with_name("vllm")), "serve", str(folder), *pairs]
    return Served(command, environment, port, NAME, log)
