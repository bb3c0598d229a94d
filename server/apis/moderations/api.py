"""The path of moderations."""

from __future__ import annotations

from server.apis.moderations.endpoint import ModerationsEndpoint
from server.services.api import Api

API = Api("moderations", prefixed={"/moderations": ModerationsEndpoint})
