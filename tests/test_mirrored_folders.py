"""Tests mirror the tree: the tests of a folder of the product lie in the folder of the same path below tests/."""

from __future__ import annotations

import ast
from pathlib import Path

from documents import ROOT

PRODUCT = ("graphs", "ops", "pipelines", "server", "tools")
WHOLE_SERVERS = {
    "tests": "tests over the tree, its documents and its package",
    "tests/clients": "programs of other clients",
    "tests/conformance": "recorded exchanges of vLLM",
    "tests/e2e": "servers that are started",
    "tests/fixtures": "what tests of several folders share",
    "tests/ovms": "what a user of OpenVINO Model Server has: its files, its folders, its command",
    "tests/server/apis/agents": "sessions of coding agents, over several APIs",
    "tests/server/apis/composing": "composed graphs, over several APIs",
}
"""Folders of tests that belong to no one folder of the product → what they hold."""
TESTED_IN = {
    "pipelines/inference/contracts": "tests/pipelines/inference/engine",
    "pipelines/nodes/entities": "tests/server/apis/pooling",
    "pipelines/nodes/retrieval": "tests/server/apis/retrieval",
    "pipelines/nodes/retrieval/body": "tests/server/apis/retrieval",
    "pipelines/nodes/tensors/body": "tests/pipelines/worker",
    "pipelines/nodes/text/rules": "tests/pipelines/nodes/text/replies",
    "pipelines/repository/ovms": "tests/ovms",
    "pipelines/requests/fields": "tests/server/http",
    "pipelines/requests/generation": "tests/server/apis/generation",
    "pipelines/requests/pooling": "tests/server/apis/pooling",
    "pipelines/requests/speech": "tests/server/apis/speech",
    "pipelines/transcription": "tests/server/apis/speech",
    "pipelines/values": "tests/pipelines/nodes",
    "server/apis/generation/requests": "tests/server/apis/generation",
    "server/apis/usage": "tests/server/keys",
    "server/schema": "tests/server/apis/generation",
    "tools/export/encoder_decoder": "tests/tools/export/text_pair",
    "tools/export/whisper": "tests/tools/export/speech",
    "tools/lab/reference": "tests",
}
"""Folder of the product whose code is tested by those that use it → where these are tested."""
OF_SUBSTANCE = 100
"""Lines of a folder's own files from which it needs tests of its own."""


def own_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]


def mirrored_tests(folder: Path) -> list[Path]:
    return sorted((ROOT / "tests" / folder.relative_to(ROOT)).glob("test_*.py"))


def folders_of_substance() -> dict[str, Path]:
    """Name → folder of the product whose own files have `OF_SUBSTANCE` lines or more."""
    folders = [path for room in PRODUCT for path in (ROOT / room, *(ROOT / room).rglob("*")) if path.is_dir()]
    lines = {path: sum(len(file.read_text().splitlines()) for file in own_files(path)) for path in folders}
    return {str(path.relative_to(ROOT)): path for path, number in lines.items() if number >= OF_SUBSTANCE}


def names_it(test: Path, folder: str) -> bool:
    """Whether a file of tests imports a module of a folder, or of a folder below it."""
    package = folder.replace("/", ".")
    modules = {
        name
        for node in ast.walk(ast.parse(test.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    return any(f"{name}.".startswith(f"{package}.") for name in modules)


def has_tests(folder: Path) -> bool:
    """Whether tests lie in the mirrored folder, or name it in the nearest folder above that has tests."""
    if mirrored_tests(folder):
        return True
    above = next(
        (parent for parent in folder.parents if ROOT in parent.parents and mirrored_tests(parent)), None
    )
    return above is not None and any(
        names_it(test, str(folder.relative_to(ROOT))) for test in mirrored_tests(above)
    )


def test_each_folder_of_tests_mirrors_one_of_the_product():
    files = (ROOT / "tests").rglob("test_*.py")
    folders = {str(path.parent.relative_to(ROOT)) for path in files} - WHOLE_SERVERS.keys()
    assert sorted(name for name in folders if not (ROOT / name.removeprefix("tests/")).is_dir()) == []


def test_the_named_folders_are_there():
    assert [
        folder for folder in (*WHOLE_SERVERS, *TESTED_IN, *TESTED_IN.values()) if not (ROOT / folder).is_dir()
    ] == []


def test_each_folder_of_substance_has_tests_where_its_name_says():
    without = [name for name, folder in folders_of_substance().items() if not has_tests(folder)]
    assert sorted(without) == sorted(TESTED_IN)
