"""File settings: relative, inside the folder, there."""

from __future__ import annotations

import pytest
import toys

from graphs.check import check
from graphs.node import FilePath
from graphs.paths import fault, folder_fault


def test_a_good_path(folder):
    assert fault("model/tokenizer.json", folder) is None


@pytest.mark.parametrize("path", ["", " ", "a\x00b", "a\nb"])
def test_an_unreadable_path(path, folder):
    assert fault(path, folder) == "a path must not be empty nor hold control characters"


@pytest.mark.parametrize("path", ["/etc/passwd", "//x", "C:\\model.xml", "c:/model.xml"])
def test_an_absolute_path(path):
    assert fault(path, None) == f"`{path}` is absolute; a path is relative to the folder of the graph file"


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "./../x", "model/../../other/x"])
def test_a_path_that_leaves_the_folder(path, folder):
    assert fault(path, folder) == f"`{path}` leaves the model's folder; put the file inside it"


def test_a_path_may_turn_back_inside_the_folder(folder):
    assert fault("model/../model/model.xml", folder) is None


def test_two_dots_may_begin_a_name(folder):
    (folder / "..x").touch()
    assert fault("..x", folder) is None


def test_a_link_to_a_file_outside(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.touch()
    (folder / "link").symlink_to(outside)
    assert (
        fault("link", folder)
        == "`link` leaves the model's folder by a symbolic link; put the file itself inside it"
    )


def test_a_link_to_a_folder_outside(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").touch()
    (folder / "deep").symlink_to(outside)
    assert "by a symbolic link" in fault("deep/secret", folder)


def test_a_link_to_a_folder_whose_name_begins_alike(folder):
    outside = folder.with_name(folder.name + "-other")
    outside.mkdir()
    (outside / "x").touch()
    (folder / "x").symlink_to(outside / "x")
    assert "by a symbolic link" in fault("x", folder)


def test_a_link_inside_the_folder(folder):
    (folder / "link.xml").symlink_to("model/model.xml")
    assert fault("link.xml", folder) is None


def test_a_link_in_a_circle(folder):
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    assert fault("a", folder).startswith("there is no file `a`")


def test_the_model_folder_itself_may_be_a_link(folder, tmp_path_factory):
    link = tmp_path_factory.mktemp("repository") / "model"
    link.symlink_to(folder)
    assert fault("model/model.xml", link) is None


def test_a_folder_is_no_file(folder):
    assert fault("model", folder) == (
        "`model` is a folder, not a file; it holds: chat_template.jinja, model.xml, tokenizer.json"
    )


def test_the_same_name_elsewhere_is_offered(folder):
    assert (
        fault("tokenizer.json", folder) == "there is no file `tokenizer.json`; near it: model/tokenizer.json"
    )


def test_a_misspelt_name_is_offered(folder):
    assert fault("model/tokeniser.json", folder).endswith("; near it: model/tokenizer.json")


def test_without_a_near_name_the_files_are_listed(folder):
    assert fault("zzz", folder).endswith(
        "; the model's folder holds: model/chat_template.jinja, model/model.xml, model/tokenizer.json"
    )


def test_a_long_list_is_cut(tmp_path):
    for index in range(9):
        (tmp_path / f"part{index}").touch()
    assert fault("zzz", tmp_path).endswith("part4, part5 and 3 more")


def test_an_empty_folder(tmp_path):
    assert fault("x", tmp_path) == "there is no file `x`; the model's folder is empty"


def test_a_name_longer_than_any_file(folder):
    assert "there is no file" in fault("x" * 5000, folder)


def test_a_path_is_normalised_so_that_the_same_file_is_the_same_text(folder):
    graph = check(
        toys.CHAT.replace("path: model/model.xml", "path: ./model//model.xml"),
        toys.NODE_TYPES,
        toys.TASKS,
        folder,
    )
    path = graph["generated"].body[0].config.path
    assert path == "model/model.xml"
    assert isinstance(path, FilePath)


@pytest.mark.parametrize(
    ("setting", "where"),
    [("extra: ../x", "`extra`"), ("parts: [{file: ../x}]", "`parts[0].file`")],
    ids=["optional", "in a list of nested settings"],
)
def test_paths_are_checked_wherever_they_stand(setting, where, problems):
    assert problems(toys.CHAT.replace("device: cpu", setting)) == [
        f"12: {where}: `../x` leaves the model's folder; put the file inside it"
    ]


def test_a_path_of_another_type(problems):
    assert problems(toys.CHAT.replace("path: model/model.xml", "path: 3")) == [
        "12: `path` must be a valid string, not 3"
    ]


def test_braces_in_a_name_stand_as_they_are(problems):
    (problem,) = problems(toys.CHAT.replace("path: model/model.xml", "path: 'x{fault}.xml'"))
    assert "there is no file `x{fault}.xml`" in problem


def test_a_folder_is_not_a_file_and_exists(tmp_path):
    (tmp_path / "adapters").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "out").symlink_to("/tmp")
    assert folder_fault("adapters", tmp_path) is None
    assert folder_fault("missing", None) is None
    assert folder_fault("file", tmp_path) == "there is no folder `file`; make it, it may be empty"
    assert "leaves the model's folder by a symbolic link" in folder_fault("out", tmp_path)
    assert "leaves the model's folder" in folder_fault("../x", tmp_path)
