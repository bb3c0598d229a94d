"""POST search: passages of an index by vectors and words, ranked again by another model of the repository."""

from __future__ import annotations

import time
from shutil import copytree

import pytest
from documents import ROOT
from live_app import live_app
from patience import PATIENCE_S

from pipelines import Local
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_graph import index_graph
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, update

TEXTS = {
    "bread.md": "# Bread\n\nYeast makes dough rise.\n\n## Ovens\n\nBread is baked in an oven at 230 degrees.",
    "moon.md": "# Moon\n\nThe moon is 384,000 kilometres away from the earth.",
    "whales.md": "# Whales\n\nWhales are mammals, and breathe air.",
    "law.md": "# Law\n\nA contract binds both parties.",
}
MODELS = ("braid-embed", "braid-rerank")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "models"
    folder.mkdir()
    for name in MODELS:
        (folder / name).symlink_to(ROOT / "model_repo" / name)
    return folder


@pytest.fixture(scope="module")
def settings(folder):
    with Local(folder, names=["braid-embed"]) as braid:

        def embed(texts):
            return braid.embed_kinds(texts, ["dense"], model="braid-embed", input_type="document")

        yield IndexSettings("braid-embed", embed, Cutting(60))


@pytest.fixture(scope="module")
def server(folder, settings):
    place = folder / "handbook"
    documents = [SourceDocument.of_text(name, text, {"letter": name[0]}) for name, text in TEXTS.items()]
    update(IndexFolder(place / "index"), documents, settings)
    (place / "graph.yaml").write_text(index_graph("braid-embed", "braid-rerank", {"dense": 1.0}, "docs"))
    (folder / "plain").mkdir()
    (folder / "plain" / "graph.yaml").write_text(
        index_graph("braid-embed", None, {"dense": 1.0, "text": 1.0}, "docs")
    )
    copytree(place / "index", folder / "plain" / "index")
    return live_app(folder)


@pytest.fixture
def search(server):
    def ask(**body):
        (reply,) = server.ask([("/v1/search", {"model": "handbook", **body})])
        return reply

    return ask


def test_the_best_passage_is_first_and_has_its_place(search):
    reply = search(query="How far away is the moon?", top=2).json
    first = reply["data"][0]
    assert (reply["object"], reply["model"]) == ("search.results", "handbook")
    assert (first["document"], first["heading"], first["attributes"]) == ("moon.md", "Moon", {"letter": "m"})
    assert TEXTS["moon.md"][first["start"] :].startswith(first["text"])
    assert first["score"] == first["scores"]["rerank"]
    assert "dense" in first["scores"]
    assert len(reply["data"]) == 2
    assert reply["usage"]["prompt_tokens"] > 3


def test_scores_are_those_of_the_models_themselves(server, search):
    query = "Why does dough rise?"
    hits = search(query=query, top=10).json["data"]
    texts = [hit["text"] for hit in hits]
    (answer,) = server.ask([("/v1/rerank", {"model": "braid-rerank", "query": query, "documents": texts})])
    ranked = answer.json
    assert [result["index"] for result in ranked["results"]] == list(range(len(hits)))
    for hit, result in zip(hits, ranked["results"], strict=True):
        assert hit["score"] == pytest.approx(result["relevance_score"], abs=1e-5)
    (first,) = embedded(server, [query], "query")
    for hit, vector in zip(hits, embedded(server, texts, "document"), strict=True):
        cosine = sum(a * b for a, b in zip(first, vector, strict=True))
        assert hit["scores"]["dense"] == pytest.approx(cosine, abs=2e-3)


def embedded(server, texts, input_type):
    body = {"model": "braid-embed", "input": texts, "input_type": input_type}
    (answer,) = server.ask([("/v1/embeddings", body)])
    return [each["embedding"] for each in answer.json["data"]]


def test_several_queries_filters_words_and_thresholds(search):
    reply = search(
        query=["oven", "contract"],
        max_num_results=1,
        weights={"text": 1},
        rerank=False,
        return_text=False,
        filters={"type": "in", "key": "letter", "value": ["b", "m"]},
    ).json
    (hit,) = reply["data"]
    assert (hit["query_index"], hit["document"], hit["text"]) == (0, "bread.md", None)
    assert search(query="moon", rerank=False, score_threshold=2).json["data"] == []


def test_a_graph_may_fuse_both_kinds_of_search(search):
    hits = search(model="plain", query="baked bread", top=10).json["data"]
    assert hits[0]["document"] == "bread.md"
    assert set(hits[0]["scores"]) == {"dense", "text"}
    assert 1 / 61 < hits[0]["score"] <= 2 / 61


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "query"),
        ({"query": " "}, 400, "query"),
        ({"query": []}, 400, "query"),
        ({"query": ["a"] * 33}, 400, "query"),
        ({"query": ["a", ""]}, 400, "query.1"),
        ({"query": 5}, 400, "query"),
        ({"query": "a", "top": 0}, 400, "top"),
        ({"query": "a", "top": 1001}, 400, "top"),
        ({"query": "a", "filters": []}, 400, "filters"),
        ({"query": "a", "filters": {"type": "eq", "key": 1, "value": 1}}, 400, "filters.key"),
        ({"query": "a", "weights": {"sparks": 1}}, 400, "weights.sparks"),
        ({"query": "a", "weights": {"sparse": 1}}, 400, "weights.sparse"),
        ({"query": ["a"] * 32, "top": 513}, 400, "top"),
        ({"query": "a", "weights": {"dense": 0}}, 400, "weights"),
        ({"query": "a", "weights": {"dense": "inf"}}, 400, "weights.dense"),
        ({"query": "a", "score_threshold": "nan"}, 400, "score_threshold"),
        ({"query": "a", "filters": {"year": 1 << 64}}, 400, "filters.year.value"),
        ({"query": "a", "weights": {"dense": -1}}, 400, "weights"),
        ({"query": "a", "model": "braid-embed"}, 404, "model"),
        ({"query": "a", "model": "nobody"}, 404, "model"),
    ],
    ids=str,
)
def test_a_wrong_body_names_its_field(search, body, status, field):
    reply = search(**body)
    assert reply.status == status, reply.body
    assert reply.error["param"] == field


def test_a_new_version_is_found_while_it_serves(folder, settings, search):
    new = SourceDocument.of_text("volcano.md", "Lava flows from a volcano.")
    update(IndexFolder(folder / "handbook" / "index"), [new], settings, keeps_others=True)
    deadline_s = time.monotonic() + PATIENCE_S
    while search(query="lava of a volcano", top=1, rerank=False).json["data"][0]["document"] != "volcano.md":
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


ODD_VALUES = (
    *(
        None,
        True,
        0,
        -1,
        1.5,
        1e300,
        10**18,
        10**30,
        "",
        "a",
        "1",
        "\0",
        "𝔘",
        [],
        [[]],
        {},
    ),
    *([None], [1, "a", True], ["a"] * 65, {"a": 1}, {"type": "eq"}),
)
ODD_KEYS = (
    "letter",
    "a.b",
    "a\\b",
    "a\\",
    "$",
    "[0]",
    "a[#-1]",
    "*",
    "\n",
    "'",
    "--",
    "%",
    "é",
    "x" * 256,
)


def test_odd_filters_find_or_are_refused(server):
    """Whatever stands in a filter, the reply is hits or says which field is wrong."""
    filters = [
        *(
            {"type": kind, "key": "letter", "value": value}
            for kind in ("eq", "gt", "in")
            for value in ODD_VALUES
        ),
        *({"type": "eq", "key": key, "value": "m"} for key in ODD_KEYS),
        *({key: "m"} for key in ODD_KEYS),
        *({"type": "and", "filters": value} for value in ODD_VALUES),
        *(value for value in ODD_VALUES if not isinstance(value, dict)),
    ]
    bodies = [
        {"model": "plain", "query": "the moon", "top": 3, "weights": {"text": 1}, "filters": condition}
        for condition in filters
    ]
    replies = server.ask([("/v1/search", body) for body in bodies])
    for body, reply in zip(bodies, replies, strict=True):
        assert reply.status in (200, 400), (body["filters"], reply.body)
        if reply.status == 400:
            assert reply.error["param"].startswith("filters"), (body["filters"], reply.error)
        elif body["filters"]:
            assert all(hit["attributes"] for hit in reply.json["data"])


def test_odd_numbers_of_hits_and_odd_queries(server):
    tops = [0, -1, 1001, 10**30, 1.5, "5", True, None, [], 1e300]
    queries = [
        "\0",
        "_",
        "a_" * 3000,
        "?" * 70_000,
        "🙂" * 2000,
        '"',
        "NEAR(a b)",
        "a* OR b",
        "x" * 65_000,
    ]
    bodies = [{"model": "plain", "query": "moon", "top": top} for top in tops]
    bodies += [{"model": "plain", "query": query, "top": 2} for query in queries]
    replies = server.ask([("/v1/search", body) for body in bodies])
    for body, reply in zip(bodies, replies, strict=True):
        assert reply.status in (200, 400), (str(body)[:200], reply.body)
        if reply.status == 400:
            assert reply.error["param"] in ("top", "query"), (str(body)[:200], reply.error)
    assert [reply.status for reply in replies[:5]] == [400] * 5
