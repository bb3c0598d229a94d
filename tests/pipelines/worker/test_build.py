import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model

from pipelines.host.models.model import load_for_host
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.loading.load import BuildError, graphs_of
from pipelines.repository.model_folders import scan
from pipelines.wire.sampling_params import SamplingParams
from pipelines.worker.build import load_for_worker

ALIAS = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: tiny, from: request}\n"


def only(folder):
    (model,) = scan(folder)
    return model


def test_the_host_builds_an_engine_that_generates(tmp_path):
    write_fake_model(tmp_path / "tiny")
    host_model = load_for_host(only(tmp_path))
    engine = host_model.engines["generated"]
    engine.submit("call", GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=2, temperature=0)))
    tokens = [token for _ in range(2) for output in engine.step() for token in output.piece.token_ids]
    assert len(tokens) == 2
    host_model.close()


def test_the_cache_is_a_hard_bound_in_bytes(tmp_path):
    write_fake_model(tmp_path / "tiny", graph=FAKE_GRAPH.replace("0.01", "0.0001"))
    host_model = load_for_host(only(tmp_path))
    assert 0 < host_model.cache_bytes <= 0.0001 * 2**30
    assert host_model.cache_tokens == host_model.cache_bytes // 8
    host_model.close()


def test_a_cache_too_small_for_one_block_is_refused(tmp_path):
    write_fake_model(tmp_path / "tiny", graph=FAKE_GRAPH.replace("0.01", "0.00000001"))
    with pytest.raises(BuildError, match="cache.memory_gb"):
        load_for_host(only(tmp_path))


def test_a_context_beyond_the_models_is_refused(tmp_path):
    graph = FAKE_GRAPH.replace("    max_sequences: 64\n", "    max_sequences: 64\n    max_context: 5000\n")
    write_fake_model(tmp_path / "tiny", graph=graph)
    with pytest.raises(BuildError, match="max_context: the model holds 4096 tokens, not 5000"):
        load_for_host(only(tmp_path))


def test_the_worker_builds_request_nodes_only(tmp_path):
    write_fake_model(tmp_path / "tiny")
    pipeline = load_for_worker(only(tmp_path), instance_id=7, max_context=100)
    assert [line.name for line in pipeline.lines] == ["prompt", "tokens", "generated", "text", "reply"]
    assert pipeline.lines[2].node.address.instance_id == 7
    pipeline.close()


def test_every_problem_of_a_graph_is_told_with_its_line(tmp_path):
    broken = FAKE_GRAPH.replace("max_sequences: 64", "max_seqs: 64").replace("fake.json", "missing.json")
    write_fake_model(tmp_path / "tiny", graph=broken)
    with pytest.raises(BuildError) as caught:
        load_for_host(only(tmp_path))
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        "tiny/graph.yaml:9",
        "tiny/graph.yaml:13",
    ]


def test_a_file_that_cannot_be_read_names_its_line(tmp_path):
    folder = write_fake_model(tmp_path / "tiny")
    (folder / "tokenizer.json").write_text("no tokenizer")
    with pytest.raises(BuildError, match=r"graph.yaml:5: tokens \(tokenize\): .*tokenizer.json"):
        load_for_worker(only(tmp_path), instance_id=1, max_context=100)


def test_a_graph_may_be_a_node_of_another(tmp_path):
    write_fake_model(tmp_path / "tiny")
    write_fake_model(tmp_path / "alias", graph=ALIAS)
    alias, tiny = scan(tmp_path)
    graphs = graphs_of([alias, tiny])
    inner = load_for_worker(tiny, 3, 100, graphs)
    outer = load_for_worker(alias, 4, 0, graphs, pipeline={"tiny": inner}.__getitem__)
    assert outer.lines[0].node.find("tiny") is inner


def test_a_graph_of_graphs_needs_no_engine_of_its_own(tmp_path):
    write_fake_model(tmp_path / "tiny")
    write_fake_model(tmp_path / "alias", graph=ALIAS)
    alias, tiny = scan(tmp_path)
    host_model = load_for_host(alias, graphs_of([alias, tiny]))
    assert (dict(host_model.engines), host_model.max_context) == ({}, 0)


def test_a_file_named_twice_is_loaded_once(tmp_path):
    write_fake_model(tmp_path / "tiny")
    pipeline = load_for_worker(only(tmp_path), instance_id=1, max_context=100)
    tokenize, detokenize = pipeline.lines[1].node, pipeline.lines[3].node
    assert tokenize.tokenizer is detokenize.tokenizer
