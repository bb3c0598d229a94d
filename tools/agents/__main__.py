"""`braid agent NAME [MODEL]`: prints the configuration of a coding agent for a running server."""

from __future__ import annotations

from typing import Any

import click

from tools.agents.configurations import AGENTS, SHELL, CodingAgent, filled
from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed
from tools.client.options import server_at, server_options

WORKING_SHARE = 0.5
"""The share of a context that an agent's own text may take: the rest is for the work."""


@click.command(context_settings={"max_content_width": 100})
@click.argument("agent", type=click.Choice([*AGENTS]))
@click.argument("model", required=False)
@server_options
def main(agent: str, model: str | None, url: str, key: str | None) -> None:
    """Print the configuration with which AGENT uses MODEL, or the first chat model, of the server.

    Files are to be written, or merged, by you; lines for a shell are to be typed.
    """
    server = server_at(url, key)
    try:
        entry = chosen(server.get("/models")["data"], model)
    except RequestFailed as error:
        raise click.ClickException(str(error)) from error
    click.echo(text_of(AGENTS[agent], server, key or "none", entry))


def chosen(models: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """The model of this name, or the first that chats.  Raises RequestFailed."""
    for model in models:
        chats = (model.get("capabilities") or {}).get("completion_chat", True)
        if model["id"] == name or (name is None and chats):
            return model
    names = ", ".join(model["id"] for model in models) or "none"
    wanted = f"no model `{name}`" if name else "no model that chats"
    raise RequestFailed(f"the server has {wanted}; it has: {names}")


def text_of(agent: CodingAgent, server: ApiServer, key: str, model: dict[str, Any]) -> str:
    """The configuration as text: of each file, where it is and what is in it."""
    context = int(model.get("max_model_len") or 0)
    if not context:
        raise click.ClickException(f"the server does not say how long the context of {model['id']} is")
    lines = [f"# {agent.name} with {model['id']}, a context of {context:,} tokens"]
    if agent.own_tokens > context * WORKING_SHARE:
        lines.append(
            f"# Its own text is about {agent.own_tokens:,} tokens in each prompt: this context is too short."
        )
    root = server.url.removesuffix("/v1")
    for where, text in filled(agent, root, key, model["id"], context):
        lines += ["", "# in a shell:" if where == SHELL else f"# in {where}:", text.rstrip("\n")]
    return "\n".join(lines)


if __name__ == "__main__":
    main(prog_name="braid agent")
