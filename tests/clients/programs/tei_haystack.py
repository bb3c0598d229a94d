"""Haystack's embedders and its ranker at text-embeddings-inference's paths.  Arguments: the server's address."""

import sys

from cases import run
from haystack import Document
from haystack_integrations.components.embedders.huggingface_api import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
)
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker

PASSAGES = ["Bread is made of flour, water, salt and yeast.", "The moon is 384,000 kilometres away."]
WHERE = {"api_type": "text_embeddings_inference", "api_params": {"url": sys.argv[1]}}


def embedded() -> None:
    one = HuggingFaceAPITextEmbedder(**WHERE).run(text=PASSAGES[0])["embedding"]
    documents = HuggingFaceAPIDocumentEmbedder(**WHERE).run([Document(content=text) for text in PASSAGES])
    many = [document.embedding for document in documents["documents"]]
    assert max(abs(a - b) for a, b in zip(one, many[0], strict=True)) < 1e-4


def ranked() -> None:
    ranker = HuggingFaceTEIRanker(url=sys.argv[1], top_k=1)
    documents = [Document(content=text) for text in PASSAGES]
    (first,) = ranker.run(query="How far away is the moon?", documents=documents)["documents"]
    assert first.content == PASSAGES[1]


run([embedded, ranked])
