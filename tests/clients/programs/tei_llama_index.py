"""llama-index's embeddings at text-embeddings-inference's paths.  Arguments: the server's address."""

import sys

from cases import run
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

PASSAGES = ["The capital of France is Paris.", "Bread is made of flour, water, salt and yeast."]
embeddings = TextEmbeddingsInference(model_name="braid-embed", base_url=sys.argv[1])


def one_and_many() -> None:
    one, many = embeddings.get_text_embedding(PASSAGES[0]), embeddings.get_text_embedding_batch(PASSAGES)
    assert len(many) == 2
    assert max(abs(a - b) for a, b in zip(one, many[0], strict=True)) < 1e-4


run([one_and_many])
