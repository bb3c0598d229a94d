"""Who may import whom.  The table is the architecture; a border that moves is moved here first."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("graphs", "ops", "pipelines", "server", "tools", "tests")


# room → what of ours it may import; a longer name wins over a shorter one
MAY_IMPORT = {
    "graphs": {"graphs"},
    "ops": {"ops"},
    "pipelines": {"graphs", "ops", "pipelines"},
    "pipelines.errors": set(),
    "pipelines.telemetry.metrics": {
        "pipelines.telemetry.histogram",
        "pipelines.telemetry.engine_counts",
        "pipelines.telemetry.metric_names",
    },
    "pipelines.telemetry.metric_names": set(),
    "pipelines.host.sampling": {
        "ops",
        "pipelines.host.engine.step",
        "pipelines.errors",
        "pipelines.host.sampling",
    },
    "pipelines.wire.messages": {
        "pipelines.host.engine.step",
        "pipelines.telemetry.step_profile",
        "pipelines.host.sampling",
    },
    "pipelines.values": {"pipelines.host.engine.step", "pipelines.wire.messages"},
    "pipelines.tasks": {"graphs", "pipelines.values"},
    "pipelines.host.guides": {
        "pipelines.errors",
        "pipelines.host.guides",
        "pipelines.host.sampling",
        "pipelines.tasks",
    },
    "pipelines.worker.parsers": {"pipelines.worker.parsers", "pipelines.values"},
    "pipelines.host.engine": {
        "ops",
        "pipelines.host.engine",
        "pipelines.errors",
        "pipelines.telemetry.metrics",
        "pipelines.host.sampling",
    },
    "pipelines.host.backends": {
        "ops",
        "pipelines.host.backends",
        "pipelines.host.engine.encoder_batch",
        "pipelines.host.engine.step",
        "pipelines.errors",
    },
    "pipelines.nodes": {"graphs", "ops", "pipelines"},
    "server": {"graphs.errors", "pipelines", "server"},
    "server.cli": {"graphs", "pipelines", "server"},
    "tools": {"graphs", "ops", "pipelines", "server", "tools"},
}
NODES_MAY_NOT = {
    "pipelines.wire",
    "pipelines.host",
    "pipelines.worker.catalogue",
    "pipelines.repository.scan",
    "server",
}
HEAVY = {"torch", "transformers", "optimum"}
ENGINES = {"openvino", "onnxruntime", "onnx", "cupy"}


def modules():
    for room in ("graphs", "ops", "pipelines", "server", "tools"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def imports(path, at_run_time=True):
    """Full names that a file imports; what stands under `if TYPE_CHECKING` only when not at run time."""
    skipped = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and at_run_time:
            skipped.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def inside(name, rooms):
    return any(name == room or name.startswith(room + ".") for room in rooms)


def room_of(module):
    return max((room for room in MAY_IMPORT if inside(module, {room})), key=len)


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=str)
def test_a_module_stays_within_its_border(module, path):
    allowed = MAY_IMPORT[room_of(module)]
    ours = {name for name in imports(path) if name.split(".")[0] in ROOMS}
    # `from pipelines import metrics` names the package and the module: the module decides
    wholes = {name for name in ours if any(other.startswith(name + ".") for other in ours)}
    assert {name for name in ours - wholes if not inside(name, allowed)} == set()


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=str)
def test_serving_never_imports_what_only_export_needs(module, path):
    if not inside(module, {"tools"}):
        assert {name for name in imports(path) if name.split(".")[0] in HEAVY} == set()


def test_only_backends_import_an_engine():
    found = {
        module
        for module, path in modules()
        if not inside(module, {"pipelines.host.backends", "ops.cuda", "tools"})
        and any(name.split(".")[0] in ENGINES for name in imports(path))
    }
    assert found == set()


def test_nodes_know_neither_wire_nor_server():
    for module, path in modules():
        if inside(module, {"pipelines.nodes"}):
            assert not [name for name in imports(path) if inside(name, NODES_MAY_NOT)], module


def test_nobody_imports_tools_or_tests():
    for module, path in modules():
        if not inside(module, {"tools"}):
            assert not [name for name in imports(path) if inside(name, {"tools", "tests"})], module


def test_workers_load_no_engine(tmp_path):
    """A fresh interpreter that imports all of the worker's side has loaded no engine and no torch."""
    import subprocess
    import sys

    code = (
        "import sys, server.app, pipelines.worker.catalogue, pipelines.nodes as nodes\n"
        "[nodes.VOCABULARY[name] for name in nodes.NODE_TYPES]\n"
        f"print([name for name in {sorted(ENGINES | HEAVY)} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
