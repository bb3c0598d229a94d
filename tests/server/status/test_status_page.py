"""The files of the status page: what they are served with, and what is not served."""

from __future__ import annotations

import re

import pytest
from every_case import every_case

from server import page
from server.apis.operations.status_page import FOLDER, TYPES

FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in TYPES)


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
PAGE, OLLAMA = (307, "/status", b""), (200, None, b"Ollama is running")
NOTHING = (404, None, b"")
NO_OLLAMA = frozenset({"openai", "tei"})


FRONT = [
    ("a browser", {}, BROWSER, PAGE),
    ("a program", {}, "*/*", OLLAMA),
    ("a program that names no type", {}, None, OLLAMA),
    ("a browser, no page", {"status": False}, BROWSER, OLLAMA),
    ("a program, no page", {"status": False}, "*/*", OLLAMA),
    ("a program, Ollama's API alone", {"apis": frozenset({"ollama"}), "status": False}, "*/*", OLLAMA),
    ("a program, no Ollama", {"apis": NO_OLLAMA}, "*/*", PAGE),
    ("a program, neither", {"apis": NO_OLLAMA, "status": False}, "*/*", NOTHING),
]


@every_case(("who", "settings", "accept", "wanted"), FRONT)
def test_the_front_leads_browsers_to_the_page_and_answers_ollamas_clients(
    who, settings, accept, wanted, make_rig
):
    """Ollama's command line stops where HEAD / is no 200; other clients of it read the words of GET /."""
    rig = make_rig(api_keys=("secret",), **settings)
    status, place, body = wanted
    for method in ("GET", "HEAD"):
        answer = rig.ask(method, "/", headers={} if accept is None else {"Accept": accept})
        assert (answer.status, answer.headers.get("location")) == (status, place)
        if status != 404:
            assert answer.body == (body if method == "GET" else b"")


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


@pytest.mark.parametrize("path", ["/status", "/status/index.html", "/v1/status", "/v3/v1/status"])
def test_a_setting_turns_it_off(make_rig, path):
    assert make_rig(status=False).get(path).status == 404


def test_without_it_a_graph_is_the_name_of_a_model(make_rig):
    assert make_rig(status=False).get("/v1/models/tiny/graph").status == 404


def test_the_package_has_its_folder():
    assert page.__file__ is not None
    assert "index.html" in FILES
