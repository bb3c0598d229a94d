"""Exports that tests use are made once, and again when what they are made of changes."""

from __future__ import annotations

import pytest
import stored_exports
from stored_exports import stored_export


@pytest.fixture
def export(tmp_path, monkeypatch):
    """`export(*options)` → the text of the export of a source, with a number that counts how many were made."""
    monkeypatch.setattr(stored_exports, "STORED", tmp_path / "stored")
    stored_exports._current.cache_clear()
    exports = []
    (tmp_path / "source").mkdir()

    def run(*options):
        folder = tmp_path / f"export-{len(list(tmp_path.iterdir()))}"

        def make():
            exports.append(options)
            folder.mkdir()
            (folder / "model").write_text((tmp_path / "source" / "weights").read_text())

        text = (stored_export(tmp_path / "source", folder, make, *options) / "model").read_text()
        (folder / "model").write_text("changed by a test")
        return text, len(exports)

    yield run
    stored_exports._current.cache_clear()


def test_an_export_is_made_once_for_its_source_options_code_and_packages(export, tmp_path, monkeypatch):
    weights = tmp_path / "source" / "weights"
    weights.write_text("a")
    assert [export("int8"), export("int8"), export("int4")] == [("a", 1), ("a", 1), ("a", 2)]
    weights.write_text("b")
    assert [export("int8"), export("int8")] == [("b", 3), ("b", 3)]
    monkeypatch.setattr(stored_exports, "version", lambda package: "2.0")
    stored_exports._current.cache_clear()
    assert [export("int8"), export("int8")] == [("b", 4), ("b", 4)]
    assert len(list((tmp_path / "stored").iterdir())) == 1
