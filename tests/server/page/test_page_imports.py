"""What a module of the page imports is exported by the module that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.nodes import NODE_TYPES
from server import page

FOLDER = Path(page.__file__).parent
MODULES = sorted(path.name for path in FOLDER.glob("*.js"))
TAKEN = r"^const TAKEN = \{([^}]*)\};"
EXPORTED = r"^export (?:async )?(?:function\*?|class|const|let) (\w+)"


@pytest.mark.parametrize("module", MODULES)
def test_imported_names_are_exported(module):
    text = (FOLDER / module).read_text()
    for names, source in re.findall(r'^import \{([^}]*)\} from "\./([^"]+)";', text, re.M | re.S):
        imported = {name.split(" as ")[0].strip() for name in names.split(",") if name.strip()}
        assert imported <= set(re.findall(EXPORTED, (FOLDER / source).read_text(), re.M)), source


def test_media_are_offered_by_types_of_nodes():
    """The playground names node types of graphs, which differ from the names of fields."""
    taken = re.search(TAKEN, (FOLDER / "play_media.js").read_text(), re.M)
    assert taken is not None
    types = re.findall(r"(\w+):", taken[1])
    assert types == ["images", "audio"]
    assert set(types) <= set(NODE_TYPES)
