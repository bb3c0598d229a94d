"""The images of a request: URLs, files beyond a bound, and their places in a prompt."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from PIL import Image

from pipelines.base.errors import RequestError
from pipelines.nodes.images.data_urls import read_data_url
from pipelines.nodes.images.decoding import ImageLimits, decode_image
from pipelines.nodes.images.places import BREAK, in_pieces, place_images, with_breaks, write_images
from pipelines.values.node_values import Images, Prompt

LIMITS = ImageLimits(20_000_000, 40_000_000)


def png(width, height, rows=b""):
    """A PNG that says it has this size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg():
    out = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 90)).save(out, "JPEG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com/a.png", "The URL must be either a HTTP, data or file URL."),
        ("/etc/passwd", "must be either a HTTP, data or file URL"),
        ("", "must be either a HTTP, data or file URL"),
        ("data:image/png;base64", "missing ',' separator"),
        ("data:image/png,abc", "Only base64 data URLs are supported for now."),
        ("data:image/png;base64,a*b=", "Invalid base64 data"),
        ("data:image/png;base64," + "A" * 4_000, r"0\.0 MB; at most 0\.001 MB"),
    ],
)
def test_urls_are_refused_with_the_field_at_fault(url, words):
    with pytest.raises(RequestError, match=words) as refused:
        read_data_url(url, 1_000, "messages.0.content.1")
    assert refused.value.field == "messages.0.content.1"


def test_a_data_url_gives_its_bytes():
    url = "data:image/png;charset=x;base64," + base64.b64encode(b"bytes").decode()
    assert read_data_url(url, 1_000, "x") == b"bytes"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "this is no image; allowed: PNG, JPEG, WEBP, GIF"),
        (b"%PDF-1.7", "this is no image"),
        (b"BM" + bytes(100), "this is no image"),
        (png(50_000, 50_000, zlib.compress(bytes(100_000))), "pixels; at most 40 million"),
        (png(7_000, 7_000), "7000 × 7000 pixels; at most 40 million"),
        (png(1, 30_000), "at most 200 times"),
        (png(64, 64, b"\x00"), "cannot be decoded"),
        (jpeg()[:400], "cannot be decoded|this is no image"),
    ],
)
def test_files_are_refused_before_they_take_memory(data, words):
    with pytest.raises(RequestError, match=words) as refused:
        decode_image(data, LIMITS, "messages.0.content.1")
    assert refused.value.field == "messages.0.content.1"


def images(*lengths):
    digests = [str(length).encode() for length in lengths]
    return Images(None, list(lengths), digests, 9, ("<image>", "<part>"), ["[<part>]"] * len(lengths))


def test_each_mark_becomes_the_tokens_of_its_image():
    assert place_images([[1, 2]], images(), "messages") == [([1, 2], [])]
    ((ids, placed),) = place_images([[9, 1, 9, 9, 2]], images(2, 1, 3), "messages")
    assert ids == [9, 9, 1, 9, 9, 9, 9, 2]
    assert placed == [(0, 2, b"2", None), (3, 1, b"1", None), (4, 3, b"3", None)]


@pytest.mark.parametrize("ids", [[1, 2], [9, 1, 9]])
def test_ids_of_a_client_have_no_images(ids):
    with pytest.raises(RequestError, match="places for images, and the request has 1 images") as refused:
        place_images([ids], images(2), "messages")
    assert refused.value.field == "messages"


def rendered(*texts):
    """A prompt that a template made: `typed` texts between marks of its own."""
    typed = (with_breaks(text, images().marks) for text in texts)
    return in_pieces(Prompt("<image>".join(typed), is_rendered=True))


def test_the_template_shows_images_and_a_user_types_text():
    (plain,) = write_images([rendered("a", "b", "")], images(2, 3), "messages")
    assert (plain.text, plain.pieces) == ("a[<part>]b[<part>]", ())
    (typed,) = write_images([rendered("<<image>", "<part> <image", ">")], images(2, 3), "messages")
    assert typed.text == "<<image>[<part>]<part> <image[<part>]>"
    assert typed.pieces == ("<<", "image>[<part>]<", "part> <image[<part>]>")
    (raw,) = write_images([Prompt("see <image>")], images(), "prompt")
    assert (raw.text, raw.pieces) == ("see <image>", ("see <", "image>"))
    with pytest.raises(
        RequestError, match="the prompt has 1 places for images, and the request has 2 images"
    ):
        write_images([rendered("", "")], images(2, 3), "messages")


def test_breaks_are_in_all_texts_of_a_request():
    marks, given = ("<image>",), {"<image>": [{"type": "image"}, {"text": "an <image>"}, 3, None]}
    (name,), ((image, text, *rest),) = with_breaks(given, marks), with_breaks(given, marks).values()
    assert name == f"<{BREAK}image>"
    assert (image, text, rest) == ({"type": "image"}, {"text": f"an <{BREAK}image>"}, [3, None])
    assert with_breaks("none", marks) == "none"
