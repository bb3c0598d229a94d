"""Who may import whom.  The table is the architecture; a border that moves is moved here first."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("graphs", "ops", "pipelines", "server", "tools", "tests")


# folder or module → what of ours it may import; a longer name wins over a shorter one
SHARED = {
    "graphs",
    "pipelines.adapters",
    "pipelines.bounded_processes",
    "pipelines.cancellation",
    "pipelines.code_digest",
    "pipelines.element_types",
    "pipelines.errors",
    "pipelines.float_tensors",
    "pipelines.prepared_models",
    "pipelines.tasks",
    "pipelines.values",
    "pipelines.wire",
}
STEP_CONTRACTS = {"pipelines.host.engine.step", "pipelines.host.engine.encoder_batch"}
BATCH_CHECKS = {"pipelines.host.engine.batching.text_checks"}
IN_THE_HOST = SHARED | {"ops", "pipelines.nodes", "pipelines.host.backends", "pipelines.host.engine"}
IN_THE_HOST |= {"pipelines.host.guides", "pipelines.host.sampling"}
ENGINE_NODE = IN_THE_HOST | {"pipelines.grammars"}  # its `run` is the worker's, its `start` the engine host's
MAY_IMPORT = {
    "graphs": {"graphs"},
    "ops": {"ops"},
    # both processes
    "pipelines": {"graphs", "pipelines"},
    "pipelines.adapters": {"pipelines.adapters", "pipelines.float_tensors"},
    "pipelines.float_tensors": set(),
    "pipelines.errors": set(),
    "pipelines.prepared_models": {"pipelines.cache_folder"},
    "pipelines.element_types": set(),
    "pipelines.bounded_process": set(),
    "pipelines.bounded_processes": {"pipelines.cancellation", "pipelines.errors"},
    "pipelines.cancellation": {"pipelines.errors"},
    "pipelines.code_digest": set(),
    "pipelines.cpu_cores": set(),
    "pipelines.garbage_collection": set(),
    "pipelines.values": {"pipelines.wire"},
    "pipelines.tasks": {"graphs", "pipelines.values"},
    "pipelines.loading": SHARED | {"pipelines.nodes", "pipelines.repository", "pipelines.loading"},
    "pipelines.repository": {"graphs", "pipelines.cache_folder", "pipelines.code_digest"}
    | {"pipelines.gguf", "pipelines.repository"},
    "pipelines.gguf": {
        "pipelines.cache_folder",
        "pipelines.code_digest",
        "pipelines.gguf",
        "pipelines.host.backends.onnx.decoder_format",
    },
    "pipelines.encoder_decoder": {
        "pipelines.encoder_decoder",
        "pipelines.gguf.onnx_writer",
        "pipelines.host.backends.onnx.decoder_format",
    },
    "pipelines.whisper": {
        "pipelines.encoder_decoder",
        "pipelines.gguf.onnx_writer",
        "pipelines.host.backends.onnx.decoder_format",
        "pipelines.whisper",
    },
    "pipelines.telemetry": {"pipelines.telemetry"},
    "pipelines.grammars": SHARED | {"pipelines.garbage_collection", "pipelines.grammars"},
    "pipelines.wire": {"pipelines.element_types", "pipelines.errors"}
    | {"pipelines.telemetry.last_requests", "pipelines.telemetry.request_record"}
    | {"pipelines.telemetry.step_profile", "pipelines.wire"},
    "pipelines.nodes": {*SHARED, *STEP_CONTRACTS, "ops", "pipelines.grammars", "pipelines.nodes"},
    **{
        f"pipelines.nodes.{name}": ENGINE_NODE
        for name in (
            "generation.scheduler",
            "pooling.batcher",
            "speech.word_times",
            "tensors.infer",
            "voice.synthesizer",
        )
    },
    "pipelines.nodes.body_interface": IN_THE_HOST | {"pipelines.telemetry"},
    "pipelines.nodes.text.tokenizing.text_reader": SHARED | {"pipelines.nodes", *BATCH_CHECKS},
    **{f"pipelines.nodes.{room}.body": IN_THE_HOST for room in ("generation", "pooling", "tensors")},
    # the worker
    "pipelines.worker": SHARED
    | {"pipelines.garbage_collection", "pipelines.loading", "pipelines.nodes", "pipelines.repository"}
    | {"pipelines.telemetry", "pipelines.worker"},
    "pipelines.nodes.text.parsers": {"pipelines.values", "pipelines.nodes.text.parsers"},
    "server": {"graphs.errors", "graphs.keep_alive", "graphs.outline", "pipelines", "server"},
    "server.http": {"pipelines.cancellation", "pipelines.errors", "server.dialects", "server.http"}
    | {"pipelines.telemetry.request_trace"},
    "server.cli": {"graphs", "pipelines", "server"},
    # the engine host
    "pipelines.host": SHARED
    | {"ops", "pipelines.cache_folder", "pipelines.garbage_collection", "pipelines.host", "pipelines.loading"}
    | {"pipelines.nodes", "pipelines.repository", "pipelines.request_lines", "pipelines.telemetry"},
    "pipelines.host.engine.tensor_engine": SHARED
    | {"pipelines.host.engine", "pipelines.host.backends.tensor_contract", "pipelines.telemetry"},
    "pipelines.host.engine": {"ops", "pipelines.adapters", "pipelines.errors", "pipelines.host.engine"}
    | {"pipelines.host.sampling", "pipelines.telemetry", "pipelines.wire"},
    "pipelines.host.sampling": {"ops", "pipelines.errors", "pipelines.host.engine.step"}
    | {"pipelines.host.engine.step_context"}
    | {"pipelines.host.sampling", "pipelines.wire"},
    "pipelines.host.guides": {"pipelines.errors", "pipelines.grammars", "pipelines.host.guides"}
    | {"pipelines.host.sampling", "pipelines.wire"},
    "pipelines.host.backends": {"ops", "pipelines.adapters", "pipelines.element_types", "pipelines.errors"}
    | {"pipelines.code_digest", "pipelines.cpu_cores", "pipelines.prepared_models"}
    | {"pipelines.host.backends", *STEP_CONTRACTS},
    # neither: people's tools
    "tools": {"graphs", "ops", "pipelines", "server", "tools"},
}
HEAVY = {"torch", "transformers", "optimum"}
ENGINES = {"openvino", "onnxruntime", "onnx", "cupy"}


def modules():
    for room in ("graphs", "ops", "pipelines", "server", "tools"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


@cache
def imports(path, at_run_time=True):
    """Full names that a file imports; those under `if TYPE_CHECKING` only with `at_run_time=False`."""
    return frozenset(imported(path, at_run_time))


def imported(path, at_run_time):
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


def import_graph():
    """Module → the modules of ours that it imports, TYPE_CHECKING included."""
    known = dict(modules())
    graph = {}
    for module, path in known.items():
        found = {name for name in imports(path, at_run_time=False) if name in known}
        # `from pipelines.telemetry import metrics` names the package and the module: the module decides
        graph[module] = {name for name in found if not any(other.startswith(name + ".") for other in found)}
    return graph


def circles(graph):
    """The strongly connected components of two or more modules, each sorted."""
    reach = {module: reachable(module, graph) for module in graph}
    found = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def reachable(module, graph):
    """All modules that `module` imports, directly or not."""
    found, open_ends = set(), [module]
    while open_ends:
        new = graph[open_ends.pop()] - found
        found |= new
        open_ends += new
    return found


def inside(name, rooms):
    return any(name == room or name.startswith(room + ".") for room in rooms)


def room_of(module):
    return max((room for room in MAY_IMPORT if inside(module, {room})), key=len)


def across_borders(module, path, at_run_time):
    """What of ours a module imports and may not."""
    allowed = MAY_IMPORT[room_of(module)]
    ours = {name for name in imports(path, at_run_time) if name.split(".")[0] in ROOMS}
    # `from pipelines.telemetry import metrics` names the package and the module: the module decides
    wholes = {name for name in ours if any(other.startswith(name + ".") for other in ours)}
    return {name for name in ours - wholes if not inside(name, allowed)}


@pytest.mark.parametrize("at_run_time", [True, False], ids=["at_run_time", "with_types"])
def test_each_module_stays_within_its_border(at_run_time):
    found = {module: across_borders(module, path, at_run_time) for module, path in modules()}
    assert {module: names for module, names in found.items() if names} == {}


def test_the_import_graph_has_no_circles():
    assert circles(import_graph()) == []


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "e"}, "e": {"d"}}
    assert circles(graph) == [["b", "c"], ["d", "e"]]


def test_serving_never_imports_what_only_export_needs():
    found = {
        module: {name for name in imports(path) if name.split(".")[0] in HEAVY}
        for module, path in modules()
        if not inside(module, {"tools"})
    }
    assert {module: names for module, names in found.items() if names} == {}


def test_only_backends_import_an_engine():
    found = {
        module
        for module, path in modules()
        if not inside(module, {"pipelines.host.backends", "ops.cuda", "tools"})
        and any(name.split(".")[0] in ENGINES for name in imports(path))
    }
    assert found == set()


def test_ray_is_imported_by_its_application_alone():
    theirs = {"server.ray_app", "server.ray_router"}
    users = {
        module for module, path in modules() if any(name.split(".")[0] == "ray" for name in imports(path))
    }
    assert users == theirs
    others = {module: path for module, path in modules() if module not in theirs}
    assert [module for module, path in others.items() if theirs & imports(path)] == []


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


def test_a_decoder_of_openvinos_own_form_is_opened_without_onnx():
    """Its packages take half a second and 40 MB of each engine host."""
    import subprocess
    import sys

    code = (
        "import sys, pipelines.host.__main__, pipelines.host.backends.openvino.prepared_decoder\n"
        "print([name for name in ('onnx', 'onnx_ir', 'sympy', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
