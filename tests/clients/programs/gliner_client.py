"""The client of gliner's own server at POST /gliner.  Arguments: the server's address."""

import asyncio
import importlib.util
import sys
from pathlib import Path

from cases import run

TEXTS = ["Ada Lovelace wrote to Charles Babbage in London.", "rain near Oslo"]
LABELS = ["person", "the capital city", "year"]
OPTIONS = {"threshold": 0.3, "flat_ner": False}


def client_module():
    """The module of the client: the package itself imports torch, which the client does not need."""
    package = Path(importlib.util.find_spec("gliner").origin).parent
    spec = importlib.util.spec_from_file_location("gliner_serve_client", package / "serve/client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GLINER = client_module()
CLIENT = GLINER.GLiNERClient(sys.argv[1])


def one_text() -> None:
    entities = CLIENT.predict(TEXTS[0], LABELS, **OPTIONS)["entities"]
    assert entities
    for entity in entities:
        assert entity["text"] == TEXTS[0][entity["start"] : entity["end"]]
        assert entity["label"] in LABELS
        assert entity["score"] > 0.3


def several_texts_are_as_each_alone() -> None:
    together = CLIENT.predict(TEXTS, LABELS, **OPTIONS)
    assert together == [CLIENT.predict(text, LABELS, **OPTIONS) for text in TEXTS]


def labels_of_each_text_and_descriptions() -> None:
    labels = [["person"], {"where": "the capital city"}]
    first, second = CLIENT.predict(TEXTS, labels, threshold=0.0)
    assert {entity["label"] for entity in first["entities"]} == {"person"}
    assert {entity["label"] for entity in second["entities"]} == {"where"}


def asynchronously() -> None:
    results = asyncio.run(CLIENT.predict_async(TEXTS, LABELS, **OPTIONS))
    assert results == CLIENT.predict(TEXTS, LABELS, **OPTIONS)


def relations_are_refused() -> None:
    message = ""
    try:
        CLIENT.predict(TEXTS[0], LABELS, relations=["knows"])
    except GLINER.GLiNERClientError as refused:
        message = str(refused)
    assert "400" in message


run(
    [
        one_text,
        several_texts_are_as_each_alone,
        labels_of_each_text_and_descriptions,
        asynchronously,
        relations_are_refused,
    ]
)
