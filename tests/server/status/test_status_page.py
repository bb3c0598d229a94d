"""The files of the status page: what they are served with, and what is not served."""

from __future__ import annotations

import re

import pytest

from server import page
from server.apis.operations.status_page import FOLDER, TYPES

FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in TYPES)


def test_the_front_leads_to_the_page(rig):
    answer = rig.get("/")
    assert (answer.status, answer.headers["location"]) == (307, "/status")


def test_the_page_needs_no_key_and_runs_nothing_from_elsewhere(make_rig):
    answer = make_rig(api_keys=("secret",)).get("/status")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_sent_once_while_it_does_not_change(rig, name):
    first = rig.get(f"/status/{name}")
    assert first.body == (FOLDER / name).read_bytes()
    assert first.headers["content-type"] == TYPES[f".{name.rpartition('.')[2]}"]
    assert first.headers["cache-control"] == "no-cache"
    again = rig.get(f"/status/{name}", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert rig.get(f"/status/{name}", If_None_Match='"other"').status == 200


@pytest.mark.parametrize(
    "name",
    [
        "__init__.py",
        "__pycache__",
        "nothing.js",
        "..",
        "../settings.py",
        "..%2fsettings.py",
        ".",
        "INDEX.HTML",
    ],
)
def test_no_other_file_is_served(rig, name):
    assert rig.get(f"/status/{name}").status == 404


def test_html_has_neither_scripts_nor_styles_of_its_own():
    for path in FOLDER.glob("*.html"):
        html = path.read_text()
        assert re.findall(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", html) == []
        assert re.findall(r"(?:src|href)=\W?(?:https?:)?//", html) == []


@pytest.mark.parametrize("path", ["/", "/status", "/status/index.html", "/v1/status", "/v3/v1/status"])
def test_a_setting_turns_it_off(make_rig, path):
    assert make_rig(status=False).get(path).status == 404


def test_without_it_a_graph_is_the_name_of_a_model(make_rig):
    assert make_rig(status=False).get("/v1/models/tiny/graph").status == 404


def test_the_package_has_its_folder():
    assert page.__file__ is not None
    assert "index.html" in FILES
