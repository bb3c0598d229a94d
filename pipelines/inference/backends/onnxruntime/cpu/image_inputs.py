"""The inputs of a call for the images of its sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.onnx.decoder_model import ReadsImages
from pipelines.inference.backends.onnxruntime.step_input_names import IMAGE_ENDS
from pipelines.inference.contracts.step import InputsEmbeds, Step
from pipelines.onnx_format.decoder_format import GIVEN_EMBEDDINGS, GIVEN_PLACES, GIVEN_POSITIONS

Indices = NDArray[np.int64]
Inputs = dict[str, NDArray[Any]]


class ImageInputs:
    """What a decoder reads of images; nothing for one that reads none."""

    def __init__(self, images: ReadsImages) -> None:
        self._images = images
        self._none = InputsEmbeds(
            np.empty((0, images.embeds_size), np.float32),
            np.empty(0, np.int64),
            np.empty((images.mrope_axes, 0), np.int64) if images.mrope_axes > 1 else None,
        )

    def of(self, step: Step, tokens: Indices) -> Inputs:
        """The inputs of a call of these of the step's tokens."""
        if not self._images.embeds_size:
            return {}
        embeds = step.embeds or self._none
        place_of = np.full(step.num_tokens, -1)
        place_of[tokens] = np.arange(len(tokens))
        places = place_of[embeds.places]
        own = places >= 0
        inputs: Inputs = {GIVEN_EMBEDDINGS: embeds.values[own], GIVEN_PLACES: places[own]}
        if embeds.positions is not None:
            inputs[GIVEN_POSITIONS] = np.ascontiguousarray(embeds.positions[:, own])
        if self._images.whole_images:
            inputs[IMAGE_ENDS] = _ends(step, embeds.places)[tokens]
        return inputs

    def none(self) -> Inputs:
        """The inputs of a call of one token without images."""
        if not self._images.embeds_size:
            return {}
        inputs: Inputs = {GIVEN_EMBEDDINGS: self._none.values, GIVEN_PLACES: self._none.places}
        if self._none.positions is not None:
            inputs[GIVEN_POSITIONS] = self._none.positions
        return inputs | ({IMAGE_ENDS: np.zeros(1, np.int64)} if self._images.whole_images else {})


def _ends(step: Step, places: Indices) -> Indices:
    """int64[tokens]: the position of the last token of the image that each one is of, or its own."""
    is_image = np.zeros(step.num_tokens + 1, bool)
    is_image[places] = True
    follows = is_image[:-1] & is_image[1:]
    follows[step.starts[1:] - 1] = False  # the next token is of another sequence
    last = np.where(follows, step.num_tokens, np.arange(step.num_tokens))
    last = np.minimum.accumulate(last[::-1])[::-1]
    ends: Indices = step.positions[last]
    return ends
