"""What decoding an image may compute: bounds before, time and client looked at between."""

from __future__ import annotations

import io
import threading
import time
import zlib

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from costly_images import chunked_png, commented_gif, file_of, marked_jpeg, scanned_jpeg
from PIL import Image

from pipelines.base.cancellation import WorkCancelled, cancelled_by
from pipelines.base.errors import RequestError
from pipelines.nodes import watched_file
from pipelines.nodes.images.decoding import ImageLimits, decode_image

LIMITS = ImageLimits(20_000_000, 40_000_000)
IN_PIECES = {"GIF": commented_gif, "JPEG": marked_jpeg, "PNG": chunked_png}
WIDE_ROOM_S = 4


@pytest.mark.parametrize(("side", "num_scans"), [(5744, 5000), (5744, 40), (64, 600)])
def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_decoded(side, num_scans):
    data, began_s = scanned_jpeg(side, num_scans), time.thread_time()
    with pytest.raises(RequestError, match=rf"`x`: the JPEG has {num_scans + 10} scans; at most 500"):
        decode_image(data, LIMITS, "x")
    assert time.thread_time() - began_s < WIDE_ROOM_S


@pytest.mark.parametrize("num_scans", [0, 12, 400])
def test_a_jpeg_of_some_scans_is_what_pillow_reads(num_scans):
    data = scanned_jpeg(300, num_scans)
    with Image.open(io.BytesIO(data)) as alone:
        assert np.array_equal(np.asarray(decode_image(data, LIMITS, "x")), np.asarray(alone))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "quality": 95}),
        ("PNG", {}),
        ("GIF", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {}),
    ],
)
def test_a_good_file_is_what_pillow_reads(kind, options):
    """However often a block of it ends within it."""
    noise = np.random.default_rng(3).integers(0, 256, (300, 400, 3), np.uint8)
    data = file_of(Image.fromarray(noise), kind, **options)
    assert len(data) > 1 << 14
    with Image.open(io.BytesIO(data)) as alone:
        assert np.array_equal(np.asarray(decode_image(data, LIMITS, "x")), np.asarray(alone.convert("RGB")))


@pytest.mark.parametrize("kind", IN_PIECES)
def test_a_file_of_very_many_pieces_takes_no_longer_than_allowed(kind):
    data, began_s = IN_PIECES[kind](400_000), time.thread_time()
    with pytest.raises(RequestError, match=r"`x`: the image takes longer than 0\.1 seconds to decode"):
        decode_image(data, ImageLimits(20_000_000, 40_000_000, 0.1), "x")
    assert time.thread_time() - began_s < WIDE_ROOM_S


@pytest.mark.parametrize("kind", IN_PIECES)
def test_a_client_that_leaves_ends_decoding(kind, monkeypatch):
    """At the 100th of very many pieces."""
    left, looks = threading.Event(), []
    ask = watched_file.check_cancelled

    def counting():
        looks.append(None)
        if len(looks) == 100:
            left.set()
        ask()

    monkeypatch.setattr(watched_file, "check_cancelled", counting)
    with cancelled_by(left), pytest.raises(WorkCancelled):
        decode_image(IN_PIECES[kind](10_000), LIMITS, "x")
    assert len(looks) == 100


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt"])
def test_a_chunk_that_unpacks_to_very_much_is_refused(kind):
    packed = b"a\0\0" + zlib.compress(bytes(50_000_000), 9)
    began_s = time.thread_time()
    with pytest.raises(RequestError, match="`x`: the image cannot be decoded"):
        decode_image(chunked_png(20, kind, packed), LIMITS, "x")
    assert time.thread_time() - began_s < WIDE_ROOM_S
