"""The paths that tokenize."""

from __future__ import annotations

from server.apis.tokenizing.endpoint import DetokenizeEndpoint, TokenizeEndpoint, TokenizerInfoEndpoint
from server.services.api import Api

EVERYWHERE = {
    "/tokenize": TokenizeEndpoint,
    "/detokenize": DetokenizeEndpoint,
    "/tokenizer_info": TokenizerInfoEndpoint,
}
API = Api("tokenizing", root=EVERYWHERE, prefixed=EVERYWHERE)
