"""The configuration of each coding agent: what is written where, with a server and a model in it.

`$URL`, `$KEY`, `$MODEL`, `$CONTEXT` (tokens of the context), `$COMPACT` (tokens from which the conversation
is to be summed up) and `$OUTPUT` (most tokens of a reply) are filled in.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import NamedTuple

SHARE_TO_COMPACT = 0.85
"""The share of the context at which an agent sums the conversation up: its next request must still fit."""
SHARE_OF_OUTPUT, MOST_OUTPUT = 0.25, 8192


class ConfigPiece(NamedTuple):
    """A file, or what is typed into a shell."""

    where: str
    text: str


@dataclass(frozen=True)
class CodingAgent:
    """A coding agent: its `name`, and how many tokens its instructions and tools have in every prompt."""

    name: str
    own_tokens: int
    pieces: tuple[ConfigPiece, ...]


SHELL = "shell"
CODEX = """\
model = "$MODEL"
model_provider = "braid"
model_context_window = $CONTEXT
model_auto_compact_token_limit = $COMPACT

[model_providers.braid]
name = "Braid"
base_url = "$URL/v1"
wire_api = "responses"
env_key = "BRAID_API_KEY"
"""
CLAUDE = """\
export ANTHROPIC_BASE_URL=$URL
export ANTHROPIC_AUTH_TOKEN=$KEY
export ANTHROPIC_MODEL=$MODEL
export CLAUDE_CODE_AUTO_COMPACT_WINDOW=$CONTEXT
export ENABLE_TOOL_SEARCH=1
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude
"""
OPENCODE = """\
{
  "$$schema": "https://opencode.ai/config.json",
  "provider": {
    "braid": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "$URL/v1", "apiKey": "$KEY"},
      "models": {"$MODEL": {"limit": {"context": $CONTEXT, "output": $OUTPUT}}}
    }
  },
  "model": "braid/$MODEL",
  "small_model": "braid/$MODEL"
}
"""
PI = """\
{
  "providers": {
    "braid": {
      "baseUrl": "$URL/v1",
      "api": "openai-completions",
      "apiKey": "$KEY",
      "models": [{"id": "$MODEL", "name": "$MODEL", "reasoning": false, "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": $CONTEXT, "maxTokens": $OUTPUT}]
    }
  }
}
"""
CONTINUE = """\
name: braid
version: 1.0.0
schema: v1
models:
  - name: $MODEL
    provider: openai
    model: $MODEL
    apiBase: $URL/v1
    apiKey: $KEY
    roles: [chat, edit, apply]
    capabilities: [tool_use]
    defaultCompletionOptions: {contextLength: $CONTEXT, maxTokens: $OUTPUT}
"""
OPENAI = "export OPENAI_API_KEY=$KEY\n"
GEMINI_SETTINGS = """\
{"security": {"auth": {"selectedType": "gemini-api-key"}}}
"""
AGENTS: dict[str, CodingAgent] = {
    "codex": CodingAgent(
        "Codex",
        7_000,
        (
            ConfigPiece("~/.codex/config.toml", CODEX),
            ConfigPiece(SHELL, "export BRAID_API_KEY=$KEY\ncodex\n"),
        ),
    ),
    "claude": CodingAgent("Claude Code", 23_000, (ConfigPiece(SHELL, CLAUDE),)),
    "opencode": CodingAgent(
        "opencode",
        8_000,
        (ConfigPiece("~/.config/opencode/opencode.json", OPENCODE), ConfigPiece(SHELL, "opencode\n")),
    ),
    "pi": CodingAgent(
        "pi",
        1_600,
        (
            ConfigPiece("~/.pi/agent/models.json", PI),
            ConfigPiece(SHELL, "pi --provider braid --model $MODEL\n"),
        ),
    ),
    "qwen": CodingAgent(
        "Qwen Code",
        19_500,
        (
            ConfigPiece(
                SHELL,
                f"{OPENAI}export OPENAI_BASE_URL=$URL/v1\nexport OPENAI_MODEL=$MODEL\n"
                "qwen --auth-type openai\n",
            ),
        ),
    ),
    "gemini": CodingAgent(
        "gemini-cli",
        13_000,
        (
            ConfigPiece("~/.gemini/settings.json", GEMINI_SETTINGS),
            ConfigPiece(
                SHELL,
                "export GEMINI_API_KEY=$KEY\nexport GOOGLE_GEMINI_BASE_URL=$URL\ngemini --model $MODEL\n",
            ),
        ),
    ),
    "copilot": CodingAgent(
        "GitHub Copilot CLI",
        12_500,
        (
            ConfigPiece(
                SHELL,
                "export COPILOT_PROVIDER_BASE_URL=$URL/v1\nexport COPILOT_PROVIDER_API_KEY=$KEY\n"
                "export COPILOT_MODEL=$MODEL\nexport COPILOT_OFFLINE=true\ncopilot\n",
            ),
        ),
    ),
    "continue": CodingAgent(
        "Continue", 2_500, (ConfigPiece("~/.continue/config.yaml", CONTINUE), ConfigPiece(SHELL, "cn\n"))
    ),
    "cline": CodingAgent(
        "Cline",
        5_500,
        (
            ConfigPiece(
                SHELL,
                "cline auth --provider openai --apikey $KEY --modelid $MODEL --baseurl $URL/v1\n"
                "cline -P openai -m $MODEL\n",
            ),
        ),
    ),
    "aider": CodingAgent(
        "aider",
        1_000,
        (ConfigPiece(SHELL, f"{OPENAI}export OPENAI_API_BASE=$URL/v1\naider --model openai/$MODEL\n"),),
    ),
    "mini": CodingAgent(
        "mini-swe-agent",
        1_500,
        (
            ConfigPiece(
                SHELL,
                f"{OPENAI}export OPENAI_API_BASE=$URL/v1\nexport MSWEA_COST_TRACKING=ignore_errors\n"
                "mini --model openai/$MODEL\n",
            ),
        ),
    ),
}
"""The name of an agent's command → its configuration."""


def filled(agent: CodingAgent, url: str, key: str, model: str, context: int) -> list[ConfigPiece]:
    """The pieces of a configuration for one server and one model."""
    values = {
        "URL": url,
        "KEY": key,
        "MODEL": model,
        "CONTEXT": context,
        "COMPACT": int(context * SHARE_TO_COMPACT),
        "OUTPUT": min(MOST_OUTPUT, int(context * SHARE_OF_OUTPUT)),
    }
    return [ConfigPiece(where, Template(text).substitute(values)) for where, text in agent.pieces]
