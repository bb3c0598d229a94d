"""Families in a process of its own: `python -m tools.lab.breadth.trial`.

Reads a JSON list of rows and formats, and prints an outcome for each as a line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NotRequired, TypedDict

from tools.lab.breadth.families import FAMILIES, SIZES

FORMATS = ("onnx", "openvino")
"""Formats of `braid export`: by Braid's own trace, and by optimum-intel."""
PLACES = re.compile(r" \(/[^)]*\)")
"""Files of this machine, as errors of imports name them."""
OPENVINO, ONNX_RUNTIME = "openvino", "onnxruntime"
LONGEST = 100  # letters of an error that names all families
UNKNOWN = "unknown"
"""The state of a family that this transformers does not have."""


class Outcome(TypedDict):
    """`state`: equal, refused, unknown or failed; `why`: the engine of what is equal, else a sentence.

    `tried`: the day.
    """

    state: str
    why: str
    tried: NotRequired[str]


def try_family(name: str, form: str, folder: Path) -> Outcome:
    """Make the model of a row, export it in float32 in a format, and say what came of it."""
    from tools.export.base.folder import ExportError
    from tools.export.decoders.decoder import NEWER, export_decoder

    try:
        write_model(name, folder / "source")
    except Exception as error:  # a model that this version of transformers lacks, or makes otherwise
        return Outcome(state=UNKNOWN, why=_line(error)[:LONGEST])
    try:
        export_decoder(str(folder / "source"), folder / "model", "fp32", form=form)
    except ExportError as error:
        said = str(error).removesuffix(NEWER).replace(str(folder / "source"), "it")
        return Outcome(state="refused", why=PLACES.sub("", said))
    except Exception as error:
        traceback.print_exc()
        return Outcome(state="failed", why=_line(error))
    return Outcome(state="equal", why=_engine(folder / "model"))


def _engine(folder: Path) -> str:
    """The engine that ran the model for the comparison."""
    from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
    from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
    from pipelines.inference.contracts.device_errors import Unsupported

    file = next(path for path in (folder / "model.onnx", folder / "openvino_model.xml") if path.exists())
    try:
        OpenVINOSession(file, OpenVINOSettings()).close()
    except Unsupported:
        return ONNX_RUNTIME
    return OPENVINO


def write_model(name: str, folder: Path) -> None:
    """A Hugging Face folder with a random decoder of a row and a byte-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(7)
    family, changes = FAMILIES[name]
    config = AutoConfig.for_model(family, **SIZES | changes)
    model = AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        if weight.ndim > 1 and not weight.any():  # zeros, as some routers begin, would make experts equal
            torch.nn.init.normal_(weight, std=SIZES["initializer_range"])
    model.save_pretrained(folder)
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={text: number for number, text in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def main() -> None:
    import torch

    torch.set_num_threads(1)
    outcomes = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever libraries print
    with os.fdopen(outcomes, "w") as lines:
        for name, form in json.load(sys.stdin):
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(try_family(name, form, Path(folder))), file=lines, flush=True)


if __name__ == "__main__":
    main()
