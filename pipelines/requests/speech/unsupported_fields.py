"""Tables of the fields of speech requests that have no effect, and why.  A form's values are texts."""

from __future__ import annotations

from pipelines.requests.fields.known_fields import Refused

OFF = ("false", "False", "0", "")
NO_SPEAKERS = "speakers are not recognised"

REFUSED: dict[str, Refused] = {
    "hotwords": Refused("write the words that are expected into `prompt`", ("",)),
    "use_beam_search": Refused("times and suppressed tokens have no part in a beam search", OFF),
    "n": Refused("a recording has one text", ("1", "")),
    "length_penalty": Refused("a parameter of beam search", ("1", "1.0", "")),
    "include_stop_str_in_output": Refused("requests name no stop strings", OFF),
    "watermarking": Refused("watermarks are not supported", OFF),
    "include[]": Refused("the log-probability of each segment is in verbose_json", ([],)),
    "keywords": Refused("write the words that are expected into `prompt`", ("",)),
    "keywords[]": Refused("write the words that are expected into `prompt`", ([],)),
    "languages": Refused("use `language`, or `vllm_xargs` with `language_candidates`", ("",)),
    "languages[]": Refused("use `language`, or `vllm_xargs` with `language_candidates`", ([],)),
    "known_speaker_names[]": Refused(NO_SPEAKERS, ([],)),
    "known_speaker_references[]": Refused(NO_SPEAKERS, ([],)),
    "vad_config.enabled": Refused("long recordings are cut where they are quiet; see `long_form`", OFF),
}
"""Fields that a request may carry only with a neutral value."""

IGNORED: dict[str, str] = {
    "user": "a label for the operator's statistics; it does not change the result",
    "vad_config.threshold": "voice activity is not looked for",
    "vad_config.min_silence_duration_ms": "voice activity is not looked for",
    "vad_config.speech_pad_ms": "voice activity is not looked for",
}
"""Field → why it is accepted without effect."""
