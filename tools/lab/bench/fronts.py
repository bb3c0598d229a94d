"""`python -m tools.lab.bench.fronts NAME=URL …`: what a proxy, or Ray Serve, adds to requests.

Of several addresses of the same models, the first one is compared with: in each round every address gets a
list of models, a chat of one token, and a stream, in changing order, on a connection that stays open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import click
import httpx
from rich.console import Console
from rich.table import Table

COLUMNS = {
    "models": "list of models",
    "short": "one token",
    "first": "first token of a stream",
    "token": "each later token",
}
Measured = dict[str, list[float]]
"""What was measured → its milliseconds, one of each round."""


class Front:
    """One address, and what was measured there."""

    def __init__(self, name: str, url: str, model: str | None, tokens: int) -> None:
        self.name = name
        self.measured: Measured = {column: [] for column in COLUMNS}
        self._client = httpx.Client(base_url=url, timeout=120, trust_env=False)
        self._model = model or self._client.get("/v1/models").raise_for_status().json()["data"][0]["id"]
        self._tokens = tokens

    def round(self) -> None:
        """Measure everything once.  Raises httpx.HTTPError."""
        self._take("models", lambda: self._client.get("/v1/models").raise_for_status())
        self._take("short", lambda: self._client.post(**self._chat(1)).raise_for_status())
        self._stream()

    def _stream(self) -> None:
        begin_s, arrivals = time.perf_counter(), []
        with self._client.stream("POST", **self._chat(self._tokens, stream=True)) as reply:
            reply.raise_for_status()
            for line in reply.iter_lines():
                if '"content":"' in line:
                    arrivals.append(time.perf_counter() - begin_s)
        first_s, last_s = arrivals[1], arrivals[-1]  # before the first token comes the role
        self.measured["first"].append(1e3 * first_s)
        self.measured["token"].append(1e3 * (last_s - first_s) / (self._tokens - 1))

    def close(self) -> None:
        self._client.close()

    def _take(self, column: str, ask: Callable[[], object]) -> None:
        begin_s = time.perf_counter()
        ask()
        self.measured[column].append(1e3 * (time.perf_counter() - begin_s))

    def _chat(self, tokens: int, **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": "Write about the sea."}]
        limits = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        return {
            "url": "/v1/chat/completions",
            "json": {"model": self._model, "messages": messages, **limits, **more},
        }


def row(front: Front, first: Front) -> list[str]:
    """Medians, and the median of what a round took more than that of the first front."""
    found = [front.name]
    for column, times in front.measured.items():
        more = median(one - other for one, other in zip(times, first.measured[column], strict=True))
        found.append(f"{median(times):.1f} ms" + ("" if front is first else f" ({more:+.1f})"))
    return found


@click.command()
@click.argument("addresses", nargs=-1, required=True, metavar="NAME=URL …")
@click.option("--rounds", default=30, show_default=True)
@click.option("--tokens", default=64, show_default=True, help="Of each stream.")
@click.option("--model", help="Else the first of each address.")
def main(addresses: tuple[str, ...], rounds: int, tokens: int, model: str | None) -> None:
    """Print medians for each address, and in brackets how much a round was slower than at the first one."""
    if not all("=http" in address for address in addresses):
        raise click.BadParameter("an address is NAME=http://HOST:PORT", param_hint="NAME=URL")
    fronts = [Front(*address.split("=", 1), model, tokens) for address in addresses]
    for front in fronts:
        front.round()  # what is made once
        front.measured = {column: [] for column in COLUMNS}
    for number in range(rounds):
        shift = number % len(fronts)
        for front in fronts[shift:] + fronts[:shift]:
            front.round()
    table = Table("front", *COLUMNS.values())
    for front in fronts:
        table.add_row(*row(front, fronts[0]))
    Console().print(table)
    for front in fronts:
        front.close()


if __name__ == "__main__":
    main()
