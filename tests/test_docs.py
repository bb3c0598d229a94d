"""What README.md, CONTRIBUTING.md and docs/ name exists: commands, modules, files, links, metrics, paths."""

from __future__ import annotations

import importlib.util
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path

import click
import pytest
from documents import PAGES, ROOT, Block, all_blocks
from every_case import every_case
from every_route import ROOT_ROUTES, ROUTES, SOCKET_ROUTES

from server.base.environment import PREFIX
from server.base.settings import Settings
from server.cli import main
from server.client_commands import PROGRAMS as PROGRAM_MODULES
from server.services.paths import PREFIXES
from tools.export.__main__ import main as export
from tools.lab.reference.drawings import drawn

TEXTS = {page: page.read_text() for page in PAGES}
BLOCKS = all_blocks()
SHELL = [block for block in BLOCKS if block.language in ("", "bash", "dockerfile")]
PYTHON = [block for block in BLOCKS if block.language == "python" and block.page.name != "contributing.md"]
DRAWINGS = [block for block in BLOCKS if block.text.startswith("$ braid check ")]
PROGRAMS = {
    "export": export,
    **{name: import_module(f"{module}.__main__").main for name, (module, _) in PROGRAM_MODULES.items()},
}
"""Commands that pass their arguments on → the program that reads them."""
OPTIONS = {
    name
    for each in [*main.commands.values(), *PROGRAMS.values()]
    for param in each.params
    for name in param.opts
}
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
VARIABLES = set(re.findall(r"^([A-Z]+) \??:?=", MAKEFILE, re.MULTILINE)) | {"QUICK"}
NOT_OURS = {
    *("BRAID_SCHEMAS", "BRAID_MUTATED_FILES", "BRAID_HTTP_CASES", "BRAID_IMAGE_CASES", "BRAID_SOCKET_EVENTS"),
    *("BRAID_API_KEY", "BRAID_URL"),
}
"""Variables of tests and of programs that use a server, not of the server."""
LINKED = (*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "model_repo").glob("*/README.md")))
"""Pages whose links are followed."""
LINKS = sorted({(page, link) for page in LINKED for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())})
FILES = re.compile(r"`((?:graphs|ops|pipelines|server|tools|tests|docs|model_repo)/[\w./-]*)`")


def named(pattern: str) -> list[tuple[str, str]]:
    """(page, name) of each match, once."""
    return sorted({(page.name, name) for page, text in TEXTS.items() for name in re.findall(pattern, text)})


@cache
def text_of(folder: str, pattern: str) -> str:
    """All files of a folder that match, one after the other."""
    return "".join(path.read_text() for path in (ROOT / folder).glob(pattern))


@cache
def anchors(page: Path) -> set[str]:
    """What a link to a heading of the page may name."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def commands(word: str) -> list[tuple[str, list[str]]]:
    """(where, words) of each command in a block or in backticks that starts with `word`."""
    commands_found = []
    for page, text in TEXTS.items():
        spans = re.findall(rf"`({word} [^`\n]+)`", text)
        commands_found += [(page.name, span) for span in spans]
    for block in SHELL:
        for line in block.text.splitlines():
            line = line.removeprefix("$ ").removeprefix(".venv/bin/").split("#")[0].strip()
            if line.startswith(f"{word} "):
                commands_found.append((str(block), line))
    return [(where, shlex.split(line.replace("…", ""))) for where, line in dict.fromkeys(commands_found)]


def test_the_readme_can_be_finished() -> None:
    assert len(TEXTS[ROOT / "README.md"].splitlines()) <= 200


def test_the_results_of_measurements_are_two_pages() -> None:
    """Whatever explains them is in performance_notes.md."""
    assert len(TEXTS[ROOT / "docs" / "performance.md"].split()) < 2000


def test_the_index_names_every_page() -> None:
    pages = {page.name for page in PAGES if page.parent == ROOT / "docs"} - {"index.md"}
    assert {name for name in pages if f"({name})" not in TEXTS[ROOT / "docs" / "index.md"]} == set()


@every_case(("where", "words"), commands("braid"))
def test_a_braid_command_exists_with_its_options(where: str, words: list[str]) -> None:
    name, *rest = words[1:]
    assert name.startswith("-") or name in main.commands, words
    ours = rest[: rest.index("--")] if "--" in rest else rest
    if name in PROGRAMS:
        known = {option for param in PROGRAMS[name].params for option in param.opts} | {"--help"}
    elif not name.startswith("-"):
        command = main.commands[name]
        command = command.commands[rest[0]] if isinstance(command, click.Group) else command
        known = {option for param in command.params for option in param.opts} | {"--help"}
    else:
        known = {"--help", "--version"}
    assert {word for word in ours if word.startswith("--")} <= known


@every_case(("where", "words"), commands("make"))
def test_a_make_target_exists_with_its_variables(where: str, words: list[str]) -> None:
    for word in words[1:]:
        assert word.partition("=")[0] in (VARIABLES if "=" in word else TARGETS), words


def test_every_target_of_make_is_shown_by_its_help() -> None:
    assert set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)) == TARGETS - {"pytest"}


@every_case(("page", "module"), named(r"python3? -m ([\w.]+)"))
def test_a_module_exists(page: str, module: str) -> None:
    assert importlib.util.find_spec(module)


@every_case(("page", "variable"), named(rf"\b({PREFIX}[A-Z_]+)\b"))
def test_a_variable_is_a_setting(page: str, variable: str) -> None:
    assert variable in NOT_OURS or variable.removeprefix(PREFIX).lower() in Settings.model_fields


@every_case(("page", "option"), named(r"`(--[a-z_-]+)[^`\n]*`"))
def test_an_option_in_the_text_exists(page: str, option: str) -> None:
    assert option in OPTIONS or f'"{option}"' in text_of("tools", "**/__main__.py")


@every_case(("page", "link"), LINKS)
def test_a_link_leads_somewhere(page: Path, link: str) -> None:
    if link.startswith("https://"):
        return
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    assert target.exists(), link
    if anchor:
        assert anchor in anchors(target)


@every_case(("page", "path"), named(FILES.pattern))
def test_a_path_in_the_text_exists(page: str, path: str) -> None:
    made_by_a_command = path.startswith(("model_repo/qwen3", "model_repo/minilm"))
    assert made_by_a_command or (ROOT / path).exists()


@every_case("block", PYTHON)
def test_a_python_block_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("page", sorted({block.page for block in DRAWINGS}), ids=lambda page: page.name)
def test_drawings_are_those_that_check_prints(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert drawn(TEXTS[page]) == TEXTS[page], "run `make docs`"


def test_commands_are_found() -> None:
    assert ["make", "help"] in [words for _, words in commands("make")]
    assert ["braid", "check"] in [words[:2] for _, words in commands("braid")]


@every_case(("page", "metric"), named(r"`((?:vllm:|braid:|http_|process_)[a-z_0-9]+)"))
def test_a_metric_exists(page: str, metric: str) -> None:
    source = text_of("pipelines/telemetry", "*.py")
    assert f'"{metric}"' in source or f'"{metric.removesuffix("_total")}"' in source


@every_case(("page", "path"), named(r"`(?:GET|POST|DELETE) (/[\w/{}.-]*)[?`]"))
def test_a_path_of_the_api_exists(page: str, path: str) -> None:
    under_prefixes = {prefix + each for prefix in PREFIXES for each in ROUTES | SOCKET_ROUTES}
    known = {re.sub(r"\{[^}]*\}", "{}", each) for each in under_prefixes | ROOT_ROUTES.keys()}
    whole = tuple(each.partition("{name:path}")[0] for each in ROOT_ROUTES if each.endswith("{name:path}"))
    assert re.sub(r"\{[^}]*\}", "{}", path) in known or path.startswith(whole)
