"""Who may import whom.  The table is the architecture; a border that moves is moved here first."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from source_trees import tree_of

ROOT = Path(__file__).parents[1]
ROOMS = ("graphs", "ops", "pipelines", "server", "tools", "tests")


# folder or module → what of ours it may import; a longer name wins over a shorter one
SHARED = {"graphs", "pipelines.adapters", "pipelines.base", "pipelines.values", "pipelines.wire"}
STEP_CONTRACTS = {"pipelines.inference.contracts.step", "pipelines.inference.contracts.encoder_batch"}
BATCH_CHECKS = {"pipelines.inference.engine.batching.text_checks"}
OPENING = {
    "pipelines.inference.backends.open_model",
    "pipelines.inference.backends.registry",
}  # and no backend
IN_THE_HOST = SHARED | OPENING | {"ops", "pipelines.nodes", "pipelines.inference.contracts"}
IN_THE_HOST |= {"pipelines.inference.engine", "pipelines.inference.guides", "pipelines.inference.sampling"}
ENGINE_NODE = IN_THE_HOST | {
    "pipelines.grammars",
    "pipelines.retrieval",
}  # its `run` is the worker's, its `start` the engine host's
BELOW_APIS = {"graphs.errors", "graphs.keep_alive", "graphs.outline", "pipelines", "server.base"}
BELOW_APIS |= {"server.dialects", "server.http", "server.keys", "server.media", "server.schema"}
BELOW_APIS |= {"server.services"}
MAY_IMPORT = {
    "graphs": {"graphs"},
    "ops": {"ops"},
    # both processes, from the ground up
    "pipelines": {"graphs", "pipelines"},
    "pipelines.base": {"pipelines.base"},
    "pipelines.onnx_format": {"pipelines.onnx_format"},
    "pipelines.telemetry": {"pipelines.telemetry"},
    "pipelines.adapters": {"pipelines.adapters", "pipelines.base"},
    "pipelines.wire": {"pipelines.base", "pipelines.wire", "pipelines.telemetry.last_requests"}
    | {"pipelines.telemetry.request_record", "pipelines.telemetry.step_profile"},
    "pipelines.values": {"graphs", "pipelines.values", "pipelines.wire"},
    "pipelines.grammars": SHARED | {"pipelines.grammars"},
    "pipelines.gguf": {"pipelines.base", "pipelines.gguf", "pipelines.onnx_format"},
    "pipelines.hub": {"pipelines.base", "pipelines.hub", "pipelines.repository.model_folders"},
    "pipelines.retrieval": {"pipelines.base", "pipelines.retrieval", "pipelines.values"},
    "pipelines.repository": {"graphs", "pipelines.base", "pipelines.gguf", "pipelines.repository"},
    "pipelines.nodes": {*SHARED, *STEP_CONTRACTS, "ops", "pipelines.grammars", "pipelines.nodes"}
    | {"pipelines.retrieval"},
    **{
        f"pipelines.nodes.{name}": ENGINE_NODE
        for name in (
            "generation.scheduler",
            "entities.find_entities",
            "pooling.batcher",
            "retrieval.search",
            "speech.word_times",
            "tensors.infer",
            "voice.synthesizer",
        )
    },
    "pipelines.nodes.body_interface": IN_THE_HOST | {"pipelines.telemetry"},
    "pipelines.nodes.text.tokenizing.text_reader": SHARED | {"pipelines.nodes", *BATCH_CHECKS},
    "pipelines.nodes.text.parsers": {"pipelines.values", "pipelines.nodes.text.markup"}
    | {"pipelines.nodes.text.parsers"},
    "pipelines.nodes.text.markup": set(),
    **{f"pipelines.nodes.{room}.body": IN_THE_HOST for room in ("generation", "pooling", "tensors")},
    "pipelines.nodes.retrieval.body": IN_THE_HOST | {"pipelines.retrieval"},
    "pipelines.requests": {"graphs.errors", "pipelines.base", "pipelines.grammars.unenforced_keywords"}
    | {"pipelines.nodes.generation.sampling_rules", "pipelines.nodes.text.parsers.tools.earlier_arguments"}
    | {"pipelines.nodes.text.templates.message_content", "pipelines.requests", "pipelines.values"}
    | {"pipelines.wire"},
    "pipelines.loading": SHARED | {"pipelines.nodes", "pipelines.repository", "pipelines.loading"},
    # the worker
    "pipelines.worker": SHARED
    | {"pipelines.loading.load", "pipelines.nodes", "pipelines.repository.snapshot"}
    | {"pipelines.repository.files.model_versions", "pipelines.telemetry", "pipelines.worker"},
    "pipelines.transcription": SHARED
    | {"pipelines.nodes.speech", "pipelines.telemetry.request_trace", "pipelines.transcription"}
    | {"pipelines.worker"},
    # the engine host, from the ground up
    "pipelines.inference.contracts": {"ops", "pipelines.adapters", "pipelines.base", "pipelines.wire"}
    | {"pipelines.inference.contracts"},
    "pipelines.inference.backends": {"ops", "pipelines.adapters", "pipelines.base", "pipelines.onnx_format"}
    | {"pipelines.gguf.converted_files", "pipelines.inference.backends", "pipelines.inference.contracts"},
    "pipelines.inference.backends.openvino.encoder.headless_decoder": {"ops", "pipelines.adapters"}
    | {
        "pipelines.inference.backends",
        "pipelines.inference.contracts",
        "pipelines.inference.engine.packed_parts",
    },
    "pipelines.inference.guides": {"pipelines.base", "pipelines.grammars", "pipelines.wire"}
    | {"pipelines.inference.contracts", "pipelines.inference.guides"},
    "pipelines.inference.engine.speculation": {"ops", "pipelines.base", "pipelines.wire"}
    | {"pipelines.inference.contracts", "pipelines.inference.engine.speculation"},
    "pipelines.inference.sampling": {
        "ops",
        "pipelines.base",
        "pipelines.wire",
        "pipelines.inference.contracts",
    }
    | {"pipelines.inference.engine.speculation", "pipelines.inference.sampling"},
    "pipelines.inference.engine": {
        "ops",
        "pipelines.adapters",
        "pipelines.base",
        "pipelines.inference.contracts",
    }
    | {"pipelines.inference.engine", "pipelines.inference.sampling", "pipelines.telemetry", "pipelines.wire"},
    "pipelines.inference.engine.batching.tensor_engine": SHARED
    | {"pipelines.inference.contracts", "pipelines.inference.engine", "pipelines.telemetry"},
    "pipelines.host": SHARED
    | {
        "ops",
        "pipelines.host",
        "pipelines.inference",
        "pipelines.loading",
        "pipelines.nodes",
        "pipelines.repository",
    }
    | {"pipelines.telemetry"},
    # worker and engine host in one process
    "pipelines.local": {"graphs", "pipelines"},
    # the server, from the ground up
    "server": {*BELOW_APIS, "graphs", "server"},
    "server.base": {"pipelines.base", "pipelines.inference.backends.registry", "pipelines.telemetry"}
    | {"pipelines.wire", "server.base"},
    "server.schema": {"pipelines.base", "server.base", "server.schema"},
    "server.sqlite": {"pipelines.base", "server.base", "server.sqlite"},
    "server.keys": {"pipelines.base", "pipelines.telemetry.named_keys", "server.keys"},
    "server.dialects": {"pipelines.base", "pipelines.values", "server.dialects", "server.schema"},
    "server.http": {"pipelines.base", "pipelines.requests.fields", "pipelines.telemetry.http_requests"}
    | {"pipelines.telemetry.request_trace", "server.dialects", "server.http", "server.keys"}
    | {"server.schema"},
    "server.media": {"pipelines.base", "pipelines.values", "server.base", "server.media"},
    "server.status": {"graphs", "pipelines", "server.base", "server.schema", "server.status"},
    "server.process": {"pipelines.base", "pipelines.telemetry", "server.base", "server.http"}
    | {"server.keys.key_file", "server.process"},
    "server.services": {"graphs.errors", "graphs.outline", "pipelines", "server.base", "server.http"}
    | {"server.dialects", "server.keys", "server.process", "server.schema", "server.services"},
    "server.traces": {"pipelines.telemetry", "server.base", "server.services", "server.traces"},
    "server.apis": {
        *BELOW_APIS,
        "graphs",
        "server.apis",
        "server.openapi.document",
        "server.openapi.endpoint",
    }
    | {"server.page", "server.process.socket_options", "server.sqlite", "server.status"},
    "server.openapi": {"pipelines", "server.apis", "server.base", "server.dialects", "server.http"}
    | {"server.openapi", "server.schema", "server.services", "server.status"},
    # neither: people's tools
    "tools": {"graphs", "ops", "pipelines", "server", "tools"},
}
"""Module or folder → what it and all below it may import; the longest name counts."""
KNOWS_THE_TYPES_OF = {
    "server.services": {"server.apis", "server.media", "server.status", "server.traces"},
    "pipelines.inference.contracts": {"pipelines.inference.engine.sequences"},
}
"""What it may import besides where only types are checked."""
HEAVY = {"torch", "transformers", "optimum"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
ENGINES = {re.match(r"\w+", each)[0] for extra in ("cpu", "cuda") for each in EXTRAS[extra]}
"""Packages that compute models, as onnxruntime (also of onnxruntime-gpu)."""


def modules():
    for room in ("graphs", "ops", "pipelines", "server", "tools"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


@cache
def imports(path, at_run_time=True):
    """Full names that a file imports; those under `if TYPE_CHECKING` only with `at_run_time=False`."""
    whole = {name for module, names in imported(path, at_run_time) for name in names or [module]}
    return frozenset(whole | {module for module, _ in imported(path, at_run_time)})


def imported(path, at_run_time):
    """(module, full names) of each import of a file; without names of one of a whole module."""
    for node, for_types in import_statements(path):
        if for_types and at_run_time:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        else:
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module, [f"{module}.{alias.name}" for alias in node.names]


@cache
def import_statements(path):
    """(import, whether it stands under `if TYPE_CHECKING`) of a file, read once."""
    imports_found, open_ends = [], [(tree_of(path), False)]
    while open_ends:
        node, for_types = open_ends.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports_found.append((node, for_types))
        elif not isinstance(node, ast.expr):  # no import stands in an expression
            below = for_types or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
            open_ends += [(child, below) for child in ast.iter_child_nodes(node)]
    return imports_found


@cache
def import_graph(at_run_time=False):
    """Module → the modules of ours that it imports."""
    known = dict(modules())
    return {
        name: {
            name if name in known else module
            for module, names in imported(path, at_run_time)
            for name in names or [module]
            if module in known or name in known
        }
        for name, path in known.items()
    }


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
    room = room_of(module)
    allowed = MAY_IMPORT[room] | (set() if at_run_time else KNOWS_THE_TYPES_OF.get(room, set()))
    ours = {name for name in imports(path, at_run_time) if name.split(".")[0] in ROOMS}
    # `from pipelines.telemetry import metrics` names the package and the module: the module decides
    wholes = {name for name in ours if any(other.startswith(name + ".") for other in ours)}
    return {name for name in ours - wholes if not inside(name, allowed)}


def folder_graph(room):
    """Folder → the folders below `room` from which its own files import at run time."""
    known, graph = dict(modules()), {}
    for module, names in import_graph(at_run_time=True).items():
        if inside(module, {room}):
            to = {folder(name, known[name]) for name in names if inside(name, {room})}
            graph.setdefault(folder(module, known[module]), set()).update(to)
    return {name: to - {name} for name, to in graph.items()}


def folder(module, path):
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def floors(graph):
    """The folders by height: each imports only from lower floors."""
    left, found = dict(graph), []
    while left:
        floor = sorted(name for name, to in left.items() if not to & left.keys())
        assert floor, f"circles: {circles(left)}"
        found.append(floor)
        left = {name: to for name, to in left.items() if name not in floor}
    return found


@pytest.mark.parametrize("at_run_time", [True, False], ids=["at_run_time", "with_types"])
def test_each_module_stays_within_its_border(at_run_time):
    found = {module: across_borders(module, path, at_run_time) for module, path in modules()}
    assert {module: names for module, names in found.items() if names} == {}


def test_the_import_graph_has_no_circles():
    assert circles(import_graph()) == []


@pytest.mark.parametrize("room", ["graphs", "ops", "pipelines", "server", "tools"])
def test_folders_stand_on_floors(room):
    """Their graph has no circle.  `pytest -s` prints the floors, the ground first."""
    graph = folder_graph(room)
    assert circles(graph) == []
    print()
    for number, floor in enumerate(floors(graph)):
        print(f"{number:3} {' '.join(floor)}")


def test_the_rooms_of_pipelines_stand_in_the_order_of_the_documented_table():
    """Each imports at run time only from those above it in docs/architecture.md."""
    rows = re.findall(
        r"^\| `pipelines/(\w+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
    )
    upwards = {
        f"{module} imports {name}"
        for module, names in import_graph(at_run_time=True).items()
        for name in names
        if inside(module, {"pipelines"})
        and inside(name, {"pipelines"})
        and _row(name, rows) > _row(module, rows)
    }
    assert upwards == set()


def _row(module, rows):
    """The row of a module's room; the package itself is below all of them."""
    return rows.index(module.split(".")[1]) if module != "pipelines" else len(rows)


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
        if not inside(module, {"pipelines.inference.backends", "ops.cuda", "tools"})
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
        "import sys, pipelines.host.__main__, pipelines.inference.backends.openvino.prepared.prepared_decoder\n"
        "print([name for name in ('onnx', 'onnx_ir', 'sympy', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
