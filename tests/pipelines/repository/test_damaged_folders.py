"""Damaged folders beside good ones: each is `failed` with its reason, and nothing else notices."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from fake_decoder import FAKE_GRAPH
from paced_model import write_model
from patience import until
from peft_adapters import write_adapted_model, write_adapter
from voice_models import write_voice

from pipelines.host.adapters.adapter_discovery import AdapterFinder, AdapterFit
from pipelines.host.first_run.new_models import build_at_once
from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.host.models.model_terms import terms_of
from pipelines.loading.inspection import inspect
from pipelines.loading.load import BuildError
from pipelines.loading.request_lines import check_request_lines
from pipelines.repository import model_folders
from pipelines.repository.model_folders import scan
from pipelines.repository.new_graph import new_graph

SHIPPED = Path(__file__).parents[3] / "model_repo"


def _replaced(file, make):
    file.unlink()
    make(file)


DAMAGE = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "empty": lambda file: file.write_bytes(b""),
    "binary": lambda file: file.write_bytes(b"\x00\xff\xfe" * 50),
    "deep": lambda file: file.write_text("[" * 100_000),
    "folder": partial(_replaced, make=Path.mkdir),
    "fifo": partial(_replaced, make=os.mkfifo),
    "loop": partial(_replaced, make=lambda file: file.symlink_to(file)),
    "nowhere": partial(_replaced, make=lambda file: file.symlink_to("gone")),
}
OF_A_CHAT = (
    "graph.yaml",
    "chat_template.jinja",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)
READABLE = {("chat_template.jinja", "deep")}
"""A text of any kind is a template."""


def write_whole(folder: Path) -> None:
    """A model with each small file that a chat model has."""
    write_model(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))


@pytest.fixture
def models(tmp_path):
    """A repository of two good models."""
    for name in ("a-good", "z-good"):
        write_whole(tmp_path / "models" / name)
    return tmp_path / "models"


@pytest.fixture
def damaged(models):
    """One more model for each damage of each file."""
    for file in OF_A_CHAT:
        for name in DAMAGE.keys() - {each for other, each in READABLE if other == file}:
            folder = models / f"{Path(file).stem}-{name}"
            write_whole(folder)
            DAMAGE[name](folder / file)
    return models


def served(models):
    """The models of a host in this process, once it has settled, as it tells its workers."""

    async def scene():
        client = InProcessClient(ModelSource(models, scan, build_at_once))
        await client.start()
        try:
            await until(lambda: client.status is not None and client.status.state == "ready")
            return client.status.models
        finally:
            await client.close()

    return asyncio.run(scene())


def test_each_damaged_folder_fails_alone(damaged):
    checked = {each.name for each in inspect(damaged) if not each.problems}
    statuses = served(damaged)
    ready = {each.name for each in statuses if each.state == "ready"}
    assert checked == ready == {"a-good", "z-good"}
    assert all(each.state == "failed" and each.problems for each in statuses if each.name not in ready)
    assert len(statuses) == 2 + len(OF_A_CHAT) * len(DAMAGE) - len(READABLE)


ODD_ENTRIES = {
    "a link that leads nowhere": lambda path: path.symlink_to("gone"),
    "a link to itself": lambda path: path.symlink_to(path),
    "settings without end": lambda path: _export(path, "[" * 100_000),
    "settings of another kind": lambda path: _export(path, '{"architectures": [[]], "model_type": []}'),
    "a folder in the place of its tokenizer": lambda path: _without_tokenizer(path),
}
IGNORED_ENTRIES = {
    "a FIFO": os.mkfifo,
    "a file": lambda path: path.write_text("notes"),
    "an empty folder": Path.mkdir,
}


def _export(folder, config):
    folder.mkdir()
    for name in ("openvino_model.xml", "tokenizer.json"):
        (folder / name).touch()
    (folder / "config.json").write_text(config)


def _without_tokenizer(folder):
    _export(folder, '{"architectures": ["LlamaForCausalLM"]}')
    DAMAGE["folder"](folder / "tokenizer.json")


def test_an_entry_that_cannot_be_looked_into_fails_alone(models):
    for name, make in ODD_ENTRIES.items():
        make(models / name)
    found = {each.name: each.state for each in served(models)}
    assert found == {"a-good": "ready", "z-good": "ready"} | dict.fromkeys(ODD_ENTRIES, "failed")
    assert {each.name for each in inspect(models) if not each.problems} == {"a-good", "z-good"}


@pytest.mark.parametrize("name", IGNORED_ENTRIES)
def test_an_entry_that_is_no_model_troubles_nobody(models, name):
    IGNORED_ENTRIES[name](models / "odd")
    assert [each.name for each in scan(models)] == ["a-good", "z-good"]


def test_a_number_of_more_than_64_bits_is_no_version(models):
    """The host's statuses have no place for it."""
    write_whole(models / "odd" / ("9" * 30))
    assert [(each.version, each.state) for each in served(models)] == 3 * [(1, "ready")]


def test_a_folder_that_the_system_does_not_open_fails_alone(models, monkeypatch):
    """As one of another user; tests may run as root, who opens everything."""
    find, forbidden = model_folders.find_model, models / "a-good"

    def refusing(folder):
        if folder == forbidden:
            raise PermissionError(13, "Permission denied", str(folder))
        return find(folder)

    monkeypatch.setattr(model_folders, "find_model", refusing)
    bad, good = inspect(models)
    assert "Permission denied" in bad.problems[0]
    assert good.problems == ()


def test_names_that_are_no_text_trouble_nobody(models):
    """The names of files are bytes; a model's folder and a file in one may have any."""
    shutil.copytree(models / "a-good", Path(os.fsdecode(os.fsencode(models) + b"/b\xff")))
    Path(os.fsdecode(os.fsencode(models) + b"/a-good/x\xff.txt")).touch()
    found = {each.name: each.state for each in served(models)}
    assert found == {"a-good": "ready", "b\\xff": "failed", "z-good": "ready"}


def test_a_damaged_adapter_troubles_neither_its_model_nor_other_adapters(tmp_path):
    """One whose settings are no file is no adapter; one whose weights are none cannot be used."""
    base = write_adapted_model(tmp_path / "models" / "base", "good")
    for name, damage in DAMAGE.items():
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            damage(write_adapter(base / "adapters" / f"{name} {file}") / file)
    (folder,) = scan(tmp_path / "models")
    fit = AdapterFit({}, 8)
    (finding,) = AdapterFinder().look([folder], {"base": fit})
    no_files = {f"{name} adapter_config.json" for name in ("folder", "fifo", "loop", "nowhere")}
    assert len(finding.found) == 1 + 2 * len(DAMAGE) - len(no_files)
    assert all(adapter.problem for adapter in finding.found if adapter.name != "good")
    assert inspect(tmp_path / "models")[0].problems == ()
    assert [model_view.state for model_view in served(tmp_path / "models")] == ["ready"]


NUMBERS = (".inf", "-.inf", ".nan", "1e308", "-1e308", "1" + "0" * 39, "-1", "0", "[]", "{}", "true", "word")


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("setting", ["memory_gb: 0.01", "max_sequences: 64", "max_step_tokens: 256"])
def test_a_number_that_means_nothing_is_a_problem_of_its_line(tmp_path, setting, value):
    name = setting.partition(":")[0]
    write_whole(tmp_path / "model")
    text = FAKE_GRAPH.replace(setting, f"{name}: {value}")
    (tmp_path / "model" / "graph.yaml").write_text(text)
    (folder,) = scan(tmp_path)
    terms_of(folder)
    (finding,) = inspect(tmp_path)
    assert any(name in problem for problem in finding.problems) or (name, value) == ("memory_gb", "true")


@pytest.mark.parametrize("value", NUMBERS)
def test_a_keep_alive_of_any_kind_is_read(tmp_path, value):
    write_whole(tmp_path / "model")
    (tmp_path / "model" / "graph.yaml").write_text(f"keep_alive: {value}\n{FAKE_GRAPH}")
    (folder,) = scan(tmp_path)
    assert terms_of(folder).num_bytes > 0


def test_capitals_in_the_name_of_a_gguf_file(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "FILE.GGUF").write_bytes(b"no model")
    assert [each.name for each in scan(tmp_path / "models")] == ["FILE"]
    (finding,) = inspect(tmp_path / "models" / "FILE.GGUF")
    assert finding.problems


def test_one_model_beside_a_damaged_one_is_checked(models):
    _export(models / "odd", "[" * 100_000)
    assert inspect(models / "a-good")[0].problems == ()


def _small_files(folder):
    found = [path for path in folder.rglob("*") if path.suffix in {".json", ".jinja", ".yaml", ".txt"}]
    return sorted(path.relative_to(folder) for path in found if "adapters" not in path.parts)


def _voice(folder):
    write_voice(folder)
    (folder / "graph.yaml").write_text(new_graph(folder))


@pytest.mark.breadth
@pytest.mark.parametrize("name", ["demo", "embed", "rerank", "sentiment", "topics", "voice"])
def test_no_damage_of_a_folder_is_more_than_a_problem(tmp_path, name):
    """What may be wrong with a file that nobody reads is not asked; a file that is none always is."""
    source = tmp_path / "source"
    _voice(source) if name == "voice" else shutil.copytree(SHIPPED / f"braid-{name}", source)
    for file in _small_files(source):
        for kind, damage in DAMAGE.items():
            folder = tmp_path / "models" / "damaged"
            shutil.copytree(source, folder)
            damage(folder / file)
            (finding,) = inspect(tmp_path / "models")
            is_checked = not finding.problems
            assert not (is_checked and kind in ("folder", "fifo", "loop", "nowhere")), (file, kind)
            assert all("Traceback" not in problem for problem in finding.problems)
            assert is_checked or _is_refused(tmp_path / "models"), (file, kind, finding.problems)
            shutil.rmtree(folder)


def _is_refused(models):
    (folder,) = scan(models)
    try:
        check_request_lines(folder.opened())
    except (BuildError, ValueError):
        return True
    return False


def test_a_model_that_a_graph_names_and_that_fails_is_its_problem(models):
    (models / "named").mkdir()
    (models / "named" / "graph.yaml").write_text(
        "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: a-good, from: request}\n"
    )
    DAMAGE["cut"](models / "a-good" / "tokenizer.json")
    assert {model_view.name: model_view.state for model_view in served(models)} == {
        "a-good": "failed",
        "named": "ready",
        "z-good": "ready",
    }
