"""Writes the table of API families into a page: `python -m tools.lab.reference.apis docs/api.md`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pipelines.base.errors import RequestError
from server.apis.routes import every_api
from server.base.api_names import API_NAMES
from server.services.api import Api
from tools.lab.reference.setting_rows import table

BEGIN, END = "<!-- families: `make docs` writes this table -->", "<!-- end of families -->"
MAX_PATHS = 4
HEAD = ("name in `BRAID_APIS`", "what it is", "paths", "an error")


def with_table(text: str) -> str:
    """The page with the table made again, between its two comments."""
    place = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    return place.sub(lambda _: f"{BEGIN}\n\n{families()}\n{END}", text)


def families() -> str:
    """One row for each family, in the order of their names."""
    rows = []
    for name, what in sorted(API_NAMES.items()):
        apis = [api for api in every_api() if api.name == name]
        paths = [path for api in apis for path in _paths(api)]
        more = f" and {len(paths) - MAX_PATHS} more" if len(paths) > MAX_PATHS else ""
        shown = ", ".join(f"`{path}`" for path in paths[:MAX_PATHS]) + more
        spoken = next((api for api in apis if api.speaks), apis[0]).dialect
        error = spoken.error(RequestError("text")).to_json().decode()
        rows.append((f"`{name}`", what, shown, f"`{error}`"))
    return table(HEAD, rows)


def _paths(api: Api) -> list[str]:
    """The paths of a family, those below the prefixes with /v1 before them."""
    found = [*api.root, *(f"/v1{path}" for path in (*api.prefixed, *api.sockets))]
    return list(dict.fromkeys(re.sub(r":\w+\}", "}", path) for path in found))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(with_table(page.read_text()))
