"""A chat at a terminal: what is typed becomes commands and messages, until the end of the input."""

from __future__ import annotations

import time

from tools.chat.conversation import Conversation, Reply
from tools.chat.display import Plain, Terminal
from tools.chat.streamed_reply import read_reply
from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed

HELP = """\
/reset          begin a new conversation
/system [TEXT]  set the system prompt, or remove it
/model [NAME]   talk to another model, or list the models
/quit           end (also Ctrl-D); Ctrl-C stops a reply
A line that ends in \\ goes on in the next one."""


class Session:
    """One conversation with a server, shown on a display."""

    def __init__(
        self, server: ApiServer, conversation: Conversation, display: Terminal | Plain, stats: bool
    ) -> None:
        self._server = server
        self._conversation = conversation
        self._display = display
        self._stats = stats

    def run(self) -> None:
        """Read lines until the input ends or /quit."""
        self._display.note(f"{self._conversation.model} at {self._server.url}; /help for commands")
        while (text := _typed("> ")) is not None:
            name, _, rest = text.strip().partition(" ")
            if name == "/quit":
                return
            if name.startswith("/") and "/" not in name[1:]:
                self._command(name, rest.strip())
            elif text.strip():
                self.turn(text)

    def turn(self, text: str) -> bool:
        """Send a message, and the results of tools that the model calls.  False where the reply failed."""
        length = len(self._conversation.messages)
        self._conversation.say(text)
        while True:
            reply = self._reply()
            if reply is None:
                self._conversation.back_to(length)
                return False
            self._conversation.add(reply)
            if not reply.calls or not self._ask_results(reply):
                return True

    def _reply(self) -> Reply | None:
        """The next reply, shown; what came of it where it is stopped; None where it failed."""
        reply, begin_s = Reply(), time.perf_counter()
        try:
            with self._server.events("/chat/completions", self._conversation.body()) as events:
                read_reply(events, reply, self._display)
        except KeyboardInterrupt:
            self._display.note("[stopped]")
            reply.calls.clear()
        except RequestFailed as error:
            self._display.problem(str(error))
            return None
        self._display.end()
        if self._stats:
            self._display.note(_stats(reply, time.perf_counter() - begin_s))
        elif reply.finish_reason == "length":
            self._display.note("[max_tokens reached]")
        return reply

    def _ask_results(self, reply: Reply) -> bool:
        """Ask for the result of each call; False where none is given, which drops the calls."""
        results = []
        for call in reply.calls if isinstance(self._display, Terminal) else ():
            result = _typed(f"result of {call['function']['name']}> ")
            if not result:
                break
            results.append(result)
        if len(results) < len(reply.calls):
            self._conversation.messages[-1] = Reply(reply.content).message()
            return False
        for call, result in zip(reply.calls, results, strict=True):
            self._conversation.answer_call(call, result)
        return True

    def _command(self, name: str, rest: str) -> None:
        match name:
            case "/reset":
                self._conversation.messages.clear()
                self._display.note("a new conversation")
            case "/system":
                self._conversation.system = rest or None
                self._display.note("system prompt set" if rest else "no system prompt")
            case "/model" if rest:
                self._conversation.model = rest
                self._display.note(f"talking to {rest}")
            case "/model":
                self._show_models()
            case _:
                self._display.note(HELP)

    def _show_models(self) -> None:
        try:
            self._display.note("\n".join(self._server.model_names()))
        except RequestFailed as error:
            self._display.problem(str(error))


def _typed(prompt: str) -> str | None:
    """What is typed, over lines that end in a backslash; empty after Ctrl-C, None at the end of the input."""
    lines = []
    try:
        lines.append(input(prompt))
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(input("… "))
    except EOFError:
        return "\n".join(lines) or None
    except KeyboardInterrupt:
        print()
        return ""
    return "\n".join(lines)


def _stats(reply: Reply, seconds: float) -> str:
    tokens = reply.usage.get("completion_tokens")
    counted = f"{tokens} tokens, {tokens / seconds:.1f} tokens/s, " if tokens else ""
    return f"[{counted}{seconds:.2f} s, {reply.finish_reason or 'no finish reason'}]"
