"""The paths of text-embeddings-inference, and its dialect."""

from __future__ import annotations

from server.apis.tei.dialect import TEI
from server.apis.tei.endpoints import (
    EmbedAllEndpoint,
    EmbedEndpoint,
    EmbedSparseEndpoint,
    LabelEndpoint,
    SimilarityEndpoint,
)
from server.apis.tei.forwarding import AnyRerankEndpoint, AnyTaskEndpoint
from server.apis.tei.other_endpoints import DecodeEndpoint, InfoEndpoint
from server.services.api import Api

API = Api(
    "tei",
    root={
        "/embed": EmbedEndpoint,
        "/embed_all": EmbedAllEndpoint,
        "/embed_sparse": EmbedSparseEndpoint,
        "/predict": LabelEndpoint,
        "/similarity": SimilarityEndpoint,
        "/decode": DecodeEndpoint,
        "/info": InfoEndpoint,
        "/rerank": AnyRerankEndpoint,
        "/": AnyTaskEndpoint,
    },
    dialect=TEI,
    speaks=r"/(?:embed|embed_all|embed_sparse|predict|similarity|decode|info)?",
)
"""The endpoints of `/rerank` and `/` take what those of other families do too: it comes after them."""
