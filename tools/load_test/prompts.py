"""Prompts of exact lengths in tokens, of random words, so that no prefix of one is found again in another."""

from __future__ import annotations

import random
from typing import Any

from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed

WORDS = """
the of and to in is you that it he was for on are with as at be this have from or one had by but
not what all were we when your can said there use an each which she do how their if will up other
about out many then them these so some her would make like him into time has look two more write
go see number no way could people my than first water been call who oil its now find long down day
did get come made may part
""".split()  # noqa: SIM905
"""Words that are one token in most vocabularies."""
FEW, MANY = 32, 96
"""Words of the two texts that show how many tokens a word has, and the chat template."""
LEAST_WORDS = 16
ATTEMPTS = 6


def request_fields(is_chat: bool, text: str) -> dict[str, Any]:
    """The input of a request of either API."""
    return {"messages": [{"role": "user", "content": text}]} if is_chat else {"prompt": text}


class Prompts:
    """Makes prompts whose tokens, with those of the chat template, are as many as wanted.

    By the server's /tokenize where it has it (vLLM's form).  Else by the prompt tokens that it counts for two
    requests, or by words where it counts none; `is_exact` is then false.  Raises RequestFailed.
    """

    def __init__(self, server: ApiServer, model: str, is_chat: bool, seed: int) -> None:
        self._server, self._model, self._is_chat = server, model, is_chat
        self._source = random.Random(seed)
        self._words = WORDS
        try:
            single = [word for word in WORDS if self._counted(_repeated(word)) == self._counted(word) + 7]
            self.is_exact = True
        except RequestFailed:
            single, self.is_exact = [], False
        self._words = single if len(single) >= LEAST_WORDS else WORDS
        count = self._counted if self.is_exact else self._billed
        try:
            few, many = count(self._text(FEW)), count(self._text(MANY))
        except RequestFailed as error:
            if error.status:
                raise
            few, many = FEW, MANY
        self._per_word = max(0.1, (many - few) / (MANY - FEW))
        self._template = few - FEW * self._per_word

    def make(self, tokens: int) -> str:
        """A text of that many tokens; of one word where the template alone has more."""
        number = max(1, round((tokens - self._template) / self._per_word))
        for _ in range(ATTEMPTS if self.is_exact else 0):
            text = self._text(number)
            missing = round((tokens - self._counted(text)) / self._per_word)
            if not missing or number + missing < 1:
                return text
            number += missing
        return self._text(number)

    def _text(self, words: int) -> str:
        return " ".join(self._source.choices(self._words, k=words))

    def _counted(self, text: str) -> int:
        body = {"model": self._model, **request_fields(self._is_chat, text)}
        return _count(self._server.post_above("/tokenize", body), "count")

    def _billed(self, text: str) -> int:
        path = "/chat/completions" if self._is_chat else "/completions"
        body = {"model": self._model, "max_tokens": 1, "stream": False, **request_fields(self._is_chat, text)}
        reply = self._server.post(path, body)
        return _count(reply.get("usage") if isinstance(reply, dict) else None, "prompt_tokens")


def _repeated(word: str) -> str:
    return " ".join([word] * 8)


def _count(reply: Any, name: str) -> int:
    count = reply.get(name) if isinstance(reply, dict) else None
    if not isinstance(count, int):
        raise RequestFailed(f"the server's reply has no {name}")
    return count
