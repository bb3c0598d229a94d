"""Digests of prefixes: equal digests mean equal tokens from the start of the context to the end of the
block.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b

from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds

DIGEST_BYTES = 16


def root(cache_salt: str, encoder_states: bytes = b"", adapter: bytes = b"") -> bytes:
    """Where a chain begins: prefixes are shared only among requests with the same salt.

    `encoder_states` is the digest of those that the sequence attends to: the values of its own tokens depend
    on them.  So they do on the `adapter`, by the key of its load (`AdapterKeys`).
    """
    return blake2b(cache_salt.encode(), key=encoder_states, person=adapter, digest_size=DIGEST_BYTES).digest()


def extend(
    digests: list[bytes],
    root: bytes,
    token_ids: array[int],
    num_blocks: int,
    block_tokens: int,
    images: PromptEmbeds | None = None,
) -> None:
    """Grow the chain in place until it covers the first `num_blocks` blocks of `token_ids`, all full.

    The digest of a block is that of its predecessor and its own tokens, so each block is hashed once.  With
    tokens of an image, whose ids are those of any image, it is also that of the image.
    """
    for index in range(len(digests), num_blocks):
        chain = blake2b(digests[-1] if digests else root, digest_size=DIGEST_BYTES)
        chain.update(token_ids[index * block_tokens : (index + 1) * block_tokens].tobytes())
        if images is not None:
            chain.update(images.digest(index * block_tokens, (index + 1) * block_tokens))
        digests.append(chain.digest())
