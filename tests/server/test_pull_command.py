"""`braid pull` and `braid serve NAME`: what they fetch, where it is, what they say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_hub import FakeHub
from hub_rig import content

from pipelines.hub.base.cache import RepoCache
from server import cli

DATA = content(5000)
REPOS = {
    "acme/tiny": {"tiny-Q4_K_M.gguf": DATA, "tiny-Q8_0.gguf": DATA * 2, "mmproj-F16.gguf": DATA[:9],
                  "tiny-imatrix.gguf": DATA[:5]},
    "acme/plain": {"config.json": b"{}", "model.safetensors": DATA, "tokenizer.json": b"{}"},
    "acme/pickle": {"config.json": b"{}", "pytorch_model.bin": DATA},
}  # fmt: skip


@pytest.fixture(scope="module")
def hub():
    with FakeHub(REPOS) as running:
        yield running


@pytest.fixture
def braid(monkeypatch, tmp_path, hub):
    """Runs the command in an empty folder; `braid.set` are the variables of the server that it becomes."""
    for name in [name for name in os.environ if name.startswith("BRAID_")]:
        monkeypatch.delenv(name)
    for name, value in hub.environment(
        tmp_path, HF_TOKEN="hf_good", BRAID_CACHE=str(tmp_path / "braid")
    ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    run.set = {}
    monkeypatch.setattr(os, "execve", lambda file, command, variables: run.set.update(variables))
    return run


def models(folder):
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.gguf"))


def test_a_name_is_served(braid):
    result = braid("serve", "acme/tiny", "--port", "9")
    assert result.exit_code == 0, result.output
    assert models(braid.set["BRAID_MODELS"]) == ["acme/tiny/mmproj-F16.gguf", "acme/tiny/tiny-Q4_K_M.gguf"]
    assert "acme/tiny: Q4_K_M: Q4_K_M is the default; 5.0 kB in" in result.output
    assert "hf_good" not in result.output
    first = braid.set["BRAID_MODELS"]
    braid("serve", "acme/tiny")
    assert braid.set["BRAID_MODELS"] == first, "a conversion of the file is found again"


def test_several_names_and_what_is_here(braid, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "graph.yaml").write_text("x")
    braid("serve", "acme/tiny:q8_0", "mine", "--", "--threads", "2")
    folder = Path(braid.set["BRAID_MODELS"])
    assert models(folder / "acme") == ["tiny:q8_0/mmproj-F16.gguf", "tiny:q8_0/tiny-Q8_0.gguf"]
    assert (folder / "mine").resolve() == tmp_path / "mine"


def test_two_folders_of_one_name_are_refused(braid, tmp_path):
    for place in ("a", "b"):
        (tmp_path / place / "mine").mkdir(parents=True)
    result = braid("serve", "a/mine", "b/mine")
    assert (result.exit_code, braid.set) == (2, {})
    assert "a/mine and b/mine have the same name" in result.output
    assert braid("serve", "a/mine", "./a/mine", "acme/tiny").exit_code == 0


def test_a_folder_or_file_of_that_name_wins(braid, tmp_path, hub):
    (tmp_path / "acme" / "tiny").mkdir(parents=True)
    num_requests = len(hub.log)
    assert braid("serve", "acme/tiny").exit_code == 0
    assert braid.set["BRAID_MODELS"] == "acme/tiny"
    assert len(hub.log) == num_requests


def test_names_are_added_to_a_folder(braid, tmp_path):
    (tmp_path / "repo" / "other").mkdir(parents=True)
    braid("serve", "--models", "repo", "acme/tiny")
    assert braid.set["BRAID_MODELS"] == "repo"
    assert models("repo") == ["acme/tiny/mmproj-F16.gguf", "acme/tiny/tiny-Q4_K_M.gguf"]
    assert (tmp_path / "repo" / "other").is_dir()


def test_pull_into_a_folder_under_another_name(braid):
    assert braid("pull", "acme/tiny:Q8_0", "--to", "repo", "--as", "small").exit_code == 0
    assert models("repo") == ["small/mmproj-F16.gguf", "small/tiny-Q8_0.gguf"]


def test_the_offers_of_a_repository(braid, hub):
    result = braid("pull", "--list", "acme/tiny")
    lines = result.output.splitlines()
    assert lines[0] == f"acme/tiny at {hub.commit('acme/tiny')[:12]}"
    assert lines[2].split() == ["→", "Q4_K_M", "GGUF", "5.0", "kB", "1"]
    assert lines[3].split() == ["Q8_0", "GGUF", "10.0", "kB", "1"]
    assert lines[4:] == [
        "Q4_K_M would be taken: Q4_K_M is the default",
        "with it: mmproj-F16.gguf (9 B)",
        "not taken: tiny-imatrix.gguf (imatrix, 5 B)",
    ]
    plain = braid("pull", "--list", "acme/plain").output
    assert "nothing would be taken: safetensors are exported first: --export int8" in plain
    assert "nothing would be taken" in braid("pull", "--list", "acme/tiny:Q2_K").output


def test_what_is_wanted_no_more_is_removed(braid, tmp_path):
    braid("pull", "acme/tiny", "--to", "repo")
    braid("pull", "acme/tiny:q8_0", "--to", "repo")
    braid("serve", "acme/tiny")
    cache = tmp_path / "hf" / "hub" / "models--acme--tiny"
    parts = [cache / "blobs" / f"{letter * 64}.{end}" for letter, end in
             (("a", "braid-part"), ("b", "braid-part"), ("c", "0123.incomplete"), ("d", "braid-part"))]  # fmt: skip
    for part in parts:
        part.write_bytes(DATA)
        os.utime(part, (0, 0))
    os.utime(parts[1])
    with RepoCache(cache.parent, "acme/tiny").locked("d" * 64, wait=lambda: None):
        assert "of unfinished downloads removed" in braid("pull", "--clean", "--to", "repo").output
    assert [part.exists() for part in parts] == [False, True, False, True], "old ones that nobody fetches"
    assert len(models("repo")) == 4
    removed = braid("pull", "--clean", "acme/tiny", "--to", "repo")
    assert removed.exit_code == 0, removed.output
    assert models("repo") == ["acme/tiny:q8_0/mmproj-F16.gguf", "acme/tiny:q8_0/tiny-Q8_0.gguf"]
    assert models(tmp_path / "braid" / "served") == []
    assert not cache.exists()
    assert braid("pull").exit_code == 2


def test_the_bound_of_the_caches(braid, monkeypatch):
    monkeypatch.setenv("BRAID_PULL_CACHE_GB", "0.000001")
    for command in (("pull", "acme/tiny", "--to", "repo"), ("serve", "acme/tiny")):
        result = braid(*command)
        assert result.exit_code == 1
        assert "that BRAID_PULL_CACHE_GB allows" in result.output
    assert braid("pull", "--list", "acme/tiny").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("acme/plain",),
            "has safetensors alone, which are exported before they are served: add --export int8",
        ),
        (("acme/pickle",), "pickled weights alone, which are never loaded"),
        (("acme/none",), "the hub has no such model"),
        (("acme/tiny:Q2_K",), "it has no Q2_K; it offers Q4_K_M, Q8_0"),
        (("tiny",), "names on a hub have the form ORG/NAME"),
        (("acme/tiny", "acme/plain", "--as", "x"), "--as goes with one name"),
        (("acme/tiny", "--as", "../x"), "is no name of a model here"),
        (("acme/tiny", "--sha256", "0" * 64), "--sha256 is for an address of a file"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_what_is_refused_is_one_sentence(braid, arguments, text):
    result = braid("pull", "--to", "repo", *arguments)
    assert result.exit_code in (1, 2)
    assert text in result.output
    assert "Traceback" not in result.output
