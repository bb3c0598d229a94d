"""A GGUF file with an mmproj file of another name, exported as docs/vision.md says, answers openai's client about
images as transformers does on the same weights.
"""

from __future__ import annotations

import warnings
from base64 import b64encode
from io import BytesIO

import httpx
import openai
import pytest
from click.testing import CliRunner
from closed_clients import closed_later
from gguf_vision import FAMILIES, MODEL, PROJECTOR, write_seeing
from patience import PATIENCE_S
from tiny_vision import picture

from tools.export.__main__ import main

pytestmark = [pytest.mark.breadth, pytest.mark.slow]

FAMILY, NUM_TOKENS = FAMILIES["qwen2_5_vl"], 12
IMAGES = {"tall": picture(1, 60, 90), "wide": picture(2, 120, 31)}


@pytest.fixture(scope="module")
def source(server, tmp_path_factory):
    """Hugging Face's folder of the model `seeing`, which the server has from its two files."""
    folder = tmp_path_factory.mktemp("seeing") / "files"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = write_seeing(FAMILY, folder)
    eyes = folder.parent / "eyes.gguf"
    (folder / PROJECTOR).rename(eyes)
    options = ["--mmproj", str(eyes), "--name", "seeing", "--models", str(server.models), "--no-first-run"]
    done = CliRunner().invoke(main, [str(folder / MODEL), *options])
    assert done.exit_code == 0, done.output
    graph = server.models / "seeing" / "graph.yaml"
    exact = "model.onnx, device: cpu, precision: f32, kv_cache: f32"
    graph.write_text(graph.read_text().replace("model.onnx, device: cpu", exact))
    assert httpx.post(f"{server.url}/v1/config/reload", timeout=PATIENCE_S).status_code == 201
    return source


def data_url(image):
    file = BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


@pytest.mark.parametrize("name", IMAGES)
def test_replies_about_images_are_those_of_transformers(server, source, name):
    image, processor = IMAGES[name], FAMILY.processor()
    shown = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": name}]}]
    text = processor.tokenizer.apply_chat_template(
        shown, chat_template=processor.chat_template, add_generation_prompt=True, tokenize=False
    )
    prompt = processor(images=[image], text=[text])["input_ids"][0]
    wanted = FAMILY.answer(source, list(prompt), [image], NUM_TOKENS)
    content = [
        {"type": "image_url", "image_url": {"url": data_url(image)}},
        {"type": "text", "text": name},
    ]
    client = closed_later(
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", timeout=PATIENCE_S, max_retries=0)
    )
    with client:
        reply = client.chat.completions.create(
            model="seeing",
            messages=[{"role": "user", "content": content}],
            max_tokens=NUM_TOKENS,
            temperature=0,
            extra_body={"ignore_eos": True, "return_token_ids": True},
        )
    assert reply.choices[0].model_extra["token_ids"] == wanted
    assert reply.usage.prompt_tokens == len(prompt)
