"""Sparse, dense and token vectors and labels of tokens are those of the libraries that exported the models."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from later import Later

from pipelines import Local
from pipelines.base.errors import RequestError
from pipelines.base.torch_files import read_torch_file
from pipelines.nodes.pooling.body.sparse_tokens import read_id_weights
from pipelines.nodes.pooling.sparse_vectors import pruned
from pipelines.repository.exports.export_graph import export_graph
from server.cli import main
from tools.export.base.folder import ExportError
from tools.export.encoders.more_vectors import copy_more_vectors

torch, hf, models_of = Later("torch"), Later("transformers"), Later("retrieval_models")
CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Folders without a graph.yaml, and the models in them; those that end in _ort run on ONNX Runtime."""
    folder = tmp_path_factory.mktemp("retrieval")
    models = {
        "splade": models_of.write_sparse_encoder(folder / "splade"),
        "routes": models_of.write_routes(folder / "routes"),
        "m3": models_of.write_bge_m3(folder / "m3"),
        "tagger": models_of.write_tagger(folder / "tagger"),
    }
    for place in ("splade/plain", "plain"):
        shutil.rmtree(folder / place)
    for name in models:
        graph = export_graph(folder / name)
        own = folder / f"{name}_ort"
        shutil.copytree(folder / name, own)
        (own / "graph.yaml").write_text(graph.replace("device: cpu", "engine: onnxruntime"))
    return folder, models


@pytest.fixture(scope="module")
def braid(exported):
    with Local(exported[0]) as local:
        yield local


@pytest.mark.parametrize("model", ["splade", "splade_ort"])
def test_splade_is_sentence_transformers_own(exported, braid, model):
    expected = exported[1]["splade"].encode(models_of.TEXTS, convert_to_sparse_tensor=False).numpy()
    sparse = braid.embed_kinds(models_of.TEXTS, ["sparse"], model=model)["sparse"]
    np.testing.assert_allclose(sparse.dense, expected, **CLOSE)
    assert all((np.diff(ids) > 0).all() for ids, _ in sparse)
    np.testing.assert_allclose(braid.embed(models_of.TEXTS, model=model), expected, **CLOSE)
    for cut, (ids, weights) in zip(pruned(sparse, 3, 0.1), sparse, strict=True):
        best = sorted(zip(-weights, ids, strict=True))[:3]
        assert sorted(cut[0]) == sorted(place for weight, place in best if -weight >= 0.1)


@pytest.mark.parametrize("model", ["routes", "routes_ort"])
def test_queries_of_an_inference_free_model_are_weights_of_their_tokens(exported, braid, model):
    own = exported[1]["routes"]
    queries = own.encode_query(models_of.TEXTS, convert_to_sparse_tensor=False).numpy()
    documents = own.encode_document(models_of.TEXTS, convert_to_sparse_tensor=False).numpy()
    assert np.abs(queries - documents).max() > 0.1
    np.testing.assert_allclose(
        braid.embed(models_of.TEXTS, model=model, input_type="query"), queries, **CLOSE
    )
    np.testing.assert_allclose(
        braid.embed(models_of.TEXTS, model=model, input_type="document"), documents, **CLOSE
    )
    np.testing.assert_allclose(braid.embed(models_of.TEXTS, model=model), documents, **CLOSE)
    with pytest.raises(RequestError, match="Unsupported input_type 'bogus'"):
        braid.embed(models_of.TEXTS, model=model, input_type="bogus")


def test_weights_of_queries_may_stand_in_idf_json(tmp_path):
    """They are those that sentence-transformers reads of the file."""
    from sentence_transformers.sparse_encoder.models import SparseStaticEmbedding

    weights = {token: 0.1 + place for place, token in enumerate(models_of.VOCABULARY[5:])}
    source, folder = tmp_path / "source", tmp_path / "folder"
    for place in (source / "query_0_SparseStaticEmbedding", folder):
        place.mkdir(parents=True)
    file = source / "query_0_SparseStaticEmbedding" / "idf.json"
    file.write_text(json.dumps(weights))
    expected = SparseStaticEmbedding.from_json(str(file), models_of.tokenizer()).weight
    copy_more_vectors(str(source), folder, models_of.tokenizer())
    written = read_id_weights(folder / "query_0_SparseStaticEmbedding/model.safetensors")
    np.testing.assert_array_equal(written, expected.detach().numpy())
    shutil.rmtree(folder / "query_0_SparseStaticEmbedding")
    file.rename(source / "idf.json")
    copy_more_vectors(str(source), folder, models_of.tokenizer())
    assert (folder / "query_0_SparseStaticEmbedding/model.safetensors").exists()
    (source / "idf.json").write_text("[1]")
    shutil.rmtree(folder / "query_0_SparseStaticEmbedding")
    with pytest.raises(ExportError, match="idf.json holds no weights of tokens"):
        copy_more_vectors(str(source), folder, models_of.tokenizer())


def flag_embedding(exported, text):
    """FlagEmbedding's formulas (`modeling.py`, `m3.py`) for one text: dense, lexical weights, colbert."""
    model, sparse, colbert = exported[1]["m3"]
    encoded = models_of.tokenizer()([text], return_tensors="pt")
    with torch.no_grad():
        hidden = model(encoded.input_ids, attention_mask=encoded.attention_mask)[0][0]
        weights = torch.relu(hidden @ sparse["weight"].T + sparse["bias"])[:, 0]
        vectors = torch.nn.functional.normalize(hidden[1:] @ colbert["weight"].T + colbert["bias"], dim=-1)
        dense = torch.nn.functional.normalize(hidden[0], dim=-1)
    lexical = {}
    for place, weight in zip(encoded.input_ids[0].tolist(), weights.tolist(), strict=True):
        if place not in (0, 1, 2, 3) and weight > lexical.get(place, 0):
            lexical[place] = weight
    return dense.numpy(), lexical, vectors.numpy()


@pytest.mark.parametrize("model", ["m3", "m3_ort"])
def test_bge_m3_gives_three_kinds_in_one_pass(exported, braid, model):
    kinds = braid.embed_kinds(models_of.TEXTS, ["colbert", "dense", "sparse"], model=model)
    assert [*kinds] == ["colbert", "dense", "sparse"]
    rows = zip(models_of.TEXTS, kinds["dense"], kinds["sparse"], kinds["colbert"], strict=True)
    for text, dense, (ids, weights), vectors in rows:
        want_dense, want_sparse, want_vectors = flag_embedding(exported, text)
        np.testing.assert_allclose(dense, want_dense, **CLOSE)
        np.testing.assert_allclose(vectors, want_vectors, **CLOSE)
        assert dict(zip(ids.tolist(), weights.tolist(), strict=True)) == pytest.approx(want_sparse, abs=1e-4)
    np.testing.assert_allclose(braid.embed(models_of.TEXTS, model=model), kinds["dense"], **CLOSE)
    with pytest.raises(
        RequestError, match="this model has no `sprase` vectors; it has dense, sparse, colbert"
    ):
        braid.embed_kinds(models_of.TEXTS, ["sprase"], model=model)


def test_a_layer_that_torch_saved_is_read_without_running_what_it_names(exported, tmp_path):
    import pickle
    import zipfile

    for number, kind in enumerate((torch.float32, torch.float16, torch.bfloat16)):
        layer = {"weight": torch.randn(3, 4).to(kind), "bias": torch.randn(3).to(kind)}
        torch.save(layer, tmp_path / f"{number}.pt")
        for name, values in read_torch_file(tmp_path / f"{number}.pt").items():
            np.testing.assert_array_equal(values, layer[name].float().numpy())

    class Evil:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    with zipfile.ZipFile(tmp_path / "evil.pt", "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps({"weight": Evil()}))
    with pytest.raises(ValueError, match=r"builtins\.exec, which is not run"):
        read_torch_file(tmp_path / "evil.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "0.pt").read_bytes()[:-40])
    with pytest.raises(ValueError, match="holds no tensors"):
        read_torch_file(tmp_path / "cut.pt")
    assert not (tmp_path / "ran").exists()


STRATEGIES = ["none", "simple", "first", "average", "max"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_entities_are_those_of_transformers_pipeline(exported, braid, strategy):
    check_entities(exported, braid, models_of.TEXTS, strategy)


@pytest.mark.breadth
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_entities_of_a_thousand_texts(exported, braid, strategy):
    chance = np.random.default_rng(7)
    marks = ["", ",", ".", "-", "'", " ", "é", "語", "#", "\n"]
    words = [*models_of.WORDS, "Oslo", "Lovelace", "O'Neill", "zyx", "Ünï", "1984"]
    texts = [
        "".join(f"{chance.choice(words)}{chance.choice(marks)} " for _ in range(chance.integers(1, 25)))
        for _ in range(1000)
    ]
    check_entities(exported, braid, texts, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_long_texts_are_read_in_windows(exported, braid, strategy):
    """96 tokens each, with some in common; the text of 94 tokens fits, that of 95 does not."""
    chance = np.random.default_rng(3)
    long = [" ".join(chance.choice(models_of.WORDS, size)) for size in (93, 94, 95, 300)]
    texts = [*models_of.TEXTS, *long, "lovelace-byron " * 12]
    for stride in (0, 40):
        check_entities(exported, braid, texts, strategy, stride)


def test_windows_of_a_wrong_stride_are_refused(braid):
    with pytest.raises(RequestError, match="must be less than 94, the tokens of a window"):
        braid.entities(["moon " * 200], "first", model="tagger", stride=94)
    with pytest.raises(RequestError, match="more than 4000000 tokens; choose a smaller stride"):
        braid.entities(["moon " * 45_000], "first", model="tagger", stride=93)


@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def check_entities(exported, braid, texts, strategy, stride=None):
    in_windows = {} if stride is None else {"stride": stride}
    pipeline = hf.TokenClassificationPipeline(
        model=exported[1]["tagger"],
        tokenizer=models_of.tokenizer(),
        aggregation_strategy=strategy,
        device=-1,
        **in_windows,
    )
    hits = [
        text
        for model in ("tagger", "tagger_ort")
        for text in braid.entities(texts, strategy, model=model, **in_windows)
    ]
    for text, own in zip(texts * 2, hits, strict=True):
        expected = pipeline(text)
        name = "entity" if strategy == "none" else "entity_group"
        assert [(entity.label, entity.word, entity.start, entity.end, entity.index) for entity in own] == [
            (entity[name], entity["word"], entity["start"], entity["end"], entity.get("index"))
            for entity in expected
        ]
        np.testing.assert_allclose(
            [entity.score for entity in own], [entity["score"] for entity in expected], **CLOSE
        )


def test_an_index_is_searched_by_each_kind_that_its_model_gives(exported, braid, tmp_path):
    texts = [text for text in models_of.TEXTS if text != "a"]
    source = tmp_path / "docs"
    source.mkdir()
    for number, text in enumerate(texts):
        (source / f"{number}.txt").write_text(text)
    models = tmp_path / "models"
    models.mkdir()
    for name in ("m3", "routes", "tagger"):
        (models / name).symlink_to(exported[0] / name)
    for name in ("m3", "routes"):
        words = ["index", str(source), "--embed", name, "--to", str(models / f"of_{name}"), "--sparse"]
        written = CliRunner().invoke(main, words)
        assert written.exit_code == 0, written.output
    question = "how far is oslo"
    with Local(models) as local:
        both = local.search(question, model="of_m3", top=9)
        by_sparse = local.search(question, model="of_m3", weights={"sparse": 1}, top=9)
        by_dense = local.search(question, model="of_m3", weights={"dense": 1}, top=9)
        alone = local.search(question, model="of_routes", top=9)
        with pytest.raises(RequestError, match="no `dense` vectors|holds no dense vectors"):
            local.search(question, model="of_routes", weights={"dense": 1})
    vectors = {
        kind: braid.embed_kinds([question, *texts], [kind], model="m3")[kind] for kind in ("dense", "sparse")
    }
    products = {"sparse": vectors["sparse"].dense[1:] @ vectors["sparse"].dense[0]}
    products["dense"] = vectors["dense"][1:] @ vectors["dense"][0]
    for kind, hits in (("sparse", by_sparse), ("dense", by_dense)):
        assert len(hits) == (products[kind] > 0).sum() if kind == "sparse" else len(texts)
        for hit in hits:
            assert hit.scores == {kind: pytest.approx(products[kind][int(hit.document[0])], abs=2e-3)}
    assert set(both[0].scores) == {"dense", "sparse"}
    query = braid.embed([question], model="routes", input_type="query")[0]
    products = braid.embed(texts, model="routes", input_type="document") @ query
    assert alone[0].score == pytest.approx(products.max(), abs=1e-4)
    assert set(alone[0].scores) == {"sparse"}
    refused = CliRunner().invoke(
        main, ["index", str(source), "--embed", "tagger", "--to", str(models / "x"), "--sparse"]
    )
    assert refused.exit_code == 1
