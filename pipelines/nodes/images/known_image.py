"""What a prompt needs of an image whose embeddings are stored, so that its file is not sent again."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from pipelines.values.node_values import Grid

NAME_BYTES = 16


class KnownImage(msgspec.Struct, frozen=True, array_like=True):
    """`digests` of its parts; `text` is in the prompt in the place of its mark.  `grids`: the rows and
    columns of the tokens of each part, of an image that keeps its shape; else each part has `num_tokens`.
    """

    digests: list[bytes]
    num_tokens: int
    text: str
    grids: tuple[Grid, ...] = ()

    @property
    def lengths(self) -> list[int]:
        """How many tokens each part has."""
        return [rows * columns for rows, columns in self.grids] or [self.num_tokens] * len(self.digests)

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def known_image(data: bytes) -> KnownImage:
    """The image that was `encoded`."""
    return msgspec.msgpack.decode(data, type=KnownImage)


def name_of(uuid: str, cache_salt: str) -> bytes:
    """NAME_BYTES for the uuid that a client gave an image: requests with other salts do not find it."""
    digest = blake2b(cache_salt.encode(errors="surrogatepass"), digest_size=NAME_BYTES)
    digest.update(b"\0" + uuid.encode(errors="surrogatepass"))
    return digest.digest()
