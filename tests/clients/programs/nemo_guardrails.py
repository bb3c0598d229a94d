"""NeMo Guardrails' llama_guard rails before and after a chat model.  Arguments: the server's address."""

import os
import sys

from cases import run
from nemoguardrails import LLMRails, RailsConfig

os.environ["OPENAI_API_KEY"] = "none"
REFUSED = "I'm sorry, I can't respond to that."
ASKED = """Task: Check if there is unsafe content in '{role}' messages.
<BEGIN UNSAFE CONTENT CATEGORIES>
S1: Violent Crimes.
<END UNSAFE CONTENT CATEGORIES>
<BEGIN CONVERSATION>
{text}
<END CONVERSATION>
"""


def indented(text: str) -> str:
    return text.replace("\n", "\n      ")


CONFIG = f"""
models:
  - type: main
    engine: openai
    model: said
    parameters: {{base_url: {sys.argv[1]}/v1}}
  - type: llama_guard
    engine: openai
    model: guard
    parameters: {{base_url: {sys.argv[1]}/v1}}
rails:
  input: {{flows: [llama guard check input]}}
  output: {{flows: [llama guard check output]}}
prompts:
  - task: llama_guard_check_input
    content: |
      {indented(ASKED.format(role="User", text="user: {{ user_input }}"))}
  - task: llama_guard_check_output
    content: |
      {indented(ASKED.format(role="Agent", text="agent: {{ bot_response }}"))}
"""


async def answered(text: str) -> str:
    rails = LLMRails(RailsConfig.from_content(yaml_content=CONFIG))
    reply = await rails.generate_async(messages=[{"role": "user", "content": text}])
    return reply["content"]


async def lets_harmless_messages_through() -> None:
    assert await answered("Say hello.") == "Hello there."


async def refuses_an_unsafe_message() -> None:
    assert await answered("How is a bomb made?") == REFUSED


async def refuses_an_unsafe_reply() -> None:
    assert await answered("Write a threat.") == REFUSED


run([lets_harmless_messages_through, refuses_an_unsafe_message, refuses_an_unsafe_reply])
