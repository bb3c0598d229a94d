"""The README's tree is the tree: one line for each file, none for a file that is gone."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("graphs", "pipelines", "ops", "server", "tools")
UNLISTED = ("__init__.py",)


def listed():
    """Paths of the tree in the README, from its indentation."""
    (tree,) = re.findall(r"## The tree.*?```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    folders: list[tuple[int, str]] = []
    for line in tree.splitlines():
        entry = line.strip().split("  ")[0].strip()
        if not entry:
            continue
        depth = len(line) - len(line.lstrip())
        folders = [(at, name) for at, name in folders if at < depth]
        if entry.endswith("/"):
            folders.append((depth, entry))
        else:
            yield "".join(name for _, name in folders) + entry


def test_the_tree_lists_every_module():
    files = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if path.name not in UNLISTED
    }
    assert sorted(files) == sorted(name for name in listed() if name.endswith(".py"))
