"""Vector stores by openai's client: files indexed in the background, searches, wrong bodies, killed servers."""

from __future__ import annotations

import signal
import time

import httpx
import pytest
from documents import ROOT
from every_case import every_case
from openai import BadRequestError, NotFoundError, OpenAI
from patience import PATIENCE_S
from server_process import ServerProcess
from three_kinds import write_three_kinds

TEXTS = {
    "bread.md": "# Bread\n\nYeast makes dough rise.\n\n## Ovens\n\nBread is baked in an oven at 230 degrees.",
    "moon.html": "<h1>Moon</h1><p>The moon is 384,000 kilometres away from the earth.",
    "whales.txt": "Whales are mammals, and breathe air.",
}
MODELS = ("braid-embed", "braid-rerank")
POLL_MS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "models"
    folder.mkdir()
    for name in MODELS:
        (folder / name).symlink_to(ROOT / "model_repo" / name)
    write_three_kinds(folder / "sparse")
    return folder


@pytest.fixture(scope="module")
def survivor(folder):
    """A store with a file whose worker was killed, and one whose server was: neither was indexed then."""
    with ServerProcess(folder, FILES=str(folder.parent / "files"), DEFAULT_MODEL="braid-embed") as first:
        first.all_ready()
        with OpenAI(base_url=f"{first.url}/v1", api_key="none", max_retries=5) as client:
            files = [upload(client, f"{i}.txt", long_text(i).encode()) for i in range(2)]
            store = client.vector_stores.create(file_ids=files[:1])
            (worker,) = first.children()[1]
            worker.send_signal(signal.SIGKILL)
            first.wait_for(lambda: first.worker_pids() - {worker.pid})
            first.all_ready()
            assert finished(client, store.id).file_counts.completed == 1
            client.vector_stores.files.create(store.id, file_id=files[1])
            children = (*first.hosts(), *first.children()[1])
            for process in (first.process, *children):
                process.kill()
            first.process.wait()
    return store


@pytest.fixture(scope="module")
def server(folder, survivor):
    with ServerProcess(folder, FILES=str(folder.parent / "files"), DEFAULT_MODEL="braid-embed") as running:
        running.all_ready()
        yield running


@pytest.fixture(scope="module")
def client(server):
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def ids(client):
    """The ids of the uploaded files."""
    return {name: upload(client, name, text.encode()) for name, text in TEXTS.items()}


@pytest.fixture
def store(client, ids):
    """A store with all files, whose `letter` is their first one."""
    store = client.vector_stores.create(name="all", metadata={"of": "tests"})
    files = [{"file_id": ids[name], "attributes": {"letter": name[0]}} for name in TEXTS]
    batch = client.vector_stores.file_batches.create(store.id, files=files)
    batch = client.vector_stores.file_batches.poll(
        batch.id, vector_store_id=store.id, poll_interval_ms=POLL_MS
    )
    assert (batch.status, batch.file_counts.completed) == ("completed", 3)
    return store


def upload(client, name, data):
    return client.files.create(file=(name, data), purpose="assistants").id


def long_text(number):
    return "\n\n".join(f"Paragraph {number}.{i} is about the number {i * number}." * 8 for i in range(200))


def finished(client, store_id):
    """The store, once none of its files waits."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (store := client.vector_stores.retrieve(store_id)).status != "completed":
        assert time.monotonic() < deadline_s, store
        time.sleep(POLL_MS / 1000)
    return store


def names(results):
    return [result.filename for result in results.data]


def test_a_search_finds_the_passage_and_its_file(client, store, ids):
    results = client.vector_stores.search(store.id, query="How far away is the moon?", max_num_results=2)
    first = results.data[0]
    assert (first.filename, first.file_id, first.attributes) == (
        "moon.html",
        ids["moon.html"],
        {"letter": "m"},
    )
    assert "384,000" in first.content[0].text
    assert 0.5 < first.score <= 1
    assert len(results.data) == 2
    assert results.search_query == ["How far away is the moon?"]


def test_scores_are_the_cosines_of_the_vectors_that_embeddings_gives(client, store):
    """Vectors by the endpoint of embeddings have the same products."""
    question = "What do whales breathe?"
    (result,) = client.vector_stores.search(store.id, query=question, max_num_results=1).data

    def vector(text, kind):
        body = {"input_type": kind}
        return client.embeddings.create(model="braid-embed", input=text, extra_body=body).data[0].embedding

    pairs = zip(vector(question, "query"), vector(result.content[0].text, "document"), strict=True)
    assert result.score == pytest.approx(sum(a * b for a, b in pairs), abs=2e-3)


def test_filters_thresholds_and_several_queries(client, store):
    search = client.vector_stores.search
    whales = {"type": "in", "key": "letter", "value": ["w", "m"]}
    both = search(store.id, query=["How far away is the moon?", "What breathes air?"], filters=whales)
    assert {result.filename for result in both.data} == {"moon.html", "whales.txt"}
    assert [result.score for result in both.data] == sorted((r.score for r in both.data), reverse=True)
    high = search(store.id, query="What breathes air?", ranking_options={"score_threshold": 2.0})
    assert high.data == []


def test_words_and_a_reranking_model_order_what_is_found(client, store):
    hybrid = {"hybrid_search": {"embedding_weight": 0.0, "text_weight": 1.0}}
    by_words = client.vector_stores.search(store.id, query="230 degrees", ranking_options=hybrid)
    assert names(by_words) == ["bread.md"]
    question = "How hot is the oven?"
    ranked = client.vector_stores.search(
        store.id, query=question, ranking_options={"ranker": "braid-rerank"}, max_num_results=4
    )
    body = {
        "model": "braid-rerank",
        "query": question,
        "documents": [r.content[0].text for r in ranked.data],
    }
    reply = httpx.post(f"{client.base_url}rerank", json=body).json()
    assert [r["index"] for r in reply["results"]] == [0, 1, 2, 3]
    assert [r["relevance_score"] for r in reply["results"]] == pytest.approx([r.score for r in ranked.data])


def test_a_store_holds_the_sparse_vectors_that_its_model_gives(client, ids, store):
    """Both kinds of scores are products of the vectors that /v1/embeddings gives for the passages."""
    both = client.vector_stores.create(
        name="both", file_ids=[ids[name] for name in TEXTS], extra_body={"embedding_model": "sparse"}
    )
    assert finished(client, both.id).file_counts.completed == 3
    question = "How far away is the moon?"

    def search(**hybrid):
        options = {"hybrid_search": {"embedding_weight": 0, "text_weight": 0, **hybrid}} if hybrid else {}
        return client.vector_stores.search(both.id, query=question, ranking_options=options).data

    def sparse_of(texts, purpose):
        body = {"model": "sparse", "input": texts, "embedding_kinds": ["sparse"], "sparse_format": "ids"}
        reply = httpx.post(f"{client.base_url}embeddings", json={**body, "input_type": purpose}).json()
        return [row["sparse_embedding"] for row in reply["data"]]

    by_sparse = search(sparse_weight=1)
    (wanted,) = sparse_of([question], "query")
    passages = sparse_of([result.content[0].text for result in by_sparse], "document")
    products = [sum(wanted.get(key, 0) * weight for key, weight in own.items()) for own in passages]
    assert [result.score for result in by_sparse] == pytest.approx(products, abs=1e-3)
    assert products == sorted(products, reverse=True)
    assert search()[0].score == pytest.approx(
        client.vector_stores.search(store.id, query=question).data[0].score, abs=1e-3
    )
    best = search(embedding_weight=1, sparse_weight=2, text_weight=1)[0]
    place = [result.content[0].text for result in by_sparse].index(best.content[0].text)
    assert best.score == pytest.approx(2 / 61 + 2 / (61 + place))
    with pytest.raises(BadRequestError, match="no sparse vectors beside dense ones"):
        client.vector_stores.search(
            store.id,
            query=question,
            ranking_options={"hybrid_search": {"embedding_weight": 1, "text_weight": 0, "sparse_weight": 1}},
        )


def test_files_are_listed_changed_read_and_removed(client, store, ids):
    files = client.vector_stores.files
    listed = files.list(store.id, order="asc", limit=2)
    assert [file.id for file in listed] == [ids[name] for name in TEXTS]  # of two pages
    assert files.list(store.id, filter="failed").data == []
    text = files.content(ids["bread.md"], vector_store_id=store.id).data
    assert [part.text for part in text][-1] == "## Ovens\n\nBread is baked in an oven at 230 degrees."

    changed = files.update(
        ids["bread.md"], vector_store_id=store.id, attributes={"letter": "z", "good": True}
    )
    assert changed.attributes == {"letter": "z", "good": True}
    condition = {"type": "eq", "key": "letter", "value": "z"}
    assert set(names(client.vector_stores.search(store.id, query="x", filters=condition))) == {"bread.md"}

    assert files.delete(ids["bread.md"], vector_store_id=store.id).deleted
    assert "bread.md" not in names(client.vector_stores.search(store.id, query="oven"))
    counts = client.vector_stores.retrieve(store.id).file_counts
    assert (counts.total, counts.completed) == (2, 2)


def test_a_store_is_changed_listed_and_deleted_with_its_folder(client, store, folder):
    index = folder.parent / "files" / "vector_stores" / store.id
    assert (index / "current").exists()
    day = {"anchor": "last_active_at", "days": 1}
    changed = client.vector_stores.update(store.id, name="new", expires_after=day)
    assert (changed.name, changed.expires_at, changed.metadata) == (
        "new",
        changed.last_active_at + 86_400,
        {"of": "tests"},
    )
    assert changed.usage_bytes > sum(map(len, TEXTS.values()))
    assert store.id in [listed_store.id for listed_store in client.vector_stores.list(limit=1)]
    assert client.vector_stores.delete(store.id).deleted
    with pytest.raises(NotFoundError):
        client.vector_stores.retrieve(store.id)
    assert not index.exists()


def test_files_that_cannot_be_read_say_why_and_harm_no_others(client, ids):
    bad = {"a.png": b"\x89PNG\0\0", "b.txt": b"\xff\xfe", "c.md": b" \n", "d.pdf": b"%PDF-1.4 no"}
    wrong = [upload(client, name, data) for name, data in bad.items()]
    store = client.vector_stores.create(
        file_ids=[*wrong, ids["whales.txt"]],
        chunking_strategy={
            "type": "static",
            "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50},
        },
    )
    done = finished(client, store.id)
    assert (done.file_counts.failed, done.file_counts.completed) == (4, 1)
    files = {file.id: file for file in client.vector_stores.files.list(store.id)}
    codes = [files[file_id].last_error.code for file_id in wrong]
    assert codes == ["unsupported_file", *["invalid_file"] * 3]
    assert files[ids["whales.txt"]].chunking_strategy.static.chunk_overlap_tokens == 50
    assert names(client.vector_stores.search(store.id, query="air")) == ["whales.txt"]


TOO_MUCH = {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51}
WRONG = [
    ("", {"embedding_model": "none"}, 404, "model"),
    ("", {"embedding_model": "braid-rerank"}, 404, "model"),
    ("", {"expires_after": {"anchor": "last_active_at", "days": 0}}, 400, "expires_after.days"),
    ("", {"file_ids": ["file-none"]}, 404, "id"),
    ("", {"metadata": {"a": 1}}, 400, "metadata.a"),
    ("/{}/files", {}, 400, "file_id"),
    ("/{}/files", {"file_id": "file-none"}, 404, "id"),
    (
        "/{}/files",
        {"file_id": "f", "chunking_strategy": {"type": "static", "static": TOO_MUCH}},
        400,
        "chunking_strategy.static",
    ),
    ("/{}/file_batches", {}, 400, None),
    ("/{}/search", {}, 400, "query"),
    ("/{}/search", {"query": "a", "max_num_results": 51}, 400, "max_num_results"),
    ("/{}/search", {"query": "a", "rewrite_query": True}, 400, "rewrite_query"),
    ("/{}/search", {"query": "a", "filters": {"type": "no", "key": "a"}}, 400, "filters.type"),
    ("/{}/search", {"query": "a", "ranking_options": {"ranker": "braid-embed"}}, 404, "model"),
    ("/vs_none/search", {"query": "a"}, 404, "vector_store_id"),
]


@every_case(("path", "body", "status", "field"), WRONG)
def test_wrong_requests_name_the_field(client, store, path, body, status, field):
    reply = httpx.post(f"{client.base_url}vector_stores{path.format(store.id)}", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (status, field), reply.text


def test_a_batch_that_has_ended_cannot_be_cancelled(client, store, ids):
    batch = client.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=[ids["moon.html"]], poll_interval_ms=POLL_MS
    )
    shown = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id).data
    assert [file.id for file in shown] == [ids["moon.html"]]
    with pytest.raises(BadRequestError):
        client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)


def test_what_a_killed_worker_and_a_killed_server_left_is_indexed_by_the_next_one(client, survivor):
    assert finished(client, survivor.id).file_counts.completed == 2
    assert client.vector_stores.search(survivor.id, query="Paragraph 1.7").data


def test_a_file_that_is_deleted_leaves_its_stores(client):
    file_id = upload(client, "law.md", b"A contract binds both parties.")
    store = client.vector_stores.create(file_ids=[file_id])
    assert finished(client, store.id).file_counts.completed == 1
    assert names(client.vector_stores.search(store.id, query="contract")) == ["law.md"]
    client.files.delete(file_id)
    assert client.vector_stores.search(store.id, query="contract").data == []
    assert client.vector_stores.retrieve(store.id).file_counts.total == 0
