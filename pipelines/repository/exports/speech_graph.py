"""Writes the graph of an exported Whisper model: sound → features → frames → text in segments."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_files import PLACES, TOKENIZER

ENCODER, DECODER, ALIGNMENT = "encoder.onnx", "decoder.onnx", "alignment.onnx"
FEATURES, GENERATION = "preprocessor_config.json", "generation_config.json"
NEEDED = (ENCODER, DECODER, TOKENIZER, FEATURES, GENERATION)
OPTIMUM = ("openvino_encoder_model.xml", "openvino_decoder_model.xml")
REFUSAL = (
    f"{' and '.join(OPTIMUM)} are optimum-intel's: that decoder has its cache inside, for one request at a "
    "time, and cannot be paged; export the Hugging Face folder that they were made from: "
    "braid export HF_FOLDER --name NAME"
)
LINES = """\
task: transcribe
nodes:
  features: {{type: log_mel, from: request.windows, settings: {at}preprocessor_config.json}}
  frames:
    type: batcher
    from: features
    max_batch_tokens: 12000
    body:
      hidden: {{type: encoder, from: batch, path: {at}encoder.onnx, device: cpu}}
  prompt:
    type: speech_prompt
    from: request.windows
    tokenizer: {at}tokenizer.json
    settings: {at}generation_config.json
  generated:
    type: scheduler
    from: {{tokens: prompt, context: frames}}
    max_sequences: 64
    max_step_tokens: 512
    cache: {{reuse_prefixes: true}}
    body:
      logits: {{type: model, from: step, path: {at}decoder.onnx, device: cpu}}
      next: {{type: sampler, from: logits, defaults: {at}generation_config.json}}
  text: {{type: detokenize, from: generated, tokenizer: {at}tokenizer.json}}
  segments: {{type: segments, from: text, settings: {at}generation_config.json}}
"""
WORD_LINES = """\
  words:
    type: word_times
    from: {{segments: segments, context: frames}}
    tokenizer: {at}tokenizer.json
    settings: {at}generation_config.json
    body:
      weights: {{type: tensor_model, from: batch, path: {at}alignment.onnx}}
"""
"""Lines of a folder with a file that shows when each word was spoken."""


def find_speech(folder: Path) -> str | None:
    """What a graph puts before the names of the files of the Whisper model in `folder`; None without one."""
    for place in PLACES:
        if all((folder / place / name).is_file() for name in NEEDED):
            return "" if place == "." else f"{place}/"
    return None


def is_optimums(folder: Path) -> bool:
    """Whether the folder has an encoder and a decoder of optimum-intel, which are refused."""
    return any((folder / place / OPTIMUM[0]).is_file() for place in PLACES)


def speech_lines(folder: Path, prefix: str) -> list[str]:
    """The lines of graph.yaml from the task on."""
    has_alignment = (folder / prefix / ALIGNMENT).is_file()
    return (LINES + (WORD_LINES if has_alignment else "")).format(at=prefix).splitlines()
