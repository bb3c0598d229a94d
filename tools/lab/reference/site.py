"""`make site`: hooks of mkdocs, which builds docs/ as a site.

The navigation is the list of docs/index.md.  README.md and CHANGELOG.md are pages of the site too; links to
other files of the repository become plain text, because the site does not hold them.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[3]
ADDED = {"README.md": "readme.md", "CHANGELOG.md": "changelog.md"}
"""File of the repository → its page."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
REMOTE = re.compile(r"""<(?:script|link|img)\b[^>]*(?:src|href)=["']?(https?:[^"'\s>]+)""")
SECTION = re.compile(r"^\*\*(.+)\*\*$|^- \[[^\]]+\]\(([\w.]+)\)", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index."""
    config.nav = [
        {"Documentation": "index.md"},
        {"Braid": "readme.md"},
        *sections(),
        {"Changes": "changelog.md"},
    ]
    return config


def sections() -> list[dict[str, Any]]:
    """The sections of docs/index.md, each with its pages."""
    found: list[dict[str, Any]] = []
    for title, page in SECTION.findall((ROOT / "docs" / "index.md").read_text()):
        if title:
            found.append({title: []})
        else:
            next(iter(found[-1].values())).append(page)
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand above docs/."""
    for name, page in ADDED.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to pages of the site, or to nothing."""
    folder = "" if page.file.src_uri in ADDED.values() else "docs"
    return LINK.sub(lambda link: link_in_site(folder, *link.groups(default="")), markdown)


def link_in_site(folder: str, text: str, target: str, anchor: str) -> str:
    """The link from a page of `folder`; its text alone where the site does not hold the target."""
    path = normpath(PurePosixPath(folder, target))
    page = ADDED.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    return text if page is None else f"[{text}]({page}{anchor})"


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Raise PluginError for a page that loads something from the net: the site works without one."""
    if remote := REMOTE.findall(output):
        raise PluginError(f"{page.file.src_uri} loads {remote[0]}")
    return output
