"""The paths of decisions, and of scores by generated tokens."""

from __future__ import annotations

from server.apis.decisions.endpoint import DecisionsEndpoint
from server.apis.decisions.scoring_endpoint import GenerativeScoringEndpoint
from server.services.api import Api

API = Api(
    "decisions",
    root={"/generative_scoring": GenerativeScoringEndpoint},
    prefixed={"/decisions": DecisionsEndpoint, "/systemone": DecisionsEndpoint},
)
