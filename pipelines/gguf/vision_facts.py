"""What an mmproj file says of its vision model: which kind it is, as data, its sizes and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.vision_inputs import Layers

CLIP = "clip"
"""`general.architecture` of such a file."""
KIND, OWN_KIND = "clip.projector_type", "clip.vision.projector_type"
SEES, HEARS = "clip.has_vision_encoder", "clip.has_audio_encoder"
EPSILON = "attention.layer_norm_epsilon"
WINDOW = 112
"""Pixels of a side of a window where the file does not say it."""
MAX_LEAST, MAX_LONGEST = 1 << 22, 1 << 12
"""The pixels to which images may be scaled up, and a side of one: those of a damaged file took all memory."""
LEAST_STD = 1e-6
UNREAD = frozenset(
    {"clip.has_text_encoder", "clip.has_llava_projector", "clip.vision.projection_dim", HEARS}
    | {
        "clip.vision.feed_forward_length",
        "clip.vision.mm_patch_merge_type",
        "clip.vision.is_deepstack_layers",
    }
    | {"clip.vision.attention.head_dim"}
)
"""Entries that say nothing which the tensors and the other entries do not."""
ROPE_BASE, BASE = "clip.rope.freq_base", 10000.0
"""The entry of files in Mistral's own form, and what all of them say."""
TABLE = "v.position_embd.weight"
OF_SOUND = "clip.audio."
"""What entries of an encoder of sound beside that of images begin with."""
Activation = Literal["gelu", "gelu by tanh", "gelu by sigmoid", "silu"]
Table = Literal["between", "by axis", "resized"]
"""What a patch of an image of any shape has of a table of positions: shares of the four rows between which it
is; a row for its column and one for its row; or the table is resized to the image's shape, as an image is.
"""


@dataclass(frozen=True)
class Projector:
    """How a kind of vision model, and of what projects its states to those of the decoder, differs.

    `family`: the `model_type` of its images.  `gelu`: which one the file means.  `norm`: of its layers.
    `merge`: patches of a token's side where the file does not say it, by the entry `merge_key`.
    `has_grids`: images keep their shapes, and their patches come with their places.  `has_axes`: the decoder
    has positions on several axes.  `whole_images`: in which layers of it tokens of an image attend to one
    another.  `last`: the weight whose rows are the numbers of an embedding, where the file says another
    number.  `ends_rows`: a token ends each row of the tokens, as Pixtral's.  `unnamed`: the activation of
    files that name none.  `tokens`: the most of an image that keeps its shape, 0 where the kind sets none.

    `base` of the rotary positions of images that keep their shapes; 0: there are none.  `pairs_apart`: the
    halves of query and key heads rotate together, else neighbours; `axes_apart`: the first half of a head
    rotates by the column, the second by the row, each in halves.  `scale` of scores, 0: by the size of a
    head.  `norms_values`: value heads have a norm without a weight.  `is_centred`: the graph takes colours
    from 0 to 1, and makes them -1 to 1.  `has_layers`: else a token is one large patch.
    """

    family: str
    gelu: Activation = "gelu by tanh"
    norm: Literal["layer", "rms"] = "layer"
    merge: int = 1
    merge_key: str = "projector.scale_factor"
    has_grids: bool = False
    has_axes: bool = False
    whole_images: Layers = ""
    last: str = ""
    ends_rows: bool = False
    unnamed: Activation = "gelu by sigmoid"
    tokens: int = 0
    base: float = 10000.0
    pairs_apart: bool = True
    axes_apart: bool = False
    table: Table = "between"
    scale: float = 0.0
    norms_values: bool = False
    is_centred: bool = False
    has_layers: bool = True


_QWEN = Projector("qwen2_vl", merge=2, merge_key="spatial_merge_size", has_grids=True, has_axes=True)
_GEMMA4 = Projector(
    "gemma4",
    norm="rms",
    merge=3,
    has_grids=True,
    whole_images="windowed",
    last="mm.input_projection.weight",
    unnamed="gelu by tanh",
    tokens=280,
    base=100.0,
    axes_apart=True,
    table="by axis",
    scale=1.0,
    norms_values=True,
    is_centred=True,
)
PROJECTORS = {
    "qwen2vl_merger": _QWEN,
    "qwen2.5vl_merger": replace(_QWEN, family="qwen2_5_vl", norm="rms"),
    "qwen3vl_merger": replace(_QWEN, family="qwen3_vl"),
    "gemma3": Projector("gemma3", merge=4, whole_images="all"),
    "gemma4v": _GEMMA4,
    "gemma4uv": replace(_GEMMA4, whole_images="all", base=0.0, is_centred=False, has_layers=False),
    "idefics3": Projector("idefics3", merge=2),
    "internvl": Projector("internvl_chat", gelu="gelu", merge=2),
    "pixtral": Projector(
        "pixtral",
        norm="rms",
        merge_key="spatial_merge_size",
        has_grids=True,
        pairs_apart=False,
        ends_rows=True,
        last="mm.2.weight",
    ),
    "lfm2": Projector("lfm2_vl", merge=2, has_grids=True, last="mm.2.weight", base=0.0, table="resized"),
    "mlp": Projector("llava", gelu="gelu", last="mm.2.weight"),
}
"""`clip.projector_type` → what it means."""


@dataclass(frozen=True)
class VisionFacts:
    """The sizes and numbers of a vision model: `side` and `patch` in pixels, `table` positions of a side.

    `size`: the numbers of an embedding that the decoder reads.  `windowed_every`: every n-th layer sees whole
    images, others windows of `window` pixels; 0: all do.  `least` and `most`: pixels of a scaled image, 0
    where the file does not say it.  `tiles`: the fewest and the most of an image; `longest`: pixels of its
    longer side before it is split.  `axis_rows`: the places of a row and of a column that have a row each of
    the table of positions, where it has those.
    """

    name: str
    kind: Projector
    layers: int
    width: int
    heads: int
    inner: int
    epsilon: float
    side: int
    patch: int
    merge: int
    size: int
    activation: Activation
    windowed_every: int
    window: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    least: int
    most: int
    tiles: tuple[int, int]
    longest: int
    axis_rows: int

    @property
    def along(self) -> int:
        """Patches of a side of an image of the model's own size."""
        return self.side // self.patch

    @property
    def tokens(self) -> int:
        """Tokens of an image of the model's own size, or the most of one that keeps its shape."""
        if self.kind.tokens and self.most:
            return self.most // (self.patch * self.merge) ** 2
        return self.kind.tokens or (self.along // self.merge) ** 2


def read_vision(metadata: Metadata, tensors: Mapping[str, GgufTensor]) -> VisionFacts:
    """Raises `GgufError` for a kind of projector that is not served and for sizes that cannot be."""
    name = _kind_name(metadata)
    kind = PROJECTORS[name]
    least = int(kind.has_layers)
    width = metadata.count("vision.embedding_length")
    heads = metadata.count("vision.attention.head_count", least=least)
    if heads and width % heads:
        raise GgufError(f"has {heads} heads for a width of {width}")
    if metadata.number(ROPE_BASE, BASE) != BASE:
        raise GgufError(f"has {ROPE_BASE} of {metadata.number(ROPE_BASE)}; {BASE} is served")
    patch, merge = metadata.count("vision.patch_size"), metadata.count(f"vision.{kind.merge_key}", kind.merge)
    if not kind.has_layers:
        patch, merge = patch * merge, 1
    facts = VisionFacts(
        name,
        kind,
        layers=_layers(metadata, least),
        width=width,
        heads=heads,
        inner=metadata.count("vision.feed_forward_length", least=least),
        epsilon=metadata.own(f"vision.{EPSILON}", most=1),
        side=metadata.count("vision.image_size"),
        patch=patch,
        merge=merge,
        size=tensors[kind.last].rows if kind.last in tensors else metadata.count("vision.projection_dim"),
        activation=_activation(metadata, kind),
        windowed_every=metadata.count("vision.n_wa_pattern", 0, 0),
        window=metadata.count("vision.window_size", WINDOW),
        mean=_colours(metadata, "image_mean"),
        std=_colours(metadata, "image_std"),
        least=metadata.count("vision.image_min_pixels", 0, 0, MAX_LEAST),
        most=metadata.count("vision.image_max_pixels", 0, 0),
        tiles=(metadata.count("vision.preproc_min_tiles", 1), metadata.count("vision.preproc_max_tiles", 12)),
        longest=metadata.count("vision.preproc_image_size", 0, 0, MAX_LONGEST),
        axis_rows=tensors[TABLE].rows // 2 if kind.table == "by axis" and TABLE in tensors else 0,
    )
    _check_pixels(facts)
    if kind.table == "by axis" and facts.axis_rows < facts.tokens * facts.merge:
        raise GgufError(f"has {facts.axis_rows} positions on each axis; an image may have more patches")
    if facts.layers and not kind.has_layers:
        raise GgufError(f"has {facts.layers} layers; models of type {name} have none")
    if kind.axes_apart and facts.layers and width % (4 * heads):
        raise GgufError(f"has heads of {width // heads} numbers, which do not rotate by rows and columns")
    if facts.merge > facts.along or (facts.along % facts.merge and not kind.has_grids):
        raise GgufError(f"has {facts.along} patches along an image, of which {facts.merge} are one token")
    return facts


def _check_pixels(facts: VisionFacts) -> None:
    """Raise `GgufError` where no image has as few pixels as the file allows."""
    token = (facts.patch * facts.merge) ** 2
    if facts.most and facts.most < max(token, facts.least):
        raise GgufError(
            f"clip.vision.image_max_pixels is {facts.most}, less than the {token} of a token or "
            f"image_min_pixels, {facts.least}"
        )


def _kind_name(metadata: Metadata) -> str:
    """The kind of projector.  Raises `GgufError` for another one than those that are served."""
    name = metadata.text(KIND) or metadata.text(OWN_KIND) or "(none)"
    if metadata.flag(SEES) is False or (metadata.flag(SEES) is None and metadata.flag(HEARS)):
        raise GgufError(f"has an encoder of sound alone ({name}); those of images are served")
    if name not in PROJECTORS:
        raise GgufError(f"has a projector of type {name}; those of type {', '.join(PROJECTORS)} are served")
    return name


def _layers(metadata: Metadata, least: int) -> int:
    """The layers that are computed: those of the file, which may say that the state behind its last one is
    what is projected.
    """
    layers = metadata.count("vision.block_count", least=least)
    said = metadata.array("clip.vision.feature_layer")
    if said is not None and said.tolist() != [layers]:
        raise GgufError(
            f"projects the states behind layers {said.tolist()} of {layers}; that of the last one is served"
        )
    return layers


def _activation(metadata: Metadata, kind: Projector) -> Activation:
    if metadata.flag("clip.use_silu"):
        return "silu"
    return kind.gelu if metadata.flag("clip.use_gelu") else kind.unnamed


def _colours(metadata: Metadata, name: str) -> tuple[float, ...]:
    values = metadata.array(f"clip.vision.{name}")
    if values is None or len(values) != 3:
        raise GgufError(f"has no three numbers clip.vision.{name}")
    if not np.isfinite(values).all() or (name == "image_std" and (values < LEAST_STD).any()):
        raise GgufError(f"clip.vision.{name} is {values.tolist()}, by which no colour is scaled")
    return tuple(round(float(value), 7) for value in values)
