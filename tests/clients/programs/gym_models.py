"""A NeMo Gym model server that asks Braid, and what training needs of its replies."""

from unittest.mock import MagicMock

import nemo_gym.server_utils
from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

nemo_gym.server_utils.get_global_config_dict = lambda **_: {}


def model_server(url: str, model: str) -> TestClient:
    """A web server with a VLLMModel that asks a model of Braid's at `url`."""
    config = VLLMModelConfig(
        host="127.0.0.1",
        port=1,
        base_url=f"{url}/v1",
        api_key="none",
        model=model,
        entrypoint="",
        name="braid",
        return_token_id_information=True,
        uses_reasoning_parser=True,
    )
    return TestClient(VLLMModel(config=config, server_client=MagicMock(spec=ServerClient)).setup_webserver())


def rollout(client: TestClient, messages: list[object], **options: object) -> dict[str, object]:
    reply = client.post("/v1/responses", json={"input": messages, "temperature": 0, **options})
    assert reply.status_code == 200, reply.text
    return reply.json()


def trained_on(response: dict[str, object]) -> dict[str, object]:
    """The last item of a reply, which has the ids; as many of them, and of log-probabilities, as its usage."""
    item = response["output"][-1]
    count = response["usage"]["output_tokens"]
    assert len(item["generation_token_ids"]) == len(item["generation_log_probs"]) == count
    assert len(item["prompt_token_ids"]) == response["usage"]["input_tokens"]
    assert all(log_prob <= 0 for log_prob in item["generation_log_probs"])
    return item
