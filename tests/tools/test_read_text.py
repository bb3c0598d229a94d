"""Lines of text are found between empty rows and columns; repeated characters count once."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from server_process import free_port

from tools import read_text
from tools.read_text import cut, decode, finding_size, wider


def marks(*rows):
    return np.array([[letter == "#" for letter in row] for row in rows])


def test_lines_are_parted_by_rows_then_by_columns():
    page = marks("........", ".##..##.", ".##.....", "........", "..###...")
    assert list(cut(page)) == [(1, 1, 3, 3), (5, 1, 7, 2), (2, 4, 5, 5)]


def test_an_empty_page_has_no_lines():
    assert list(cut(marks("...", "..."))) == []


@pytest.mark.parametrize(("best", "text"), [([0, 1, 1, 0, 1, 2], "aab"), ([0, 0], ""), ([3, 3], " ")])
def test_the_best_characters_are_a_text(best, text):
    assert decode(np.array(best), ["a", "b", " "]) == text


def test_a_box_is_widened_and_stays_in_the_picture():
    assert wider((0, 10, 40, 20), (100, 200), (400, 200)) == (0, 7, 93, 53)


def test_pictures_are_scaled_to_what_the_model_reads():
    assert finding_size(100, 50) == (1472, 736)
    assert finding_size(4000, 1000) == (1984, 512)


def test_a_server_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(read_text, "known_characters", lambda path: ["a"])
    Image.new("RGB", (64, 64)).save(tmp_path / "page.png")
    for url in ("ftp://127.0.0.1", f"http://127.0.0.1:{free_port()}"):
        options = [str(tmp_path / "page.png"), "--url", url, "--characters", str(tmp_path / "page.png")]
        done = CliRunner().invoke(read_text.main, options)
        assert done.exit_code == 2
        assert f"{url} read nothing: " in done.output
