"""config.json as a repository: what it lists, what is refused, and that one servable's fault stays its own."""

import json

import pytest
from graph_texts import EMBEDDINGS, export, node

from graphs.errors import GraphError
from graphs.read import read
from pipelines.host.models.model_terms import terms_of
from pipelines.repository.model_folders import scan
from pipelines.repository.ovms import config_file
from pipelines.repository.ovms.classic_model import read_shape
from pipelines.repository.ovms.config_file import read_config


def write(folder, models=(), **others):
    folder.mkdir(parents=True, exist_ok=True)
    entries = [{"config": each} for each in models]
    (folder / "config.json").write_text(json.dumps({"model_config_list": entries, **others}))
    return folder / "config.json"


def model(folder, *versions, file="dummy.xml"):
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / file).write_text("")
    return folder


def line(servable):
    """The tensor_model line of a classic model."""
    return read(servable.graph_text(None)).data["nodes"]["result"]["body"]["outputs"]


def fault(servable, override=None):
    with pytest.raises(GraphError) as caught:
        servable.graph_text(override)
    return caught.value.problems[0].message


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (None, {"m": 10}),
        ({"latest": {"num_versions": 2}}, {"m": 10, "m/versions/3": 3}),
        ({"all": {}}, {"m": 10, "m/versions/3": 3, "m/versions/1": 1}),
        ({"specific": {"versions": [1, 3, 4]}}, {"m": 3, "m/versions/1": 1}),
    ],
)
def test_policies_of_versions(policy, names, tmp_path):
    model(tmp_path / "m", 1, 3, 10)
    entry = {"name": "m"} | ({"model_version_policy": policy} if policy else {})
    assert {each.name: each.version for each in scan(write(tmp_path, [entry]))} == names


@pytest.mark.parametrize("file", ["dummy.xml", "a.onnx", "b.tflite", "saved_model.pb"])
def test_a_version_is_a_folder_with_any_one_model(file, tmp_path):
    model(tmp_path / "m", 1, file=file)
    (servable,) = read_config(write(tmp_path, [{"name": "m"}]))
    assert line(servable)["path"] == file


def test_a_base_path_may_be_a_model_file_or_lead_elsewhere(tmp_path):
    model(tmp_path / "other", 7)
    entries = [
        {"name": "a", "base_path": "other/7/dummy.xml"},
        {"name": "b", "base_path": str(tmp_path / "other")},
    ]
    config = read_config(
        write(tmp_path / "config", [entries[1], {**entries[0], "base_path": "../other/7/dummy.xml"}])
    )
    assert [(servable.name, servable.version, servable.file) for servable in config] == [
        ("a", 1, "dummy.xml"),
        ("b", 7, "dummy.xml"),
    ]


def test_settings_of_a_model(tmp_path):
    model(tmp_path / "m", 1)
    (tmp_path / "m" / "1" / "mapping_config.json").write_text('{"inputs": {"b": "x"}, "outputs": {"a": "y"}}')
    entry = {
        "name": "m", "shape": {"b": "(1,-1,2:4)"}, "layout": "NHWC:NCHW", "target_device": "CPU",
        "plugin_config": {"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": "4"}, "allow_cache": True,
    }  # fmt: skip
    (servable,) = read_config(write(tmp_path, [entry]))
    assert line(servable) == {
        "type": "tensor_model", "from": "batch", "path": "dummy.xml", "device": "cpu", "threads": 2,
        "streams": 4, "shape": {"b": [1, -1, -1]}, "layout": "NHWC:NCHW", "inputs": {"b": "x"}, "outputs": {"a": "y"},
    }  # fmt: skip
    assert (len(servable.notes), servable.max_runs) == (1, 4)


@pytest.mark.parametrize(
    ("text", "shape"),
    [("(1,3,224,224)", [1, 3, 224, 224]), ("( 1, -1 )", [1, -1]), ("(7)", [7]), ("(1:8,2)", [-1, 2]), ("()", []),
     ("(a)", None), ("1,,2", None)],
)  # fmt: skip
def test_shapes(text, shape):
    assert read_shape(text) == shape


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (
            {"target_device": "NPU"},
            "device NPU: OpenVINO models of this kind run on CPU or GPU here; set BRAID_DEVICE",
        ),
        ({"base_path": "s3://bucket/m"}, "models are read from folders; copy it to one"),
        ({"base_path": "none"}, "does not exist"),
        ({"shape": "(x)"}, "shape (x): a shape is numbers"),
        ({"batch_size": "many"}, "batch_size many: a number"),
        ({"plugin_config": {"X": 1}}, "`X`, which Braid does not know"),
        ({"custom_loader_options": {"loader_name": "enc"}}, "custom_loader_options names the library enc"),
        ({"model_version_policy": {"specific": {"versions": [9]}}}, "none of the versions of"),
        ({"graph_path": "none.pbtxt"}, "there is no"),
    ],
)
def test_a_fault_of_one_servable_is_its_own(entry, what, tmp_path):
    model(tmp_path / "m", 1)
    model(tmp_path / "good", 1)
    found = {
        each.name: each for each in read_config(write(tmp_path, [{"name": "m", **entry}, {"name": "good"}]))
    }
    assert what in fault(found["m"])
    assert line(found["good"])["path"] == "dummy.xml"


def test_an_entry_that_cannot_be_looked_into_fails_alone(tmp_path, monkeypatch):
    """A loop of links, and a folder of another user; tests may run as root, who opens everything."""
    model(tmp_path / "good", 1)
    (tmp_path / "loop").symlink_to("loop")
    looked = config_file.classic_servables

    def refusing(entry, path):
        if entry.name == "foreign":
            raise PermissionError(13, "Permission denied", str(path))
        return looked(entry, path)

    model(tmp_path / "foreign", 1)
    monkeypatch.setattr(config_file, "classic_servables", refusing)
    servables = {
        servable.name: servable
        for servable in scan(write(tmp_path, [{"name": n} for n in ("foreign", "good", "loop")]))
    }
    assert list(servables) == ["foreign", "good", "loop"]
    assert "foreign: cannot be looked into: [Errno 13] Permission denied" in fault(
        servables["foreign"].servable
    )
    assert "loop" in fault(servables["loop"].servable)
    assert line(servables["good"].servable)["path"] == "dummy.xml"


def test_a_fault_has_the_line_of_its_entry_in_the_file_that_lists_it(tmp_path):
    model(tmp_path / "good", 1)
    model(tmp_path / "bad", 1)
    entries = [{"config": {"name": "good"}}, {"config": {"name": "bad", "shape": "(x)"}}]
    nested = [{"config": {"name": "nested", "base_path": "none"}}]
    (tmp_path / "good" / "subconfig.json").write_text(json.dumps({"model_config_list": nested}, indent=1))
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": entries}, indent=1))
    servables = {servable.name: servable for servable in read_config(tmp_path / "config.json")}
    for name, said in (
        ("bad", r"^config.json:10: bad: shape \(x\)"),
        ("nested", "^subconfig.json:5: nested: its"),
    ):
        with pytest.raises(GraphError, match=said):
            servables[name].graph_text(None)


def test_braid_device_takes_the_place_of_others(tmp_path):
    model(tmp_path / "m", 1)
    (servable,) = read_config(write(tmp_path, [{"name": "m", "target_device": "NPU"}]))
    assert "device: cpu" in servable.graph_text("cpu")


def test_a_folder_with_several_models_or_none_is_named(tmp_path):
    model(tmp_path / "m", 1)
    (tmp_path / "m" / "1" / "other.xml").write_text("")
    model(tmp_path / "n", 1, file="model.pdmodel")
    m, n = read_config(write(tmp_path, [{"name": "m"}, {"name": "n"}]))
    assert "holds several models: dummy.xml, other.xml" in fault(m)
    assert "a PaddlePaddle model; convert it" in fault(n)


def test_dags_are_refused_by_name(tmp_path):
    dag = {"name": "dag", "inputs": [], "outputs": [], "nodes": []}
    (servable,) = read_config(write(tmp_path, pipeline_config_list=[dag]))
    assert "a DAG of pipeline_config_list" in fault(servable)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "is not JSON"),
        ("[]", "valid dictionary"),
        ("{}", "model_config_list: Field required"),
        ({"model_config_list": [], "model_config_lst": []}, "model_config_lst: unknown key; did you mean `model_config_list`?"),
        ({"model_config_list": [{"config": {"base_path": "x"}}]}, "model_config_list[0].name: Field required"),
        ({"model_config_list": [{"config": {"name": "x", "stateful": True}}]}, "stateful: stateful models were removed"),
        ({"model_config_list": [{"config": {"name": "x", "mean": "1"}}]}, "mean: only a flag of one model"),
        ({"model_config_list": [{"config": {"name": "x", "nireq": -1}}]}, "nireq: Input should be greater than or equal to 0"),
        ({"model_config_list": [{"config": {"name": "x", "nireq": "4"}}]}, "nireq: Input should be a valid integer"),
        ({"model_config_list": [{"config": {"name": "x", "shape": [1]}}]}, "shape"),
        ({"model_config_list": [{"config": {"name": "x", "allow_cache": "true"}}]}, "allow_cache"),
        ({"model_config_list": [{"config": {"name": "x", "plugin_config": {"A": [1]}}}]}, "plugin_config.A"),
        ({"model_config_list": [{"config": {"name": "x", "model_version_policy": {"latest": {}}}}]}, "num_versions"),
        ({"model_config_list": [{"config": {"name": "x", "model_version_policy": {"newest": {}}}}]}, "newest: unknown key"),
        ({"model_config_list": [{"config": {"name": "x"}}, {"config": {"name": "x"}}]}, "a name may stand once"),
        ({"model_config_list": [{"config": {"name": "x"}}], "mediapipe_config_list": [{"name": "x"}]}, "a name may stand once"),
        ({"model_config_list": [], "mediapipe_config_list": [{"name": "x", "nireq": 1}]}, "nireq: unknown key"),
        ({"model_config_list": [], "monitoring": {"metrics": {}}}, "monitoring.metrics.enable: Field required"),
    ],
)  # fmt: skip
def test_a_file_that_the_schema_does_not_allow_is_refused_whole(content, what, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match="config.json") as caught:
        read_config(file)
    assert what in str(caught.value)


def test_graphs_groups_and_subconfigs(tmp_path):
    export(tmp_path / "e", "BertModel", node(EMBEDDINGS, 'models_path: "./"'))
    (tmp_path / "e" / "graph.pbtxt").rename(tmp_path / "e" / "my.pbtxt")
    model(tmp_path / "pipe" / "part", 1)
    (tmp_path / "pipe" / "graph.pbtxt").write_text("")
    sub = {"model_config_list": [{"config": {"name": "part"}}]}
    (tmp_path / "pipe" / "subconfig.json").write_text(json.dumps(sub))
    entries = [{"name": "e", "graph_path": "my.pbtxt", "group_name": "permanent"}]
    servables = {
        servable.name: servable
        for servable in scan(write(tmp_path, entries, mediapipe_config_list=[{"name": "pipe"}]))
    }
    assert sorted(servables) == ["e", "part", "pipe"]
    assert servables["e"].group == "permanent"
    assert "task: embed" in servables["e"].graph_text()
    with pytest.raises(GraphError, match="pipe/graph.pbtxt:1: the graph has no OpenVINOInferenceCalculator"):
        servables["pipe"].graph_text()


def test_what_config_json_says_is_part_of_the_fingerprint(tmp_path):
    model(tmp_path / "m", 1)
    (before,) = scan(write(tmp_path, [{"name": "m"}]))
    (after,) = scan(write(tmp_path, [{"name": "m", "batch_size": 4}]))
    assert before.fingerprint != after.fingerprint
    assert before.refreshed() == before
    (tmp_path / "m" / "1" / "dummy.xml").write_text("more")
    assert before.refreshed().fingerprint != before.fingerprint


SESSION = "OpenVINOModelServerSessionCalculator"
INFERENCE = "OpenVINOInferenceCalculator"


def session(servable, more=""):
    name = f"[type.googleapis.com / mediapipe.{SESSION}Options]"
    return (
        f'node {{ calculator: "{SESSION}" output_side_packet: "SESSION:{servable}" '
        f'node_options: {{ {name}: {{ servable_name: "{servable}"{more} }} }} }}\n'
    )


def inference(servable, reads, gives):
    streams = "".join(f' input_stream: "{each}"' for each in reads) + f' output_stream: "{gives}"'
    return f'node {{ calculator: "{INFERENCE}" input_side_packet: "SESSION:{servable}"{streams} }}\n'


def pipe(tmp_path, *lines):
    model(tmp_path / "one", 1)
    model(tmp_path / "pipe" / "two", 1)
    streams = 'input_stream: "in1"\ninput_stream: "in2"\noutput_stream: "out"\n'
    (tmp_path / "pipe" / "graph.pbtxt").write_text(streams + "".join(lines))
    entries = [{"name": "one"}, {"name": "two", "base_path": "pipe/two"}, {"name": "pipe"}]
    return next(each for each in read_config(write(tmp_path, entries)) if each.name == "pipe")


def test_a_graph_of_two_models_in_any_order_of_nodes(tmp_path):
    servables = pipe(
        tmp_path,
        inference("two", ["A:mid", "B:in2"], "S:out"),
        session("two"),
        inference("one", ["b:in1"], "a:mid"),
        session("one"),
    )
    body = read(servables.graph_text(None)).data["nodes"]["result"]["body"]
    assert servables.folder == tmp_path.resolve()
    assert body == {
        "model_1": {"type": "tensor_model", "from": "batch", "path": "one/1/dummy.xml",
                    "inputs": {"b": "in1"}, "outputs": {"a": "mid"}},
        "model_2": {"type": "tensor_model", "from": {"tensors": "model_1", "beside": "batch"},
                    "path": "pipe/two/1/dummy.xml", "inputs": {"A": "mid", "B": "in2"}, "outputs": {"S": "out"}},
    }  # fmt: skip


@pytest.mark.parametrize(("version", "served"), [("1", 1), ("2", 2), ("0", 2)])
def test_a_session_may_name_a_version(version, served, tmp_path):
    model(tmp_path / "one", 2)
    pipe(tmp_path, inference("one", ["b:in1"], "a:out"), session("one", f' servable_version: "{version}"'))
    config = json.loads((tmp_path / "config.json").read_text())
    config["model_config_list"][0]["config"]["model_version_policy"] = {"all": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = next(each for each in read_config(tmp_path / "config.json") if each.name == "pipe")
    assert f"path: one/{served}/dummy.xml" in found.graph_text(None)


def test_the_memory_of_a_graph_is_that_of_its_models(tmp_path):
    found = pipe(tmp_path, inference("one", ["b:in1"], "a:out"), session("one"))
    (tmp_path / "one" / "1" / "dummy.bin").write_bytes(bytes(1000))
    (tmp_path / "other.bin").write_bytes(bytes(5000))
    (folder,) = (each for each in scan(tmp_path / "config.json") if each.name == found.name)
    assert terms_of(folder).num_bytes == 1000


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        ([session("one"), inference("one", ["A:mid"], "S:out")], 5, "nothing gives its stream mid"),
        ([session("one"), inference("one", ["A:out"], "S:out")], 5, "its streams run in a cycle"),
        (
            [session("one", ' servable_version: "9"'), inference("one", ["A:in1"], "S:out")],
            4,
            "no model `one/versions/9`",
        ),
        (
            [session("one", ' servable_version: "x"'), inference("one", ["A:in1"], "S:out")],
            4,
            "a number in quotes",
        ),
        (
            [session("tree"), inference("tree", ["A:in1"], "S:out")],
            4,
            "no model `tree` stands in config.json",
        ),
        ([inference("one", ["A:in1"], "S:out")], 4, "gives its side packet `one`"),
        ([session("one"), inference("one", ["in1"], "S:out")], 5, "the stream `in1` needs a tag"),
        ([session("one"), inference("one", ["OVTENSORS:in1"], "S:out")], 5, "is a vector of tensors"),
        ([session("one"), inference("one", ["A:in1"], "S:other")], 5, "must give the output stream `out`"),
        (
            [
                session("one"),
                inference("one", ["A:in1"], "S:x"),
                inference("one", ["A:in1"], "S:y"),
                inference("one", ["A:x", "B:y", "C:in2"], "S:out"),
            ],
            7,
            "it reads from the node in line 5, the node in line 6, the request",
        ),
    ],
)
def test_a_graph_that_cannot_run_is_refused_with_its_line(lines, line, what, tmp_path):
    found = pipe(tmp_path, *lines)
    with pytest.raises(GraphError) as caught:
        found.graph_text(None)
    assert [each.line for each in caught.value.problems if what in each.message] == [line]
