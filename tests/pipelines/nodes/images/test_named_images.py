"""Images with names: one without a URL is known, or refused; other salts are other names."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from test_image_requests import jpeg

from pipelines.base.errors import RequestError
from pipelines.nodes.images.decoding import ImageLimits
from pipelines.nodes.images.image_tensors import image_tensors, wanted
from pipelines.nodes.images.images import ReadImages
from pipelines.nodes.images.known_image import KnownImage, known_image
from pipelines.nodes.images.read_image import ReadImage
from pipelines.values.tasks import ImageInput

TILED = KnownImage([b"a" * 16, b"b" * 16], 4, "[<part><part>]")


class OneColour:
    """Images of one part, of 2 × 3 tokens."""

    token_id, marks = 9, ("<image>",)

    def read(self, image):
        return ReadImage(np.full((6, 5), image.getpixel((0, 0))[0], np.float32), 6, "<part>", ((2, 3),))


@pytest.fixture
def reader():
    found = ReadImages(ReadImages.Config(model="config.json", settings="config.json"), None)
    found.family, found.limits = OneColour(), ImageLimits(1_000_000, 1_000_000)
    return found


def with_file(uuid=None):
    return ImageInput("http://a.example/it.jpg", "image_url", "messages.0.content.0", jpeg(), uuid)


def without_file(uuid, data=None):
    return ImageInput(None, "image_url", "messages.0.content.1", data, uuid)


def test_what_is_known_of_an_image_stands_for_it(reader):
    images = reader.read([with_file(), without_file("it", TILED.encoded())])
    assert (images.lengths, images.texts) == ([6, 4, 4], ["<part>", TILED.text])
    assert images.digests[1:] == TILED.digests
    assert (images.stored, images.named, len(images.values)) == ([1, 2], [], 6)
    sent = image_tensors(images, SimpleNamespace(cache_salt=""))
    assert sent["stored"].tolist() == [0, 1, 1]
    assert sent["names"][1:].tobytes() == b"".join(TILED.digests)


def test_an_image_that_nothing_is_known_of_is_refused_by_its_place(reader):
    for data in (None, b""):
        with pytest.raises(RequestError, match="Cache miss for image at index 1 but data is not") as refused:
            reader.read([with_file("it"), without_file("another", data)])
        assert refused.value.field == "messages.0.content.1"


def test_a_name_stands_for_the_image_that_the_same_request_gave_it(reader):
    images = reader.read([with_file("it"), without_file("it", TILED.encoded())])
    assert images.lengths == [6, 6]
    assert images.digests[0] == images.digests[1]
    assert [(uuid, span) for uuid, span, _ in images.named] == [("it", (0, 1)), ("it", (1, 2))]
    known = known_image(images.named[0][2])
    assert known == KnownImage(images.digests[:1], 6, "<part>", ((2, 3),))


def test_names_of_other_salts_are_other_names(reader):
    images = reader.read([with_file("it")])
    salts = ("", "a", "b")
    sent = [image_tensors(images, SimpleNamespace(cache_salt=salt)) for salt in salts]
    assert len({each["uuids"].tobytes() for each in sent}) == 3
    assert len({each["names"].tobytes() for each in sent}) == 3
    for salt, each in zip(salts, sent, strict=True):
        np.testing.assert_array_equal(wanted(["it"], salt)["wanted"], each["uuids"])
