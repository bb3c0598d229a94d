"""Converts results to a JSON file and to tables for docs/gpu.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.lab.gpu_check.run import Result

AIMS = {"8b alone": 0.6, "8b against transformers": 3.0}
"""Goals: a share of the floor by memory bandwidth with one sequence; times transformers' speed with 32."""
FACTS = (
    "GPU",
    "nvidia-smi",
    "driver CUDA",
    "python",
    "torch",
    "cupy",
    "onnxruntime",
    "transformers",
)
SIZES = ("8b", "0.6b")
BATCHES = (1, 8, 32, 128)


def write_json(path: Path, results: list[Result], command: str, date: str) -> None:
    """Add these results to the file; a repeated check replaces its earlier result."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"results": []}
    merged = {result["name"]: result for result in [*known["results"], *results]}
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"date": date, "command": command, "results": list(merged.values())}
    path.write_text(json.dumps(made, indent=1) + "\n")


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report (what `write_json` wrote) as markdown; parts that did not run are left out."""
    results = {result["name"]: result for result in report["results"]}
    parts = [_about(report, results), _checks(report["results"]), *(_speed(results, size) for size in SIZES)]
    parts += [_profile(results, size) for size in SIZES]
    parts += [_adapters(results), _encoders(results), _kernels(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdicts(results: Mapping[str, Result]) -> list[str]:
    """Which targets were reached, one line each, without those that were not measured."""
    lines = []
    alone = _figure(results, "decode_8b", "decode 1", "of_floor")
    if alone is not None:
        lines.append(_verdict("8B, 1 sequence, share of the memory-bandwidth floor", alone, AIMS["8b alone"]))
    ratio = _ratio(results, "8b", 32)
    if ratio is not None:
        aim = AIMS["8b against transformers"]
        lines.append(_verdict("8B, 32 sequences, times transformers' continuous batching", ratio, aim))
    return lines


def _verdict(what: str, found: float, aim: float) -> str:
    return f"{what}: {found:.2f} (aim {aim:g}: {'reached' if found >= aim else 'missed'})"


def _about(report: Mapping[str, Any], results: Mapping[str, Result]) -> str:
    figures = results.get("environment", {}).get("figures", {})
    known = ", ".join(f"{name} {figures[name]}" for name in FACTS if name in figures)
    return f"{report['date']}, `{report['command']}`: {known or 'the environment was not checked'}."


def _checks(results: Iterable[Result]) -> str:
    rows = [
        [result["name"], result["state"], f"{result['seconds']:.0f}", _first_line(result["why"])]
        for result in results
    ]
    return _table(["check", "result", "s", "why"], rows)


def _speed(results: Mapping[str, Result], size: str) -> str:
    rows = [
        row for batch in BATCHES for graphs in (True, False) if (row := _row(results, size, batch, graphs))
    ]
    if not rows:
        return ""
    head = [
        "sequences",
        "graphs",
        "tokens/s",
        "step ms",
        "floor ms",
        "of floor",
        "engine ms",
        "model ms",
        "sampling ms",
        "with prompts, tokens/s",
        "transformers, tokens/s",
        "times transformers",
    ]
    lines = [f"### Decoding, {size} shape, float16", _table(head, rows)]
    prefill = results.get(f"decode_{size}", {}).get("figures", {}).get("prefill")
    if prefill:
        lines.append(
            f"A prompt of {prefill['tokens']} tokens in chunks of {prefill['chunk']}: "
            f"{prefill['tokens_s']:.0f} tokens/s, {prefill['tflops']:.0f} TFLOP/s."
        )
    gb_s = results.get(f"decode_{size}", {}).get("figures", {}).get("bandwidth GB/s")
    lines += [f"Floor: weights and cache read once at the measured {gb_s:.0f} GB/s."] if gb_s else []
    lines += [f"- {verdict}" for verdict in verdicts(results)] if size == "8b" else []
    return "\n\n".join(lines)


def _row(results: Mapping[str, Result], size: str, batch: int, graphs: bool) -> list[str]:
    name = f"decode {batch}" if graphs else f"decode {batch} without graphs"
    figure = results.get(f"decode_{size}", {}).get("figures", {}).get(name)
    if not figure:
        return []
    peer = _figure(results, f"transformers_{size}", f"decode {batch}", "whole_tokens_s") if graphs else None
    ratio = _ratio(results, size, batch) if graphs else None
    numbers = [figure[key] for key in ("step_ms", "floor_ms", "of_floor", "host_ms", "model_ms", "sample_ms")]
    return [
        str(batch),
        "yes" if graphs else "no",
        f"{figure['tokens_s']:.0f}",
        *(f"{number:.2f}" for number in numbers),
        f"{figure['whole_tokens_s']:.0f}",
        "" if peer is None else f"{peer:.0f}",
        "" if ratio is None else f"{ratio:.1f}",
    ]


def _ratio(results: Mapping[str, Result], size: str, batch: int) -> float | None:
    """Output tokens/s, prompts included, over transformers'."""
    own = _figure(results, f"decode_{size}", f"decode {batch}", "whole_tokens_s")
    peer = _figure(results, f"transformers_{size}", f"decode {batch}", "whole_tokens_s")
    return own / peer if own and peer else None


def _figure(results: Mapping[str, Result], check: str, name: str, key: str) -> float | None:
    found = results.get(check, {}).get("figures", {}).get(name, {}).get(key)
    return None if found is None else float(found)


def _profile(results: Mapping[str, Result], size: str) -> str:
    figures = results.get(f"decode_{size}", {}).get("figures", {})
    lines = []
    for batch, graphs in ((batch, graphs) for batch in BATCHES for graphs in ("", " without graphs")):
        steps = figures.get(f"profile {batch}{graphs}")
        if not steps:
            continue
        rows = [
            [f"{kernel['us']:.1f}", f"{kernel['launches']:.0f}", f"`{name}`"]
            for name, kernel in steps["kernels"].items()
        ]
        lines += [
            f"### A decode step of {batch}{graphs}, {size} shape",
            f"{steps['launches']:.0f} kernels; the device is idle {steps['idle share']:.1%} of the time.",
            _table(["µs a step", "launches", "kernel"], rows),
        ]
    return "\n\n".join(lines)


def _adapters(results: Mapping[str, Result]) -> str:
    figures = results.get("adapter_speed", {}).get("figures", {})
    columns = ["without the line", "0 adapters", "1 adapters", "4 adapters"]
    rows = [
        [name.removeprefix("decode "), *(_beside(times, column, columns[0]) for column in columns)]
        for name, times in figures.items()
    ]
    if not rows:
        return ""
    title = "### A decode step with adapters of rank 16 on all linear layers, 0.6b shape, ms"
    return title + "\n\n" + _table(["sequences", *columns], rows)


def _beside(times: Mapping[str, float], name: str, first: str) -> str:
    """A time, and its ratio to the first."""
    if name not in times:
        return ""
    return f"{times[name]:.2f}" + ("" if name == first else f" ({times[name] / times[first]:.2f})")


def _encoders(results: Mapping[str, Result]) -> str:
    figures = results.get("encoder_speed", {}).get("figures", {})
    ways = ("device_texts_s", "device_tokens_s", "host_texts_s", "copied_texts_s")
    rows = [
        [
            name,
            *(f"{encoder[way]:.0f}" for way in ways),
            f"{encoder['device_texts_s'] / encoder['host_texts_s']:.2f}",
        ]
        for name, encoder in figures.items()
    ]
    if not rows:
        return ""
    head = ["encoder", "texts/s", "tokens/s", "pooled on the host", "copied alone", "times the host"]
    return "### Encoders, texts of all lengths\n\n" + _table(head, rows)


def _kernels(results: Mapping[str, Result]) -> str:
    figures = results.get("kernel_times", {}).get("figures", {})
    rows = [
        [
            name,
            f"{kernel['call_us']:.1f}",
            *("" if kernel[key] is None else f"{kernel[key]:.0f}" for key in ("device_us", "gb_s")),
        ]
        for name, kernel in figures.items()
    ]
    if not rows:
        return ""
    head = ["call, rows", "µs a call", "µs on the device", "GB/s"]
    return "### Kernels, vocabulary 151,936\n\n" + _table(head, rows)


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "").replace("|", "\\|")
