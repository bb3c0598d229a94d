"""A classifier moderates: its labels are OpenAI's categories, or a graph says which ones they are."""

from __future__ import annotations

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Classes, Prompt
from pipelines.values.tasks import PoolingInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import of_type
from server.apis.moderations.categories import categories_of
from server.apis.moderations.replies import THRESHOLD, Judgement
from server.apis.moderations.request import Content
from server.apis.pooling.pooling_call import run_pooling_call
from server.http.exchange import Exchange
from server.services.services import Services

Harms = dict[str, tuple[str, ...]]
"""Label → its categories, of labels that are a harm."""


def harms_of(pipeline: Pipeline) -> Harms:
    """What a classifier finds; {} for one whose labels are no harms."""
    node = next(of_type(pipeline, "label"), None)
    if node is None:
        return {}
    if node.config.moderation is not None:
        return {label: tuple(names) for label, names in node.config.moderation.items()}
    found = {label: categories_of(label) for label in node.labels}
    return {label: names for label, names in found.items() if names is not None}


async def moderate_by_labels(
    services: Services, pipeline: Pipeline, exchange: Exchange, contents: list[Content], num_bytes: int
) -> list[Judgement]:
    """A judgement for each text.  Raises RequestError."""
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) < len(contents):
        raise RequestError("`input`: this model moderates text only", field="input")
    prompts = [Prompt.of_text(text) for text in texts]

    def prepare() -> Call:
        pooling_input = PoolingInput(prompts=prompts, truncate_prompt_tokens=-1)
        return services.prepare(pipeline, pooling_input, exchange)

    result = await run_pooling_call(await exchange.off_loop(prepare, num_bytes), exchange)
    return _judgements(result.value, harms_of(pipeline))


def _judgements(found: Classes, harms: Harms) -> list[Judgement]:
    judgements = []
    for row in found.values.tolist():
        judgement = Judgement()
        for label, share in zip(found.labels, row, strict=True):
            judgement.add(label, harms.get(label, ()), share)
            judgement.flagged |= label in harms and share >= THRESHOLD
        judgements.append(judgement)
    return judgements
