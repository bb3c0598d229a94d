"""Which models have a file of prefixes, where, and what empties it."""

from __future__ import annotations

import json
import shutil

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model

from pipelines.host.models.model import build_for_host
from pipelines.host.models.prefix_files import PrefixFiles
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.prefix_file.slot_file import read_facts
from pipelines.loading.load import BuildError, Sources
from pipelines.repository.model_folders import scan
from pipelines.wire.sampling_params import SamplingParams

SYSTEM = [number % 250 for number in range(600)]
STORING = FAKE_GRAPH.replace("memory_gb: 0.01", "memory_gb: 0.01, prefix_file_gb: 0.01")
STATES = {"keeps_states": True, "can_swap": False}


@pytest.fixture
def files(tmp_path):
    return PrefixFiles.of(tmp_path / "cache", 0)


def write(tmp_path, graph: str = STORING, **fake: object):
    return write_fake_model(tmp_path / "models" / "m", graph, **fake)


def build(tmp_path, files):
    """The only model of the repository, as a host builds it."""
    (folder,) = scan(tmp_path / "models")
    return build_for_host(folder, Sources([folder]), None, files)


def ask(model, ending: list[int]) -> int:
    """The cached tokens of SYSTEM and an ending."""
    (engine,) = model.stepped.values()
    engine.submit("key", GenerationRequest([SYSTEM + ending], SamplingParams(max_tokens=2)))
    found = 0
    while engine.has_work:
        found = max([found, *(output.piece.num_cached for output in engine.step())])
    return found


def stored(tmp_path, files) -> None:
    """Have SYSTEM stored by a model that is closed then."""
    model = build(tmp_path, files)
    ask(model, [1])
    assert ask(model, [2]) == len(SYSTEM)
    model.close()


def after_restart(tmp_path, files) -> int:
    model = build(tmp_path, files)
    found = ask(model, [3])
    model.close()
    return found


def test_a_model_that_is_loaded_again_finds_its_prefixes(tmp_path, files):
    write(tmp_path)
    stored(tmp_path, files)
    assert after_restart(tmp_path, files) == len(SYSTEM)
    (path,) = (tmp_path / "cache" / "prefixes" / "0").iterdir()
    assert path.name.startswith("m-")
    assert path.stat().st_size <= 0.01 * (1 << 30)


def test_without_the_setting_there_is_no_file(tmp_path, files):
    write(tmp_path, FAKE_GRAPH)
    model = build(tmp_path, files)
    ask(model, [1])
    ask(model, [2])
    model.close()
    assert after_restart(tmp_path, files) == 0
    assert not (tmp_path / "cache").exists()


def test_the_servers_setting_is_for_graphs_that_say_nothing(tmp_path):
    files = PrefixFiles.of(tmp_path / "cache", 0.01)
    write(tmp_path, FAKE_GRAPH)
    stored(tmp_path, files)
    assert after_restart(tmp_path, files) == len(SYSTEM)
    write(tmp_path, STORING.replace("prefix_file_gb: 0.01", "prefix_file_gb: 0"))
    assert after_restart(tmp_path, files) == 0


def test_a_model_whose_files_changed_begins_anew(tmp_path, files):
    folder = write(tmp_path)
    stored(tmp_path, files)
    (folder / "fake.json").write_text(json.dumps({"vocab_size": 259, "dissent": 0.5}))
    assert after_restart(tmp_path, files) == 0


def test_engine_hosts_have_files_of_their_own(tmp_path, files):
    write(tmp_path)
    stored(tmp_path, files)
    first, second = build(tmp_path, files), build(tmp_path, PrefixFiles.of(tmp_path / "cache", 0, "1"))
    assert [ask(first, [3]), ask(second, [3])] == [len(SYSTEM), 0]
    assert ask(second, [4]) == len(SYSTEM)
    first.close()
    second.close()
    assert after_restart(tmp_path, PrefixFiles.of(tmp_path / "cache", 0, "1")) == len(SYSTEM)


def test_files_of_models_that_are_gone_are_removed(tmp_path, files):
    write(tmp_path)
    stored(tmp_path, files)
    folder = tmp_path / "cache" / "prefixes" / "0"
    (folder / "foreign").write_text("not ours")
    shutil.rmtree(tmp_path / "models" / "m")
    write_fake_model(tmp_path / "models" / "other", STORING)
    build(tmp_path, files).close()
    names = sorted(path.name.split("-")[0] for path in folder.iterdir())
    assert names == ["foreign", "other"]
    assert {read_facts(path).get("model", "") for path in folder.iterdir()} == {
        "",
        str((tmp_path / "models" / "other").resolve()),
    }


@pytest.mark.parametrize(
    ("graph", "fake", "problem"),
    [
        (STORING, STATES, "this model keeps recurrent states, which are not stored"),
        (STORING.replace("_gb: 0.01}", "_gb: 0.01, reuse_prefixes: false}"), {}, "reuse_prefixes is false"),
        (STORING.replace("file_gb: 0.01", "file_gb: 0.00001"), {}, "prefixes of 512 tokens take"),
    ],
)
def test_a_graph_that_wants_what_cannot_be_is_refused(tmp_path, files, graph, fake, problem):
    write(tmp_path, graph, **fake)
    with pytest.raises(BuildError, match=f"cache.prefix_file_gb: {problem}"):
        build(tmp_path, files)


def test_the_servers_setting_leaves_out_what_cannot_be(tmp_path, caplog):
    write(tmp_path, FAKE_GRAPH, **STATES)
    build(tmp_path, PrefixFiles.of(tmp_path / "cache", 0.01)).close()
    assert "m: no prefixes are stored: this model keeps recurrent states" in caplog.text
