"""Session and inference calculators become one infer graph: a tensor_model line for each inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphs.errors import hint
from pipelines.repository.files.model_versions import other_version
from pipelines.repository.files.report import Report
from pipelines.repository.files.text_format import TextMessage
from pipelines.repository.files.yaml_words import settings_text, word
from pipelines.repository.ovms.calculators import INFERENCE, SESSION
from pipelines.repository.ovms.options import Given, Option, read_options

PLACE = "graph.pbtxt"
ORDER = "streams are wired by their tags"
SESSION_OPTIONS = (
    Option("servable_name", str, required=True),
    Option("servable_version", str, ""),
    Option("server_config", str, "", refused="the server's own config.json is read"),
)
INFERENCE_OPTIONS = (
    Option("tag_to_input_tensor_names", TextMessage, repeated=True),
    Option("tag_to_output_tensor_names", TextMessage, repeated=True),
    Option("input_order_list", str, repeated=True, note=ORDER),
    Option("output_order_list", str, repeated=True, note=ORDER),
)
VECTORS = "OVTENSORS"
REQUEST = "the request"
MAX_SOURCES = 2
"""Settings of a tensor_model line: `tensors` and `beside`."""


@dataclass(frozen=True)
class ServedFile:
    """The model of a servable: its file as the graph names it, further settings of its line, and how many
    runs of it may take place at once.
    """

    path: str
    settings: Mapping[str, Any]
    max_runs: int | None = None


@dataclass(frozen=True)
class _Step:
    """One inference: which streams it reads and gives, each with the model's name of the tensor."""

    line: int
    servable: str
    reads: Mapping[str, str]
    gives: Mapping[str, str]


def graph_lines(
    graph: TextMessage, nodes: list[TextMessage], servables: Mapping[str, ServedFile], report: Report
) -> list[str]:
    """The lines of graph.yaml from the task on; [] with a problem in `report`."""
    sessions = _sessions(nodes, servables, report)
    steps = [_step(node, sessions, report) for node in nodes if node.text("calculator") == INFERENCE]
    if not steps and not report.problems:
        report.problem(1, f"the graph has no {INFERENCE}")
    inputs = [_name(stream) for stream in _texts(graph, "input_stream")]
    ordered = _ordered(steps, inputs, report)
    results = [_name(stream) for stream in _texts(graph, "output_stream")]
    if report.problems or not ordered:
        return []
    _check_results(ordered, results, report)
    _check_sources(ordered, inputs, report)
    return [] if report.problems else _infer_lines(ordered, inputs, results, servables)


def servable_names(node: TextMessage) -> list[str]:
    """The servables that a session calculator names; a version as `NAME/versions/N`."""
    if node.text("calculator") != SESSION:
        return []
    given = read_options(node, f"{SESSION}Options", SESSION_OPTIONS, Report(""))
    return [_servable(given)] if given["servable_name"] else []


def _servable(given: Given) -> str:
    """The servable of a session: the newest version, unless another is asked for."""
    name, version = given["servable_name"] or "", given["servable_version"]
    return other_version(name, int(version)) if version.isdecimal() and int(version) else name


def _sessions(
    nodes: list[TextMessage], servables: Mapping[str, ServedFile], report: Report
) -> dict[str, str]:
    """Side packet → servable."""
    sessions = {}
    for node in nodes:
        if node.text("calculator") != SESSION:
            continue
        options = read_options(node, f"{SESSION}Options", SESSION_OPTIONS, report)
        name, version = _servable(options), options["servable_version"]
        if version and not version.isdecimal():
            report.problem(options.line("servable_version"), "`servable_version` must be a number in quotes")
        elif options["servable_name"] is not None and name not in servables:
            report.problem(
                options.line("servable_version" if version else "servable_name"),
                f"no model `{name}` stands in config.json or subconfig.json{hint(name, servables, 'models')}",
            )
        sessions[_name(node.text("output_side_packet"))] = name
    return sessions


def _step(node: TextMessage, sessions: Mapping[str, str], report: Report) -> _Step:
    given = read_options(node, f"{INFERENCE}Options", INFERENCE_OPTIONS, report)
    packet = _name(node.text("input_side_packet"))
    if packet not in sessions:
        report.problem(node.line, f"no {SESSION} gives its side packet `{packet}`")
    reads = _streams(node, "input_stream", _pairs(given, "tag_to_input_tensor_names", report), report)
    gives = _streams(node, "output_stream", _pairs(given, "tag_to_output_tensor_names", report), report)
    return _Step(node.line, sessions.get(packet, ""), reads, gives)


def _pairs(given: Given, name: str, report: Report) -> dict[str, str]:
    found = {}
    for pair in given[name]:
        key, value = pair.text("key"), pair.text("value")
        if not key or not value:
            report.problem(pair.line, f"`{name}` needs a key and a value, both texts")
        found[key] = value
    return found


def _streams(node: TextMessage, field: str, names: Mapping[str, str], report: Report) -> dict[str, str]:
    """Stream → the model's name of its tensor."""
    streams = {}
    for field_value in node.all(field):
        tag, colon, name = str(field_value.value).rpartition(":")
        tag = tag.split(":")[0]
        if tag.startswith(VECTORS):
            report.problem(
                field_value.line, f"{tag} is a vector of tensors; name each tensor with a tag of its own"
            )
        elif not colon:
            report.problem(field_value.line, f"the stream `{name}` needs a tag, TAG:{name}")
        streams[name] = names.get(tag, tag)
    return streams


def _ordered(steps: list[_Step], inputs: list[str], report: Report) -> list[_Step]:
    """The steps so that each comes after those whose streams it reads."""
    known, waiting, ordered = set(inputs), list(steps), []
    while ready := [step for step in waiting if known.issuperset(step.reads)]:
        waiting = [step for step in waiting if step not in ready]
        ordered += ready
        known.update(name for step in ready for name in step.gives)
    available = known | {name for step in waiting for name in step.gives}
    for step in waiting:
        missing = [name for name in step.reads if name not in available]
        why = f"nothing gives its stream {', '.join(missing)}" if missing else "its streams run in a cycle"
        report.problem(step.line, why)
    return ordered


def _check_results(steps: list[_Step], results: list[str], report: Report) -> None:
    for number, step in enumerate(steps):
        readers = {name for later in steps[number + 1 :] for name in later.reads}
        if step is not steps[-1] and not readers & set(step.gives):
            report.problem(step.line, "nothing reads what this node gives; the last one gives the result")
    for name in results:
        if name not in steps[-1].gives:
            report.problem(
                steps[-1].line,
                f"the last node must give the output stream `{name}`: Braid replies what it gives",
            )


def _check_sources(steps: list[_Step], inputs: list[str], report: Report) -> None:
    givers = dict.fromkeys(inputs, REQUEST)
    for step in steps:
        sources = dict.fromkeys(givers[name] for name in step.reads)
        if len(sources) > MAX_SOURCES:
            report.problem(
                step.line,
                f"it reads from {', '.join(sources)}; a node may read from {MAX_SOURCES}, of which the "
                "request is one",
            )
        givers |= dict.fromkeys(step.gives, f"the node in line {step.line}")


def _infer_lines(
    steps: list[_Step], inputs: list[str], results: list[str], servables: Mapping[str, ServedFile]
) -> list[str]:
    givers: dict[str, str] = dict.fromkeys(inputs, "batch")
    lines = []
    for number, step in enumerate(steps, 1):
        served = servables[step.servable]
        sources = list(dict.fromkeys(givers[name] for name in step.reads))
        settings = settings_text(
            {
                "from": sources[0] if len(sources) == 1 else {"tensors": sources[0], "beside": sources[1]},
                "path": served.path,
                "inputs": {tensor: stream for stream, tensor in step.reads.items() if tensor != stream}
                or None,
                "outputs": {tensor: stream for stream, tensor in step.gives.items()} or None,
                **served.settings,
            }
        )
        lines.append(f"      model_{number}: {{type: tensor_model{settings}}}  #@ {PLACE}:{step.line}")
        givers |= dict.fromkeys(step.gives, f"model_{number}")
    runs = [served for served in (servables[step.servable].max_runs for step in steps) if served]
    return [
        *("task: infer", "nodes:", "  result:", "    type: infer", "    from: request"),
        *([f"    max_runs: {max(runs)}"] if runs else []),
        *([f"    outputs: {word(results)}"] if results else []),
        *("    body:", *lines),
    ]


def _texts(message: TextMessage, name: str) -> list[str]:
    return [each.value for each in message.all(name) if isinstance(each.value, str)]


def _name(stream: str) -> str:
    """The name of a stream or side packet, without its tag."""
    return stream.rpartition(":")[2]
