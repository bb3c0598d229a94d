"""An image that a client named stands for itself while its rows are there, and never for another."""

import queue

import numpy as np
import pytest
from patience import PATIENCE_S
from test_embed_cache import IMAGE_BYTES, SHAPE, counted, image, make_engine, rows_of  # noqa: F401

from pipelines.base.errors import RequestError
from pipelines.inference.engine.batching.batched_request import BatchPart, texts_of
from pipelines.inference.engine.batching.embed_cache import EmbedCache
from pipelines.inference.engine.batching.known_images import KnownImages
from pipelines.inference.engine.batching.text_checks import Bounds, checked_texts
from pipelines.inference.engine.interface.engine_contract import TensorRequest
from pipelines.wire.requests import Origin


def names(*numbers):
    return np.array([[number] * 16 for number in numbers], np.uint8)


def ask(engine, tenant="", **inputs):
    results = queue.SimpleQueue()
    origin = Origin(tenant=tenant)
    engine.submit("key", TensorRequest(inputs, None, lambda key, result: results.put(result), origin))
    return results.get(timeout=PATIENCE_S)


def send(engine, number, uuid, tenant=""):
    """An image with its pixels and a name."""
    spans, known = np.array([[0, 1]], np.int32), np.array([f"image {number}".encode()], object)
    ask(
        *(engine, tenant),
        features=image(number)[None],
        names=names(number),
        uuids=names(uuid),
        spans=spans,
        known=known,
    )


def known(engine, *uuids, tenant=""):
    return ask(engine, tenant, wanted=names(*uuids))["known"].tolist()


def test_a_name_gives_the_last_image_that_had_it_to_its_own_tenant(make_engine):  # noqa: F811
    engine = make_engine(10 * IMAGE_BYTES)
    assert known(engine, 7) == [b""]
    send(engine, 1, uuid=7)
    send(engine, 2, uuid=8)
    assert known(engine, 8, 7, 9) == [b"image 2", b"image 1", b""]
    assert known(engine, 7, tenant="another") == [b""]
    send(engine, 3, uuid=7)
    assert known(engine, 7) == [b"image 3"]


def test_an_image_without_pixels_has_its_stored_rows_beside_one_with_pixels(make_engine):  # noqa: F811
    engine = make_engine(10 * IMAGE_BYTES)
    send(engine, 1, uuid=7)
    stored = {"names": names(2, 1, 1), "stored": np.array([0, 1, 1], np.uint8)}
    answer = ask(engine, features=image(2)[None], **stored)["embeddings"]
    wanted = np.stack([image(2), image(1), image(1)])
    np.testing.assert_array_equal(answer, rows_of(wanted).reshape(-1, 4))
    alone = ask(engine, names=names(1), stored=np.ones(1, np.uint8))["embeddings"]
    np.testing.assert_array_equal(alone, rows_of(image(1)[None])[0])
    assert engine._body.seen == [100.0, 200.0]


def test_rows_that_left_are_never_replaced_by_others(make_engine):  # noqa: F811
    engine = make_engine(IMAGE_BYTES)
    send(engine, 1, uuid=7)
    send(engine, 2, uuid=8)
    assert known(engine, 7, 8) == [b"", b"image 2"]
    with pytest.raises(
        RequestError, match="Cache miss for image at index 1 but data is not provided"
    ) as miss:
        ask(engine, features=image(3)[None], names=names(3, 1), stored=np.array([0, 1], np.uint8))
    assert miss.value.field == "messages"
    assert ask(engine, features=image(1)[None], names=names(1))["lengths"].tolist() == [3]
    assert known(engine, 7) == [b"image 1"]


def test_images_of_grids_have_the_features_of_those_with_pixels_alone():
    features = np.arange(24, dtype=np.float32).reshape(8, 3)
    inputs = {
        "features": features,
        "grids": np.array([(2, 2), (1, 2), (2, 2), (1, 2)], np.int32),
        "names": names(1, 2, 3, 4),
        "stored": np.array([1, 0, 0, 0], np.uint8),
    }
    bounds = Bounds(max_tokens=6, vocab_size=1, output_size=2, columns=(3,))
    texts = texts_of("key", checked_texts(inputs, bounds), None, 0.0)
    assert texts.lengths.tolist() == [4, 2, 4, 2]
    texts.order = np.array([2, 1, 3])  # the first is stored
    parts = BatchPart(texts, 4, 0, 1), BatchPart(texts, 2, 1, 3)
    assert [part.features[:, 0].tolist() for part in parts] == [[6, 9, 12, 15], [0, 3, 18, 21]]
    with pytest.raises(RequestError, match="the grids of the images"):
        checked_texts({**inputs, "stored": np.zeros(4, np.uint8)}, bounds)


def test_the_number_of_names_is_bounded():
    rows = EmbedCache(1000)
    for number in (1, 2, 3):
        rows.add(names(number).tobytes(), np.zeros((1, 4), np.float32))
    images = KnownImages(rows, most=2)
    for number in (1, 2, 1, 3):
        given = {"uuids": names(number), "spans": np.array([[0, 1]]), "known": np.array([b"it"], object)}
        images.add("", given, [names(number).tobytes()])
    assert images.find("", names(1, 2, 3)).tolist() == [b"it", b"", b"it"]
