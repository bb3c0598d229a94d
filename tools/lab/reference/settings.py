"""docs/settings.md (`python -m tools.lab.reference.settings`): every variable of server/base/settings.py."""

from __future__ import annotations

from server.base.environment import PREFIX
from server.base.settings import Settings
from tools.lab.reference.setting_rows import setting_rows, table

TEXT = """# Settings

<!-- generated: python -m tools.lab.reference.settings > docs/settings.md -->

Every setting is an environment variable. `braid serve` has options for the most frequent ones (`braid serve
--help`); an option wins over its variable. An empty variable is the same as none. A wrong value or an
unknown `BRAID_` variable stops the start with a message that names it.

{settings}

Lists are separated by commas, spaces or line ends. `true or false` is written 1 or 0.

What belongs to one model (its device, cache, limits, parsers) is not a setting of the server: it is in the
model's [`graph.yaml`](graph_reference.md). Arguments of gunicorn are passed after two dashes: `braid serve
-- --certfile cert.pem --keyfile key.pem`.
"""


def page() -> str:
    """The whole page."""
    rows = [
        (f"`{PREFIX}{name.upper()}`", kind, default, description)
        for name, kind, default, description in setting_rows(Settings)
    ]
    return TEXT.format(settings=table(("variable", "type", "default", "meaning"), list(rows)))


if __name__ == "__main__":
    print(page(), end="")
