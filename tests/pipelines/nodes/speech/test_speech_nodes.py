"""The prompt of a Whisper model, and the segments of its output."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from fake_decoder import byte_tokenizer

from pipelines.base.errors import RequestError
from pipelines.nodes.speech.segments import Segmenter
from pipelines.nodes.speech.speech_prompt import SpeechPrompt
from pipelines.nodes.speech.whisper_tokens import WhisperTokens, read_whisper_tokens
from pipelines.values.reply_values import Alternative, TextLogprob, TextUpdate
from pipelines.values.tasks import SpeechInput
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece

START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, PREVIOUS, NO_SPEECH, NO_TIMES, ZERO = 301, *range(302, 310)
KNOWN = WhisperTokens(
    START, NO_TIMES, {"en": ENGLISH, "de": GERMAN}, {"transcribe": TRANSCRIBE, "translate": TRANSLATE}, 50
)
ENGLISH_ONLY = WhisperTokens(START, NO_TIMES, {}, {})
WINDOW = np.zeros(16_000 * 10, np.float32)


def prompt(known=KNOWN, **fields):
    node = SpeechPrompt(SpeechPrompt.Config(tokenizer="t", settings="s"), SimpleNamespace(name="tiny"))
    node.tokenizer, node.known = byte_tokenizer(), known
    request = SpeechInput(windows=[WINDOW], **fields)
    (tokens,) = node.run(SimpleNamespace(request=request), request.windows)
    return tokens


def test_the_language_is_one_step_over_all_of_them():
    tokens = prompt()
    assert tokens.ids == [START]
    assert tokens.sampling["opening"] == [[ENGLISH, GERMAN], [TRANSCRIBE], [NO_TIMES]]
    assert tokens.sampling["logprob_token_ids"] == [NO_SPEECH]


def test_a_language_a_task_and_times():
    tokens = prompt(language="de", translate=True, timestamps=True)
    assert tokens.sampling["opening"] == [[GERMAN], [TRANSLATE]]
    assert tokens.sampling["timestamps"].first == ZERO
    assert prompt(candidates=["de"]).sampling["opening"][0] == [GERMAN]


def test_only_the_end_of_an_earlier_text_counts():
    tokens = prompt(previous_text="x" * 300 + " end ")
    ids = byte_tokenizer().encode(" " + "x" * 300 + " end", add_special_tokens=False).ids
    assert tokens.ids == [PREVIOUS, *ids[-223:], START]


def test_a_text_that_has_begun_is_part_of_the_prompt():
    """The opening too; the earlier text has the room that is left, and the output may end at once."""
    begun = byte_tokenizer().encode(" so it", add_special_tokens=False).ids
    tokens = prompt(language="en", begins_with=" so it ", previous_text="x" * 300)
    earlier = tokens.ids[1 : -len(begun) - 4]
    assert tokens.ids[-len(begun) - 4 :] == [START, ENGLISH, TRANSCRIBE, NO_TIMES, *begun]
    assert len(earlier) == 223 - 3 - len(begun)
    assert (tokens.sampling["opening"], tokens.sampling["begin_suppress_ids"]) == ([], [])
    assert prompt(ENGLISH_ONLY, begins_with="so it").ids == [START, NO_TIMES, *begun]
    assert "begin_suppress_ids" not in prompt(language="en", begins_with=" ").sampling


@pytest.mark.parametrize(
    ("known", "fields", "text"),
    [
        (KNOWN, {"begins_with": "so"}, "in a language that is known"),
        (KNOWN, {"language": "hh"}, "Unsupported language: 'hh'.  Must be one of ['de', 'en']."),
        (KNOWN, {"candidates": ["en", "xx"]}, "Unsupported language: 'xx'"),
        (ENGLISH_ONLY, {"language": "de"}, "Must be one of ['en']"),
        (ENGLISH_ONLY, {"translate": True}, "knows English only"),
    ],
)
def test_what_the_model_does_not_know_is_refused(known, fields, text):
    with pytest.raises(RequestError) as found:
        prompt(known, **fields)
    assert text in found.value.message


def test_an_english_model_opens_with_whether_there_are_times():
    assert prompt(ENGLISH_ONLY, language="en").sampling["opening"] == [[NO_TIMES]]
    assert prompt(ENGLISH_ONLY, timestamps=True).sampling["opening"] == []


@pytest.mark.parametrize("fault", [{"no_timestamps_token_id": "x"}, {"lang_to_id": {"<|en|>": 5}}])
def test_settings_that_are_no_whisper_models_name_the_key(tmp_path, fault):
    whole = {"decoder_start_token_id": START, "no_timestamps_token_id": NO_TIMES}
    file = tmp_path / "generation_config.json"
    file.write_text(json.dumps(whole))
    assert read_whisper_tokens(file) == ENGLISH_ONLY
    file.write_text(json.dumps(whole | fault))
    with pytest.raises(ValueError, match=next(iter(fault))):
        read_whisper_tokens(file)


def at(seconds):
    return ZERO + round(seconds / 0.02)


def run(*pieces, known=KNOWN, num_opening=2, duration_s=10.0):
    """Segments and texts of an output; a piece is a list of (id, text) pairs, and the last one ends it."""
    stage = Segmenter(known, {ENGLISH: "en", GERMAN: "de"}, num_opening, duration_s)
    outs = []
    for i, piece in enumerate(pieces):
        ids, parts = [token for token, _ in piece], [part for _, part in piece]
        silence = [Alternative("", b"", np.log(0.25), NO_SPEECH)]
        logprobs = PieceLogprobs([TextLogprob("", b"", token, -0.5, silence) for token in ids])
        finish = "stop" if i == len(pieces) - 1 else None
        update = TextUpdate(TokenPiece([*ids, *([300] if finish else [])], len(ids), finish), "", parts)
        update.piece.logprobs = logprobs
        outs.append(stage.push(update))
    return outs


OPENING = [(GERMAN, ""), (TRANSCRIBE, "")]


def test_text_between_times_becomes_segments():
    outs = run(
        [*OPENING, (at(0), ""), (1, " So")],
        [(2, "\u00fc"), (at(2.5), "<|2.50|>"), (at(2.5), ""), (3, " zwei")],
        [(at(9), "")],
    )
    assert [out.text for out in outs] == [" So", "\u00fc zwei", ""]
    first, second = outs[1].segments + outs[2].segments
    assert (first.start_s, first.end_s, first.text, first.token_ids) == (0, 2.5, " So\u00fc", [1, 2])
    assert (second.start_s, second.end_s, second.text) == (2.5, 9, " zwei")
    assert outs[0].language == "de"
    assert outs[0].no_speech_prob == pytest.approx(0.25)
    assert outs[-1].continues_s is None  # one time at the end: nothing more is said


def test_text_without_an_end_begins_the_next_window():
    (out,) = run([*OPENING, (at(0), ""), (1, " a"), (at(4), ""), (at(4), ""), (2, " b")])
    assert [(each.text, each.is_closed) for each in out.segments] == [(" a", True), (" b", False)]
    assert out.segments[1].end_s == 10
    assert out.continues_s == 4
    (pair,) = run([*OPENING, (at(0), ""), (1, " a"), (at(4), ""), (at(4), "")])
    assert pair.continues_s == 4


def test_segments_lie_inside_the_sound():
    (out,) = run([*OPENING, (at(0), ""), (1, " a"), (at(29), "")], duration_s=3.0)
    assert out.segments[0].end_s == 3


def test_without_times_the_window_is_one_segment():
    (out,) = run([*OPENING, (NO_TIMES, ""), (1, " a")], num_opening=3)
    assert [(each.start_s, each.end_s, each.text) for each in out.segments] == [(0, 10, " a")]
    assert out.continues_s is None


def test_bytes_that_become_no_character_are_not_speech():
    (out,) = run([*OPENING, (at(0), ""), (1, "\ufffd" * 30), (at(4), ""), (at(4), ""), (2, " b\ufffd")])
    assert [(each.text, each.start_s) for each in out.segments] == [(" b", 4)]
    assert out.text == " b"
