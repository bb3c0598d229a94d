"""`python -m tools.lab.bench.tensors`: rows/s of a tensor model over KServe's protocol beside its bare call.

Prints a table and writes `build/bench-tensors.json`.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from tools.lab.bench.base.systems import ROOT, Served, free_port, without_settings
from tools.lab.bench.report import table
from tools.lab.bench.tensors.clients import AsBytes, Ask, InJSON, OverGRPC
from tools.lab.bench.tensors.measuring import measure
from tools.lab.bench.tensors.model import NAME, SIZES, bare_call, make_repository

BUILD = Path("build")
FOLDER = BUILD / "bench" / "tensors"
COLUMNS = {
    "workload": ("", "{}"),
    "system": ("", "{}"),
    "rows_per_s": ("rows/s", "{:.0f}"),
    "ratio": ("bare call\n/ it", "{:.2f}"),
}


@click.command()
@click.option("--clients", multiple=True, type=int, default=(1, 32), show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="Of each turn.")
@click.option("--rounds", default=3, show_default=True, help="How often each way has a turn.")
@click.option("--workers", default=1, show_default=True, help="Worker processes of the server.")
@click.option("--max-batch", default=32, show_default=True, help="Rows that the server joins.")
def main(clients: tuple[int, ...], seconds: float, rounds: int, workers: int, max_batch: int) -> None:
    """One row in each request, from each number of clients; the bare call takes as many rows at once."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped too
    console = Console(width=max(120, Console().width))

    def note(text: str) -> None:
        console.print(f"[dim]{text}", highlight=False)

    bare = bare_call(make_repository(FOLDER / "models", max_batch))
    port, grpc_port = free_port(), free_port()
    settings = {"BRAID_PORT": port, "BRAID_GRPC_PORT": grpc_port, "BRAID_WORKERS": workers}
    settings["BRAID_MODELS"] = (FOLDER / "models").resolve()
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    environment = without_settings() | {name: str(value) for name, value in settings.items()}
    server = Served(command, environment, port, NAME, FOLDER / "server.log")
    try:
        server.wait_until_ready()
        ways: dict[str, Ask] = {"JSON": InJSON(port), "bytes": AsBytes(port), "gRPC": OverGRPC(grpc_port)}
        rows = [
            row
            for number in clients
            for row in measure(
                ways, bare, number, seconds, rounds, lambda text: console.print(f"[dim]{text}")
            )
        ]
    finally:
        server.stop()
    (BUILD / "bench-tensors.json").write_text(json.dumps(rows, indent=2) + "\n")
    console.print(table(rows, COLUMNS, f"{len(SIZES) - 1} layers, rows of {SIZES[0]} numbers, f32"))


if __name__ == "__main__":
    main()
