"""POST gliner: the entities of a text."""

from __future__ import annotations

from pipelines.requests.pooling.entities import EntityRequest
from pipelines.values.node_values import FoundEntities
from pipelines.worker.model_choice import FINDING
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.classification import encode_entity_list
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext


class GlinerEndpoint(PoolingEndpoint[EntityRequest]):
    """The entities of a text, in the form of the `gliner` package's own server."""

    kind = "gliner"
    body = EntityRequest
    ability = FINDING
    id_prefix = "gliner-"

    def serialize(
        self, request: EntityRequest, pipeline: Pipeline, context: ReplyContext, value: FoundEntities
    ) -> EncodedReply:
        return encode_entity_list(value)
