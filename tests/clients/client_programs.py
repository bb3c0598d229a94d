"""The programs that use clients of other projects: the environment that each runs in, and how it is started."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from running import Outcome, run_alone, run_together

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "programs"
COMMON, LIBRARIES = "common", "libraries"
NODE = "node"
TENSORS, REAL_TENSORS, VISION, AGENTS, GUARDS = "tensors", "real_tensors", "vision", "agents", "guards"
VECTORS, ENTITIES = "vectors", "entities"


class Program(NamedTuple):
    """A file of programs/, the package whose version is shown, and the fixture that serves what it asks for.

    Programs of the environment `common` run in every run of the tests, the others by `make clients`.
    """

    file: str
    package: str
    environment: str = COMMON
    served: str = "demo"

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def path(self) -> Path:
        return FOLDER / self.file

    @property
    def group(self) -> tuple[str, str, str]:
        """Programs of a group run in one process, since they import the same packages.

        All clients of `common` and `libraries` import httpx, pydantic and mostly openai; frameworks are kept
        from one another.
        """
        alike = self.environment in (COMMON, LIBRARIES)
        return self.environment, self.served, "" if alike else self.package

    def installed(self) -> bool:
        return self.version() is not None

    def version(self) -> str | None:
        """Of the installed package; None where it is not installed."""
        if self.environment == NODE:
            package = self._home() / self.package / "package.json"
            return json.loads(package.read_text())["version"] if package.exists() else None
        name = self.package.replace("-", "_")
        found = next(self._home().glob(f"lib/python*/site-packages/{name}-*.dist-info"), None)
        return found.stem.rpartition("-")[2] if found else None

    def run_with_its_group(self, addresses: str) -> dict[Path, Outcome]:
        """What became of each program of the group, all at the same addresses."""
        files = [each.path for each in PROGRAMS if each.group == self.group]
        if self.environment == NODE:
            modules = {"NODE_PATH": str(self._home())}  # where node finds packages
            return {file: run_alone(["node", file, *addresses.split()], modules) for file in files}
        return run_together(python_of(self.environment), files, *addresses.split(), cwd=FOLDER)

    def _home(self) -> Path:
        """The folder with what is installed."""
        if self.environment == NODE:
            return ROOT / f".venv-clients-{NODE}" / "node_modules"
        return python_of(self.environment).parents[1]


def python_of(environment: str) -> Path:
    if environment == COMMON and "CLIENTS_PYTHON" in os.environ:
        return Path(os.environ["CLIENTS_PYTHON"])
    suffix = "" if environment == COMMON else f"-{environment}"
    return ROOT / f".venv-clients{suffix}" / "bin" / "python"


PROGRAMS = [
    Program("adapters_of_a_model.py", "litellm", LIBRARIES),
    Program("anthropic_tool_runner.py", "anthropic"),
    Program("cohere_rank_and_embed.py", "cohere"),
    Program("image_questions.py", "litellm", LIBRARIES, VISION),
    Program("instructor_extraction.py", "instructor", LIBRARIES),
    Program("langchain_chat.py", "langchain-openai", LIBRARIES),
    Program("langchain_embeddings.py", "langchain-openai", LIBRARIES),
    Program("langgraph_agent.py", "langgraph", LIBRARIES),
    Program("litellm_chat.py", "litellm", LIBRARIES),
    Program("litellm_rank_and_embed.py", "litellm", LIBRARIES),
    Program("litellm_tool_loop.py", "litellm", LIBRARIES),
    Program("mistral_chat.py", "mistralai"),
    Program("openai_agents_run.py", "openai-agents", LIBRARIES),
    Program("model_status_reader.py", "httpx", served=TENSORS),
    Program("openai_embeddings.py", "openai"),
    Program("ovmsclient_predict.py", "ovmsclient", served=TENSORS),
    Program("tritonclient_aio.py", "tritonclient", served=TENSORS),
    Program("tritonclient_grpc.py", "tritonclient", served=TENSORS),
    Program("tritonclient_http.py", "tritonclient", served=TENSORS),
    Program("dspy_modules.py", "dspy", "frameworks"),
    Program("haystack_agent.py", "haystack-ai", "frameworks"),
    Program("llama_index_agent.py", "llama-index-core", "frameworks"),
    Program("pydantic_ai_agent.py", "pydantic-ai-slim", "frameworks"),
    Program("aider_sessions.py", "aider-chat", "coding_agents", AGENTS),
    Program("mini_sessions.py", "mini-swe-agent", "coding_agents", AGENTS),
    Program("google_genai_chat.py", "google-genai", "google_genai"),
    Program("lm_eval_tasks.py", "lm-eval", "lm_eval"),
    Program("nemo_gym_rollouts.py", "nemo-gym", "nemo_gym"),
    Program("nemo_gym_images.py", "nemo-gym", "nemo_gym", VISION),
    Program("kserve_inference.py", "kserve", "kserve", TENSORS),
    Program("rapidocr_pages.py", "rapidocr-onnxruntime", REAL_TENSORS, REAL_TENSORS),
    Program("silero_vad_frames.py", "silero-vad", REAL_TENSORS, REAL_TENSORS),
    Program("ollama_python.py", "ollama", "ollama"),
    Program("langchain_ollama_chat.py", "langchain-ollama", "ollama"),
    Program("llama_index_ollama.py", "llama-index-llms-ollama", "ollama"),
    Program("pydantic_ai_ollama.py", "pydantic-ai-slim", "ollama"),
    Program("litellm_decisions.py", "litellm", "judging"),
    Program("litellm_moderations.py", "litellm", "judging", GUARDS),
    Program("nemo_guardrails.py", "nemoguardrails", "guardrails", GUARDS),
    Program("langchain_decisions.py", "langchain-openai", "judging"),
    Program("tei_haystack.py", "huggingface-api-haystack", "tei"),
    Program("tei_llama_index.py", "llama-index-embeddings-text-embeddings-inference", "tei"),
    Program("vector_databases.py", "qdrant-client", "databases", VECTORS),
    Program("gliner_client.py", "gliner", "gliner", ENTITIES),
    Program("ai_sdk_agent.cjs", "@ai-sdk/openai-compatible", NODE),
    Program("ollama_npm.cjs", "ollama", NODE),
    Program("claude_sessions.cjs", "@anthropic-ai/claude-code", NODE, AGENTS),
    Program("cline_sessions.cjs", "cline", NODE, AGENTS),
    Program("codex_sessions.cjs", "@openai/codex", NODE, AGENTS),
    Program("continue_sessions.cjs", "@continuedev/cli", NODE, AGENTS),
    Program("copilot_sessions.cjs", "@github/copilot", NODE, AGENTS),
    Program("gemini_sessions.cjs", "@google/gemini-cli", NODE, AGENTS),
    Program("openai_npm.cjs", "openai", NODE),
    Program("opencode_sessions.cjs", "opencode-ai", NODE, AGENTS),
    Program("pi_sessions.cjs", "@mariozechner/pi-coding-agent", NODE, AGENTS),
    Program("qwen_sessions.cjs", "@qwen-code/qwen-code", NODE, AGENTS),
]
