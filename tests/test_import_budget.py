"""How many modules of ours a process must import for one purpose: each is code that a reader may have to know.

Counted are modules that Python imports, packages included.  Where a count is over its budget, import later
(a table of names, as `NODE_TYPES`; a type under TYPE_CHECKING), or move what is needed down a floor; raise a
budget only for what the purpose needs.
"""

import json
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("graphs", "ops", "pipelines", "server")
CHAT_NODES = (
    "chat_template",
    "tokenize",
    "scheduler",
    "model",
    "grammar",
    "sampler",
    "detokenize",
    "parse_reply",
)
CHAT = "import server.apis.generation.chat_endpoint"
HOST = f"""
import pipelines.host.__main__, pipelines.inference.backends.openvino.open_decoder
from pipelines.nodes import VOCABULARY
[VOCABULARY[name] for name in {CHAT_NODES}]
"""
WORKER = """
import server.app
from server.apis.routes import served
from server.base.environment import read_settings
served(read_settings({}))
"""
BUDGETS = {
    "chat's endpoint": 202,
    "all of one chat model on OpenVINO": 523,
    "a worker": 630,
    "a worker with OpenAI's family alone": 412,
}
CODES = (CHAT, CHAT + HOST, WORKER, WORKER.replace("{}", "{'BRAID_APIS': 'openai'}"))


@cache
def imported_by(code):
    """The modules of ours that a fresh interpreter has imported after `code`."""
    show = f"\nimport json, sys\nprint(json.dumps([m for m in sys.modules if m.split('.')[0] in {OURS}]))"
    done = subprocess.run(
        [sys.executable, "-c", code + show], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("purpose", "code"), [*zip(BUDGETS, CODES, strict=True)], ids=[*BUDGETS])
def test_a_purpose_imports_no_more_than_its_budget(purpose, code):
    """`pytest -s` prints the counts by folder."""
    modules = imported_by(code)
    folders = Counter(name.rpartition(".")[0] for name in modules).most_common()
    print(f"\n{purpose}: {len(modules)} modules: {folders}")
    assert len(modules) <= BUDGETS[purpose], folders


@pytest.mark.slow
def test_the_endpoint_of_chats_knows_no_other_family_and_no_engine():
    modules = imported_by(CHAT)
    others = ("audio", "pooling", "speech", "tensors", "voice")
    families = {"batches", "kserve", "messages", "pooling", "realtime", "responses", "speech", "voice"}
    foreign = [f"pipelines.nodes.{name}" for name in others] + [f"server.apis.{name}" for name in families]
    assert [name for name in modules if name.startswith((*foreign, "pipelines.inference.engine"))] == []
