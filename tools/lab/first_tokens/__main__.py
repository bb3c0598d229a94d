"""`python -m tools.lab.first_tokens FILE.gguf`: the first tokens of 200 chats, computed in several types.

Each is compared with what transformers computes in float32 from the same weights: whether the likeliest first
token is the same, and the Kullback-Leibler divergence.  What transformers gives is stored in build/.  Ends
with 1 where the default loses more than 2 of 100 first tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import yaml
from numpy.typing import NDArray

from pipelines.gguf.convert import convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.open_decoder import settings_of
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from tools.lab.kv_precision import Distance, distance
from tools.lab.lm_eval import hf_folder
from tools.paged_steps import Prompt, prompt_logits

BUILD, CHATS = Path("build/first-tokens"), Path(__file__).with_name("chats.yaml")
STEP_TOKENS, MAX_LOST = 512, 0.02
DEFAULT = "default"
Logits = NDArray[np.float32]


def _openvino(**settings: Any) -> Callable[[Path], DecoderSession]:
    return lambda path: OpenVINOSession(path, OpenVINOSettings(**settings))


def _as_served(**line: Any) -> Callable[[Path], DecoderSession]:
    """With Braid's own kernels, if there are any for such a line."""
    return lambda path: OpenVINOSession(path, settings_of(DecoderSettings(**line)))


WAYS: dict[str, Callable[[Path], DecoderSession]] = {
    "f32": _openvino(precision="f32", kv_cache="f32"),
    "f32-u8": _openvino(precision="f32"),
    "kernels": _as_served(kv_cache="f32"),
    DEFAULT: _as_served(),
    "one-level": _as_served(activation_group=32, kv_cache="f32"),
    "one-level-u8": _as_served(activation_group=32),
    "int8": _openvino(activation_group=32, kv_cache="f32"),
    "int8-u8": _openvino(activation_group=32),
    "bf16": _openvino(precision="bf16", activation_group=0, kv_cache="f32"),
    "bf16-u8": _openvino(precision="bf16", activation_group=0),
    "bf16-int8-u8": _openvino(precision="bf16", activation_group=32),
    "onnxruntime": OnnxCpuSession,
}
"""The default has OpenVINO's choice of a cache, u8, and activations in float32, or in two levels of int8
where there are kernels; int8: OpenVINO's sums of int8 products, one-level: those of the kernels.
"""


def conversations() -> Iterator[list[dict[str, str]]]:
    """The messages of each chat."""
    for chat in yaml.safe_load(CHATS.read_text(encoding="utf-8")):
        fields = {"turns": [chat]} if isinstance(chat, str) else chat
        system = [{"role": "system", "content": fields["system"]}] if "system" in fields else []
        roles = ("user", "assistant")
        yield system + [{"role": roles[at % 2], "content": text} for at, text in enumerate(fields["turns"])]


def reference(file: Path, folder: Path) -> tuple[list[list[int]], Logits]:
    """The token ids of the chats, and float32[chats, vocabulary] that transformers gives behind them."""
    ids, logits = folder / "ids.json", folder / "reference.npy"
    if not logits.is_file():
        convert(file, folder / "model")
        hf_folder.write(file, folder / "model", folder / "weights")
        found, computed = _of_transformers(folder / "weights", folder / "model" / "chat_template.jinja")
        ids.write_text(json.dumps(found))
        np.save(logits, computed)
    return json.loads(ids.read_text()), np.load(logits)


def _of_transformers(weights: Path, template: Path) -> tuple[list[list[int]], Logits]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(weights)
    model = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
    written = {"chat_template": template.read_text(), "add_generation_prompt": True, "return_dict": False}
    ids = [tokenizer.apply_chat_template(conversation, **written) for conversation in conversations()]
    with torch.no_grad():
        rows = [model(torch.tensor([prompt])).logits[0, -1].numpy() for prompt in ids]
    return ids, np.stack(rows)


def computed(session: DecoderSession, ids: list[list[int]]) -> Logits:
    """float32[chats, vocabulary] behind each chat, each in a step of its own."""
    prompts = [Prompt(np.array(each), np.array([len(each) - 1])) for each in ids]
    return np.concatenate([prompt_logits(session, [each], STEP_TOKENS)[0] for each in prompts])


def row(name: str, found: Distance, rounded: Distance) -> str:
    kl = f"{found.kl:.1e} | {found.kl_max:.1e}"
    return f"| {name} | {1 - found.same:.1%} | {kl} | {1 - rounded.same:.1%} | {rounded.kl:.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.first_tokens", description=__doc__)
    parser.add_argument("file", type=Path, help="a GGUF file of the llama architecture")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS), help="default: all")
    asked = parser.parse_args()
    folder = BUILD / asked.file.stem
    ids, expected = reference(asked.file, folder)
    print("| | first tokens lost | KL divergence, nats | its largest | head in bf16: lost | its KL |")
    print("|---|---|---|---|---|---|")
    lost = {}
    for name in asked.ways:
        session = WAYS[name](folder / "model" / "model.onnx")
        logits = computed(session, ids)
        session.close()
        apart = distance(expected, logits)
        narrow = logits.astype(ml_dtypes.bfloat16).astype(np.float32)
        print(row(name, apart, distance(expected, narrow)), flush=True)
        lost[name] = 1 - apart.same
    sys.exit(lost.get(DEFAULT, 0) > MAX_LOST)


if __name__ == "__main__":
    main()
