"""LLaVA of random weights, exported as optimum-intel does: time depends on shapes alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %} {% endfor %}ASSISTANT:"
)
SPECIALS = ["<s>", "</s>", "<pad>", "<image>"]
PATCH = 14


class Size(NamedTuple):
    """Pixels of a side, then hidden size and layers of the vision model, and of the language model."""

    side: int
    vision: tuple[int, int]
    text: tuple[int, int]

    @property
    def num_tokens(self) -> int:
        return (self.side // PATCH) ** 2


SIZES = {"small": Size(224, (256, 6), (256, 4)), "clip-l": Size(336, (1024, 24), (1024, 12))}
"""The vision model of clip-l has the shape of LLaVA 1.5's, CLIP ViT-L/14 at 336 pixels."""


def make_model(folder: Path, size: Size) -> Path:
    """The folder of the export, made once."""
    if not (folder / "graph.yaml").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _export(folder, size)
        (folder / "graph.yaml").write_text(_graph(folder))
    return folder


def add_tokenizer_ir(folder: Path, python: Path) -> None:
    """The tokenizer in openvino_genai's form, made in its environment."""
    if not (folder / "openvino_detokenizer.xml").is_file():
        command = [str(python), "-m", "tools.lab.bench.peers.tokenizer_ir", str(folder), str(folder)]
        subprocess.run(command, check=True, capture_output=True)


def _graph(folder: Path) -> str:
    from pipelines.repository.new_graph import new_graph

    text = new_graph(folder)
    for name in ("openvino_language_model.xml", "openvino_vision_embeddings_model.xml"):
        text = text.replace(f"{name}, device: cpu", f"{name}, device: cpu, precision: f32")
    return text


def _export(folder: Path, size: Size) -> None:
    import torch
    from optimum.exporters.openvino import export_from_model
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    (seen, seen_layers), (hidden, layers) = size.vision, size.text
    config = LlavaConfig(
        text_config=LlamaConfig(
            vocab_size=320,
            hidden_size=hidden,
            intermediate_size=hidden * 11 // 4,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 64,
            max_position_embeddings=8192,
            bos_token_id=297,
            eos_token_id=298,
            pad_token_id=299,
        ),
        vision_config=CLIPVisionConfig(
            hidden_size=seen,
            intermediate_size=seen * 4,
            num_hidden_layers=seen_layers,
            num_attention_heads=seen // 64,
            image_size=size.side,
            patch_size=PATCH,
            projection_dim=seen,
        ),
        image_token_index=300,
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
        image_seq_length=size.num_tokens,
    )
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(config).eval()
    export_from_model(model, folder, task="image-text-to-text", stateful=True, preprocessors=None)
    _processor(size).save_pretrained(folder)


def _processor(size: Size) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import CLIPImageProcessor, LlavaProcessor, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"w{number}" for number in range(len(letters), 297))]
    tokenizer = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    begin, end, pad, image = SPECIALS
    return LlavaProcessor(
        CLIPImageProcessor(
            size={"shortest_edge": size.side}, crop_size={"height": size.side, "width": size.side}
        ),
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            bos_token=begin,
            eos_token=end,
            pad_token=pad,
            extra_special_tokens={"image_token": image},
        ),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        image_token=image,
        num_additional_image_tokens=1,
    )
