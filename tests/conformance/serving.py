"""Starts Braid with exports of the checkpoints of the recordings, with the settings of the recorded server."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server_process import ServerProcess
from settings import Setting

MODELS = Path(__file__).parent / "models"
READ_BY_ALL = "tiny-qwen3"
"""The checkpoint whose folder has the tokenizer of all of them."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

ENGINES = {
    "openvino": ("path: model/openvino_model.xml, engine: openvino, precision: f32", ", kv_cache: f32"),
    "onnxruntime": ("path: model/model.onnx, engine: onnxruntime", ""),
}
"""Engine → the settings of the model's line that make it exact, and those of a decoder besides."""
ALIAS = "version: 1\ntask: chat\nnodes:\n  reply: {{type: graph, graph: {name}, from: request}}\n"


def export(engine: str, setting: Setting, folder: Path) -> Path:
    """The checkpoint in float32, in the form that `engine` runs exactly."""
    source = shutil.copytree(MODELS / setting.checkpoint, folder.parent / "checkpoint")
    for name in TOKENIZER:
        shutil.copyfile(MODELS / READ_BY_ALL / name, source / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch and transformers
        from tools.export.base.options import Options
        from tools.export.choose_export import choose

        form = "onnx" if engine == "onnxruntime" else "openvino"
        choose(str(source), Options(setting.task, form, "fp32"))(folder, lambda stage: None)
    return folder


def write_repository(models: Path, exported: Path, engine: str, setting: Setting) -> Path:
    """A model repository with the checkpoint and, where it has one, its second name."""
    shutil.copytree(exported, models / setting.name / "model")
    exact, of_decoders = ENGINES[engine]
    graph = setting.graph.format(model=exact + (of_decoders if setting.task == "text" else ""))
    (models / setting.name / "graph.yaml").write_text(graph)
    if setting.alias is not None:
        (models / setting.alias).mkdir()
        (models / setting.alias / "graph.yaml").write_text(ALIAS.format(name=setting.name))
    return models


@contextmanager
def serving(models: Path, setting: Setting) -> Iterator[ServerProcess]:
    """A server over a repository, ready."""
    loads = str(int(setting.loads_adapters))
    with ServerProcess(models, API_KEYS=setting.keys, ALLOW_RUNTIME_LORA_UPDATING=loads) as server:
        server.all_ready()
        yield server
