"""langchain's embeddings in a store that it searches.  Arguments: the server's address."""

import sys

from cases import run
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings

PASSAGES = [
    "Oslo has a population of about seven hundred thousand people.",
    "The capital of France is Paris.",
    "Bread is made of flour, water, salt and yeast.",
]
embeddings = OpenAIEmbeddings(
    model="braid-embed",
    base_url=f"{sys.argv[1]}/v1",
    api_key="none",
    check_embedding_ctx_length=False,  # else it asks the internet for OpenAI's own tokenizer
)


def searched() -> None:
    store = InMemoryVectorStore(embeddings)
    store.add_documents([Document(text) for text in PASSAGES])
    (found,) = store.similarity_search("What is the capital of France?", k=1)
    assert found.page_content == PASSAGES[1]


def one_and_many() -> None:
    one, many = embeddings.embed_query(PASSAGES[0]), embeddings.embed_documents(PASSAGES)
    assert max(abs(a - b) for a, b in zip(one, many[0], strict=True)) < 1e-4


run([searched, one_and_many])
