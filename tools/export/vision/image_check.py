"""A prompt with an image: what transformers gives for it, and how an exported model reads the same image."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.nodes.images.families import read_family
from pipelines.nodes.images.read_image import ReadImage
from pipelines.repository.exports.export_files import CONFIG
from pipelines.repository.exports.vision_graph import ENCODER, SETTINGS
from tools.export.base.folder import ExportError, first_line
from tools.export.decoders.logit_check import SENTENCES, Expected
from tools.logit_distance import GROUP
from tools.paged_steps import Prompt

SIZE = (260, 150)
"""Width and height of the image in pixels: no square, and no whole number of patches or tiles."""
BEFORE = "vision_start_token_id"
"""The key of config.json for the token by which some models know where an image begins."""


@dataclass(frozen=True)
class Shown:
    """A prompt with an image, each part of which begins at one of `starts`, and transformers'
    log-probabilities after it, float32[rows, vocab].
    """

    image: ReadImage
    ids: NDArray[np.int64]
    starts: list[int]
    rows: NDArray[np.int64]
    logprobs: NDArray[np.float32]

    def expected(self, folder: Path) -> Expected:
        """The prompt with what the exported encoder in `folder` gives.  Raises `ExportError`."""
        grids = list(self.image.grids)
        images = PromptEmbeds(self.starts, _encoded(folder, self.image), [b""] * len(self.starts), grids)
        return Expected(Prompt(self.ids, self.rows, images), self.logprobs)


def show(model: Any, tokenizer: Any, processor: Any, folder: Path) -> Shown:
    """What transformers' `model` gives; `folder` has the settings of the export.  Raises `ExportError`."""
    try:
        family = read_family(folder / CONFIG, folder / SETTINGS)
    except ValueError as error:
        raise ExportError(f"its images would not be read as they must: {error}") from error
    colours = np.random.default_rng(1).integers(0, 256, (4, 4, 3), np.uint8)
    picture = Image.fromarray(colours).resize(SIZE, Image.Resampling.BICUBIC)
    image = family.read(picture)
    before, after = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in SENTENCES[:2])
    written = tokenizer(image.text, add_special_tokens=False)["input_ids"]
    mark = getattr(model.config, BEFORE, None)
    ids, starts = list(before) + ([mark] if mark is not None else []), []
    for token in written:
        is_image = token == family.token_id
        starts += [len(ids)] * is_image
        ids += [token] * (image.num_tokens if is_image else 1)
    if len(starts) != len(image.parts):
        raise ExportError(f"its tokenizer does not know {image.text!r}, which stands for an image")
    ids += after
    rows = np.arange(len(ids) - GROUP, len(ids))
    token_ids = np.array(ids, np.int64)
    return Shown(
        image, token_ids, starts, rows, _logprobs(model, processor, picture, token_ids, rows, family.token_id)
    )


@torch.no_grad()
def _logprobs(
    model: Any,
    processor: Any,
    picture: Image.Image,
    ids: NDArray[np.int64],
    rows: NDArray[np.int64],
    token_id: int,
) -> NDArray[np.float32]:
    """float32[rows, vocab], with the image as transformers' own processor reads it."""
    names = inspect.signature(model.forward).parameters
    text = torch.from_numpy(ids)[None]
    inputs = {
        "input_ids": text,
        "attention_mask": torch.ones_like(text),  # without it Qwen3-VL counts positions as in text
        "token_type_ids": (text == token_id).long(),
        **processor([picture], return_tensors="pt"),
    }
    try:
        logits = model(
            **{name: value for name, value in inputs.items() if name in names}, use_cache=False
        ).logits[0]
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise ExportError(f"{type(model).__name__} does not read an image: {first_line(error)}") from error
    return np.asarray(logits[torch.from_numpy(rows)].float().log_softmax(-1).numpy())


def _encoded(folder: Path, image: ReadImage) -> list[NDArray[np.float32]]:
    """The embeddings of each part of an image.  Raises `ExportError`."""
    lengths = np.full(len(image.parts), image.num_tokens)
    blank = np.zeros((len(lengths), image.num_tokens), np.int64)
    grids = np.array(image.grids, np.int32) if image.grids else None
    batch = TokenBatch(blank, lengths, blank, np.ones(len(lengths), np.bool_), image.pixels, grids)
    try:
        encoder = open_encoder(folder / ENCODER, EncoderSettings(precision="f32"))
        rows = encoder.run(batch).copy()
    except (ModelError, RuntimeError) as error:
        raise ExportError(f"the exported vision model does not run: {first_line(error)}") from error
    encoder.close()
    return list(rows)
