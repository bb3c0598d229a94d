"""The base of the pydantic models of requests and replies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class DeferredModel(BaseModel):
    """A pydantic model whose validator is built at its first use, not when its module is imported.

    There are hundreds, and a process reads few of them: to build all takes a third of a worker's start.
    """

    model_config = ConfigDict(defer_build=True)
