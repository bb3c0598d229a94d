"""Systems in processes of their own, environments and the run over them, without a peer."""

import os
import sys
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tools.lab.bench.base.environments import NotInstalled, Recipe, _run, environment
from tools.lab.bench.base.load import Load, Request, Settings
from tools.lab.bench.base.systems import Child, Served, SystemFailed, free_port
from tools.lab.bench.entries import Entries, Entry
from tools.lab.bench.measuring import Measuring
from tools.lab.bench.model import Model, NotMade
from tools.lab.bench.peers.table import PEERS
from tools.lab.bench.workloads import Workload

FIXTURES = str(Path(__file__).parents[3] / "fixtures")
EVERYTHING = frozenset({"batched", "sampled", "constrained"})


@pytest.fixture
def child(tmp_path, monkeypatch):
    """`child(module)` → a system that runs `module` of the fixtures."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([FIXTURES, os.environ.get("PYTHONPATH", "")]))
    started = []

    def start(module):
        system = Child(Path(sys.executable), module, tmp_path, Settings(), tmp_path / f"{len(started)}.log")
        started.append(system)
        return system

    yield start
    for process in started:
        process.stop()


def test_a_child_answers_loads_and_keeps_what_its_engine_prints_apart(child, tmp_path):
    system = child("bench_engine")
    system.wait_until_ready()
    load = Load(2, [Request([1], 3), Request([2], 2, after=0), Request([3], 4, at_s=0.05)])
    timings = system.run(load)
    assert [len(times) for times in timings.token_s] == [3, 2, 4]
    assert timings.sent_s[2] >= 0.05
    assert timings.processor_s > timings.decoding_s >= 0
    assert "own words" in (tmp_path / "0.log").read_text()


def test_a_load_that_an_engine_refuses_leaves_it_alive(child):
    system = child("bench_engine")
    system.wait_until_ready()
    with pytest.raises(SystemFailed, match="no schemas here"):
        system.run(Load(1, [Request([1], 1)], schema={}))
    assert system.run(Load(1, [Request([1], 1)])).token_s


def test_a_child_that_does_not_start_says_why(child):
    with pytest.raises(SystemFailed, match="no_such_engine"):
        child("no_such_engine").wait_until_ready()


def test_a_server_that_does_not_start_says_why(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('no model here')"]
    server = Served(command, dict(os.environ), free_port(), "m", tmp_path / "log")
    with pytest.raises(SystemFailed, match="no model here"):
        server.wait_until_ready()


def entries(**systems):
    for one in systems.values():
        one.wait_until_ready()
    return Entries({name: Entry(one, EVERYTHING, "int8", 1000) for name, one in systems.items()})


def test_systems_take_turns_and_get_a_row_each(child):
    notes = []
    field = entries(braid=child("bench_engine"), peer=child("bench_engine"))
    rows = Measuring(field, 2048, notes.append).run({"plain": Workload(4, 4, output_tokens=8)}, rounds=2)
    assert [row["system"] for row in rows] == ["braid", "peer"]
    assert rows[1]["tokens_ratio"] > 0
    turns = [note for note in notes if "round" in note]
    assert [turn.split(", ")[2].partition(":")[0] for turn in turns] == ["braid", "peer", "braid", "peer"]


def test_features_are_compared_within_their_rounds(child):
    field = entries(braid=child("bench_engine"), lookup=child("bench_engine"))
    measuring = Measuring(field, 2048, lambda text: None, "braid", [("lookup", "braid")])
    measuring.run({"plain": Workload(4, 4, output_tokens=8)}, rounds=2)
    (row,) = measuring.compared
    assert (row["system"], row["against"], row["tokens_ratio"] > 0) == ("lookup", "braid", True)


def test_a_system_that_cannot_do_a_workload_has_no_row_there(child):
    systems = entries(braid=child("bench_engine"))
    workloads = {"constrained": Workload(1, 1, schema={"type": "array"}), "plain": Workload(1, 1)}
    rows = Measuring(systems, 2048, lambda text: None).run(workloads, rounds=1)
    assert [row["workload"] for row in rows] == ["plain"]
    assert "no schemas here" in systems.left_out["braid, constrained"]


def test_a_system_that_dies_is_left_out_of_the_rest(child):
    systems = entries(braid=child("bench_engine"), peer=child("bench_engine"))
    measuring = Measuring(systems, 2048, lambda text: None)
    systems.started["peer"].system.process.kill()
    systems.started["peer"].system.process.wait()
    rows = measuring.run({"plain": Workload(1, 1)}, rounds=1)
    assert [row["system"] for row in rows] == ["braid"]
    assert "peer" in systems.left_out


@pytest.fixture
def borrowed_pip(tmp_path, monkeypatch):
    """Environments use the pip that is there: to install one in each takes as long as all else."""
    installed = Path(distribution("pip").locate_file(""))
    (tmp_path / "installed").mkdir()
    for path in installed.glob("pip*"):
        (tmp_path / "installed" / path.name).symlink_to(path)

    def run(*command):
        more = ("--without-pip",) if "venv" in command else ()
        return _run("env", f"PYTHONPATH={tmp_path / 'installed'}", *command, *more)

    monkeypatch.setattr("tools.lab.bench.base.environments._run", run)


def test_what_cannot_be_installed_is_remembered_with_its_reason(tmp_path, borrowed_pip, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    recipe = Recipe(("braid-has-no-such-peer==1",))
    stages = []
    for _ in range(2):
        with pytest.raises(NotInstalled, match="braid-has-no-such-peer"):
            environment(tmp_path / "peer", recipe, stages.append)
    assert stages == ["installing peer"]


def test_an_environment_is_made_once_and_again_for_another_recipe(tmp_path, borrowed_pip, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    stages = []
    for recipe in (Recipe(("pip",)), Recipe(("pip",)), Recipe(("pip", "pip"))):
        assert environment(tmp_path / "peer", recipe, stages.append).exists()
    assert stages == ["installing peer"] * 2


@pytest.mark.breadth
def test_the_demo_model_is_written_as_transformers_saves_it(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = Model(tmp_path, "braid-demo", lambda text: None)
    folder = model.huggingface()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    asked = tokenizer("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n")
    ids = torch.tensor([asked["input_ids"]])
    generated = loaded.generate(ids, max_new_tokens=20, do_sample=False, temperature=None)
    assert "Paris" in tokenizer.decode(generated[0])


def test_a_model_that_a_peer_cannot_convert_is_left_out_with_its_last_words(tmp_path):
    (tmp_path / "huggingface").mkdir()
    peer = replace(PEERS["llama-cpp-python"], convert=("no_such_converter",))
    with pytest.raises(NotMade, match="no_such_converter"):
        Model(tmp_path, "tiny", lambda text: None).of(peer, Path(sys.executable))
