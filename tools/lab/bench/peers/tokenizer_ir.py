"""`python -m tools.lab.bench.peers.tokenizer_ir SOURCE TARGET`: a Hugging Face tokenizer → OpenVINO's form.

Runs in the environment of openvino_genai; knows nothing of models.
"""

from __future__ import annotations

import sys
from pathlib import Path

import openvino as ov
from openvino_tokenizers import convert_tokenizer
from transformers import AutoTokenizer


def main() -> None:
    source, target = sys.argv[1:]
    encode, decode = convert_tokenizer(AutoTokenizer.from_pretrained(source), with_detokenizer=True)
    ov.save_model(decode, Path(target) / "openvino_detokenizer.xml")
    ov.save_model(encode, Path(target) / "openvino_tokenizer.xml")


if __name__ == "__main__":
    main()
