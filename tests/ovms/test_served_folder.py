"""A folder of OpenVINO Model Server, made of the shipped models, served by `braid ovms` and asked by its clients."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from graph_texts import EMBEDDINGS, LLM, RERANK, node
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess
from tensor_models import write_ir

GRAPHS = {
    "braid-demo": node(
        LLM, 'models_path: "./"', "max_num_seqs: 8", "cache_size: 1", 'tool_parser: "hermes3"'
    ),
    "braid-embed": node(EMBEDDINGS, 'models_path: "./", pooling: MEAN # pooling: CLS'),
    "braid-rerank": node(RERANK, 'models_path: "./"'),
}
PIPE = """
input_stream: "in1" output_stream: "out"
node { calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:dummy"
  input_stream: "B:in1" output_stream: "A:out" node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "B" value: "b" }
      tag_to_output_tensor_names { key: "A" value: "a" } } } }
node { calculator: "OpenVINOModelServerSessionCalculator" output_side_packet: "SESSION:dummy" node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {
      servable_name: "dummy" } } }
"""
DUMMY = """dummy (float[1, 10] b) => (float[1, 10] a) {
  one = Constant <value = float {NUMBER}> ()
  a = Add (b, one)
}"""


class ModelServer(ServerProcess):
    """The same server, started by `braid ovms`, with `flags` or the config.json that it is made with."""

    flags: tuple[str, ...] = ()

    def __enter__(self) -> ModelServer:
        flags = [*(self.flags or ("--config_path", self._env["BRAID_MODELS"])), "--rest_port", str(self.port)]
        flags += ["--rest_bind_address", "127.0.0.1", "--rest_workers", "1"]
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "server.cli", "ovms", *flags],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={
                    name: value
                    for name, value in self._env.items()
                    if name not in ("BRAID_MODELS", "BRAID_PORT")
                },
            )
        return self

    def settled(self) -> None:
        """Wait until nothing is loading."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                if httpx.get(f"{self.url}/v2/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(self.log())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ovms") / "models"
    for name, graph in GRAPHS.items():
        export = next((ROOT / "model_repo" / name).rglob("tokenizer.json")).parent
        shutil.copytree(export, root / name)
        (root / name / "graph.pbtxt").write_text(graph)
    for version in (1, 2):
        write_ir(root / "dummy" / str(version) / "dummy.xml", DUMMY.replace("NUMBER", f"{version}.0"))
    models = [*({"name": name} for name in GRAPHS), {"name": "gone"}]
    models.append({"name": "dummy", "model_version_policy": {"all": {}}})
    (root / "pipe").mkdir()
    (root / "pipe" / "graph.pbtxt").write_text(PIPE)
    entries = [{"config": model} for model in models]
    config = {"model_config_list": entries, "mediapipe_config_list": [{"name": "pipe"}]}
    (root / "config.json").write_text(json.dumps(config))
    return root


@pytest.fixture(scope="module")
def server(folder: Path):
    with ModelServer(folder / "config.json", CACHE=str(folder.parent / "cache")) as running:
        running.settled()
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v3", api_key="unused", max_retries=0) as made:
        yield made


def loaded(client):
    return sorted(each.id for each in client.models.list() if each.status["value"] == "loaded")


def test_its_models_are_listed_and_one_that_is_gone_does_not_take_others_down(server, client):
    assert loaded(client) == [*sorted(GRAPHS), "dummy", "pipe"]
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="gone", messages=[{"role": "user", "content": "Hi"}])
    assert "/gone does not exist" in caught.value.response.text


def test_chat(client):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    reply = client.chat.completions.create(
        model="braid-demo", messages=messages, temperature=0, max_tokens=30
    )
    assert "Paris" in reply.choices[0].message.content


def test_embeddings_and_ranks(server, client):
    found = client.embeddings.create(model="braid-embed", input=["moon", "bread"], encoding_format="float")
    assert [round(sum(x * x for x in each.embedding), 3) for each in found.data] == [1, 1]
    body = {"model": "braid-rerank", "query": "How far away is the moon?",
            "documents": ["Yeast makes dough rise.", "The moon is 384,000 kilometres away."]}  # fmt: skip
    ranked = httpx.post(f"{server.url}/v3/rerank", json=body, timeout=PATIENCE_S).json()
    assert ranked["results"][0]["index"] == 1


def test_tensors_have_the_names_of_streams_and_each_version_is_asked(server):
    def infer(path, tensor):
        inputs = [{"name": tensor, "shape": [1, 10], "datatype": "FP32", "data": [0.0] * 10}]
        reply = httpx.post(
            f"{server.url}/v2/models/{path}/infer", json={"inputs": inputs}, timeout=PATIENCE_S
        ).json()
        return reply["outputs"][0]["name"], reply["outputs"][0]["data"][0]

    described = httpx.get(f"{server.url}/v2/models/pipe").json()
    assert [tensor["name"] for tensor in described["inputs"] + described["outputs"]] == ["in1", "out"]
    assert infer("pipe", "in1") == ("out", 2.0)
    assert infer("dummy", "b") == ("a", 2.0)
    assert infer("dummy/versions/1", "b") == ("a", 1.0)
    for path in ("dummy", "dummy/versions/1"):
        assert httpx.get(f"{server.url}/v2/models/{path}").json()["versions"] == ["1", "2"]


def test_a_half_written_config_file_changes_nothing_and_a_whole_one_is_taken(server, client, folder):
    file = folder / "config.json"
    whole = file.read_text()
    file.write_text(whole[:-20])
    server.process.send_signal(1)
    deadline = time.monotonic() + PATIENCE_S
    while "is not JSON" not in server.log() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(loaded(client)) == 5
    config = json.loads(whole)
    config["model_config_list"] = [
        entry for entry in config["model_config_list"] if entry["config"]["name"] != "dummy"
    ]
    file.write_text(json.dumps(config))
    server.process.send_signal(1)
    while len(loaded(client)) != 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert loaded(client) == [*sorted(GRAPHS), "pipe"]
    file.write_text(whole)


@pytest.mark.breadth
def test_one_model_by_its_flags_leaves_when_idle_comes_back_and_is_polled(tmp_path, monkeypatch):
    folder, temporary = tmp_path / "dummy", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    write_ir(folder / "1" / "dummy.xml", DUMMY.replace("NUMBER", "1.0"))
    server = ModelServer(folder)
    server.flags = (
        *("--model_name", "dummy", "--model_path", str(folder), "--nireq", "4"),
        *("--plugin_config", '{"NUM_STREAMS": "2"}'),
        *("--file_system_poll_wait_seconds", "1", "--idle_unload_timeout_seconds", "1"),
    )

    def infer() -> float:
        inputs = [{"name": "b", "shape": [1, 10], "datatype": "FP32", "data": [0.0] * 10}]
        url = f"{server.url}/v2/models/dummy/infer"
        reply = httpx.post(url, json={"inputs": inputs}, timeout=PATIENCE_S).raise_for_status().json()
        return reply["outputs"][0]["data"][0]

    def is_loaded() -> bool:
        return 'ovms_graph_loaded{name="dummy"} 1.0' in httpx.get(f"{server.url}/metrics").text

    with server as running:
        running.settled()
        assert infer() == 1.0
        running.wait_for(lambda: not is_loaded(), PATIENCE_S)
        status = httpx.get(f"{server.url}/v1/config").json()["dummy"]["model_version_status"]
        assert status[0]["state"] == "AVAILABLE"
        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(lambda _: infer(), range(16))) == {1.0}
        write_ir(tmp_path / "new" / "dummy.xml", DUMMY.replace("NUMBER", "2.0"))
        (tmp_path / "new").rename(folder / "2")
        running.wait_for(lambda: infer() == 2.0, PATIENCE_S)
        assert list(temporary.glob("braid-ovms-*"))
    assert not list(temporary.glob("braid-ovms-*"))
