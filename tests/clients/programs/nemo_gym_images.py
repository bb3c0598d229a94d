"""NeMo Gym's VLLMModel: rollouts with images, and the ids of their prompts.  Argument: the server's address."""

import sys

from cases import named, run
from fastapi.testclient import TestClient
from gym_models import model_server, rollout, trained_on
from images import png

RED, BLUE = png((250, 10, 20)), png((10, 20, 250))
OPTIONS = {"max_output_tokens": 6}


def question(*images: str) -> dict[str, object]:
    shown = {"type": "input_image", "detail": "auto"}
    parts = [{**shown, "image_url": f"data:image/png;base64,{each}"} for each in images]
    return {"role": "user", "content": [*parts, {"type": "input_text", "text": "What is it?"}]}


def prompt_of(response: dict[str, object]) -> list[int]:
    return trained_on(response)["prompt_token_ids"]


def one_image(client: TestClient) -> None:
    """An image is as many ids as its usage says, those of any other of the same size, more than none."""
    plain, red, blue = (
        prompt_of(rollout(client, [question(*each)], **OPTIONS)) for each in ((), (RED,), (BLUE,))
    )
    assert red == blue
    assert len(red) > len(plain)


def goes_on(client: TestClient) -> None:
    """A second turn with an image of its own begins with the prompt of the first."""
    first = trained_on(rollout(client, [question(RED)], **OPTIONS))
    second = prompt_of(rollout(client, [question(RED), first, question(BLUE)], **OPTIONS))
    begun = first["prompt_token_ids"]
    assert second[: len(begun)] == begun
    of_images = max(begun, key=begun.count)
    assert second.count(of_images) == 2 * begun.count(of_images)


with model_server(sys.argv[1], "llava") as client:
    run([named(case.__name__, case, client) for case in (one_image, goes_on)])
