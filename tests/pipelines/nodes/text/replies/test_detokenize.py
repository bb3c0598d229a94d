from functools import partial

import pytest
from tokenizers import Tokenizer, decoders, models

from pipelines.nodes.text.replies.detokenize import Detokenizer, StopPatterns, StopStrings
from pipelines.nodes.text.replies.incremental_decoder import IncrementalDecoder
from pipelines.nodes.text.replies.prompt_logprobs import PromptTexts
from pipelines.values.node_values import Tokens
from pipelines.values.stream_values import StreamChoice
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import TokenUpdate
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece

END = "<|im_end|>"


def machine(tokenizer, stops=(), include=False, min_tokens=0, skip_special=True):
    strings = StopStrings(StopPatterns(stops, include))
    return Detokenizer(IncrementalDecoder(tokenizer, skip_special), strings, min_tokens)


def token_update(token_ids, finish=None, **fields):
    return TokenUpdate(1, 0, TokenPiece(token_ids, len(token_ids), finish, **fields))


def updates(tokenizer, text, size=1, finish="stop", stop_token_id=None):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    parts = [ids[at : at + size] for at in range(0, len(ids), size)]
    end = [tokenizer.token_to_id(END) if stop_token_id is None else stop_token_id] if finish == "stop" else []
    return [token_update(part) for part in parts] + [token_update(end, finish, stop_reason=stop_token_id)]


def run(detokenizer, pieces):
    """The outputs up to the one that ended the choice, as a call reads them."""
    out = []
    for update in pieces:
        out.append(detokenizer.push(update))
        if out[-1].piece.finish is not None:
            break
    return out


def text_of(out):
    return "".join(update.text for update in out)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_text_comes_back_whole(tokenizer, size):
    text = "Zürich – 東京 🙂!"
    out = run(machine(tokenizer), updates(tokenizer, text, size))
    assert text_of(out) == text
    assert "\N{REPLACEMENT CHARACTER}" not in text


@pytest.mark.parametrize("size", [1, 2, 7])
def test_each_token_s_part_of_the_text_is_known(tokenizer, size):
    out = run(machine(tokenizer, ["END"]), updates(tokenizer, "é one EN", size))
    *earlier, last = out
    assert [len(update.parts) for update in earlier] == [len(update.piece.token_ids) for update in earlier]
    assert (last.parts, len(last.piece.token_ids)) == ([], 1)
    assert "".join(part for update in out for part in update.parts) == "é one "
    assert out[-1].text == "EN"


def test_half_a_character_is_held_back(tokenizer):
    out = run(machine(tokenizer), updates(tokenizer, "é"))
    assert [update.text for update in out] == ["", "é", ""]


@pytest.mark.parametrize("char", ["é", "東", "🙂"])
@pytest.mark.parametrize("finish", ["length", "stop", "repetition", "abort"])
def test_bytes_of_a_character_that_the_end_cut_off_are_no_text(tokenizer, char, finish):
    first, *more = tokenizer.encode(char, add_special_tokens=False).ids
    for ids in ([first, *more[:count]] for count in range(len(more))):
        detokenizer = machine(tokenizer, ["never"])
        end = [tokenizer.token_to_id(END)] if finish == "stop" else []
        out = run(detokenizer, [*updates(tokenizer, "ab")[:2], token_update(ids), token_update(end, finish)])
        assert text_of(out) == "ab"
        assert sum(update.piece.num_tokens for update in out) == 2 + len(ids) + len(end)


def test_bytes_that_become_no_character_are_shown_when_others_follow(tokenizer):
    first = tokenizer.encode("é", add_special_tokens=False).ids[:1]
    out = run(machine(tokenizer), [token_update(first), *updates(tokenizer, "ab")])
    assert text_of(out) == "\N{REPLACEMENT CHARACTER}ab"


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_stop_string_cuts_before_itself(tokenizer, size):
    out = run(machine(tokenizer, ["END", "never"]), updates(tokenizer, "one ENtwo END three", size))
    assert text_of(out) == "one ENtwo "
    assert (out[-1].piece.finish, out[-1].piece.stop_reason) == ("stop", "END")


def test_a_stop_string_may_be_kept(tokenizer):
    out = run(machine(tokenizer, ["END"], include=True), updates(tokenizer, "one END three", 4))
    assert text_of(out) == "one END"


def test_the_earliest_stop_string_wins(tokenizer):
    out = run(machine(tokenizer, ["three", "two"]), updates(tokenizer, "one two three", 20))
    assert text_of(out) == "one "


def test_no_part_of_a_stop_string_is_ever_shown(tokenizer):
    for update in run(machine(tokenizer, ["</s>"]), updates(tokenizer, "a</s>b")):
        assert "<" not in update.text


def test_half_a_stop_string_at_the_end_is_text(tokenizer):
    out = run(machine(tokenizer, ["END"]), updates(tokenizer, "one EN"))
    assert text_of(out) == "one EN"
    assert out[-1].piece.stop_reason is None


def test_the_space_before_a_word_is_part_of_its_token():
    """Also where the decoder strips that of the first token, as SentencePiece's does."""
    words = ["<unk>", "▁Hello", "▁world", "<0xE2>", "<0x82>", "<0xAC>", "!", "▁"]
    model = models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[], byte_fallback=True)
    tokenizer = Tokenizer(model)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    ids = [1, 2, 7, 3, 4, 5, 6]
    logprobs = [TokenLogprobs(-0.5, 1, [], []) for _ in ids]
    out = machine(tokenizer).push(token_update(ids, logprobs=PieceLogprobs(logprobs)))
    entries = out.piece.logprobs.tokens
    assert [entry.token for entry in entries] == [" Hello", " world", " ", "", "", "", "!"]
    assert b"".join(entry.bytes for entry in entries).decode() == " Hello world €!"
    assert out.text == "Hello world €!"


def test_stop_strings_wait_for_min_tokens(tokenizer):
    out = run(machine(tokenizer, ["a"], min_tokens=3), updates(tokenizer, "aaaaa"))
    assert text_of(out) == "aaa"


def test_tokens_are_counted_up_to_the_stop_string(tokenizer):
    out = run(machine(tokenizer, ["c"]), [token_update(tokenizer.encode("abcdef").ids)])
    assert sum(update.piece.num_tokens for update in out) == 3


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("stop_token_id", [None, 7])
def test_the_end_token_is_a_token_and_text_only_where_stop_strings_are(
    tokenizer, size, include, stop_token_id
):
    *before, last = updates(tokenizer, "ab", size, stop_token_id=stop_token_id)
    before[-1].piece.extend(last.piece)  # as where a draft token ends a choice
    logprobs = [TokenLogprobs(-0.5, 1, [], []) for _ in before[-1].piece.token_ids]
    before[-1].piece.logprobs = PieceLogprobs(logprobs)
    out = run(machine(tokenizer, include=include, skip_special=False), before)
    end = tokenizer.token_to_id(END) if stop_token_id is None else stop_token_id
    ids = [token_id for update in out for token_id in update.piece.token_ids]
    assert ids == [*tokenizer.encode("ab", add_special_tokens=False).ids, end]
    assert sum(update.piece.num_tokens for update in out) == 3
    assert out[-1].piece.logprobs.tokens[-1].token_id == end
    assert text_of(out) == "ab" + (tokenizer.decode([end], skip_special_tokens=False) if include else "")


def test_an_end_token_that_is_special_is_skipped_as_others_are(tokenizer):
    assert text_of(run(machine(tokenizer, include=True), updates(tokenizer, "ab"))) == "ab"


def test_a_stop_string_before_the_end_token_cuts_it_off(tokenizer):
    ids = tokenizer.encode("abc", add_special_tokens=False).ids
    (out,) = run(machine(tokenizer, ["b"]), [token_update([*ids, tokenizer.token_to_id(END)], "stop")])
    assert (out.text, out.piece.token_ids, out.piece.num_tokens) == ("a", ids[:2], 2)
    assert out.piece.stop_reason == "b"


@pytest.mark.parametrize("text", ["Zürich – 東京 🙂!", "a\u0301 \x00 \U0001f468\u200d\U0001f469"])
def test_bytes_of_log_probabilities_concatenate_to_the_text(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    logprobs = [TokenLogprobs(-0.5, 1, [], []) for _ in ids]
    out = machine(tokenizer).push(token_update(ids, logprobs=PieceLogprobs(logprobs)))
    assert b"".join(entry.bytes for entry in out.piece.logprobs.tokens) == text.encode() == out.text.encode()


def test_length_counts_no_end_token(tokenizer):
    out = run(machine(tokenizer), updates(tokenizer, "ab", finish="length"))
    assert sum(update.piece.num_tokens for update in out) == 2
    assert out[-1].piece.finish == "length"


def test_a_stop_token_of_the_request_is_the_reason(tokenizer):
    out = run(machine(tokenizer), updates(tokenizer, "ab", stop_token_id=7))
    assert (out[-1].piece.finish, out[-1].piece.stop_reason) == ("stop", 7)


def test_special_tokens_may_be_shown(tokenizer):
    ids = [tokenizer.token_to_id("<|im_end|>")]
    assert text_of(run(machine(tokenizer), [token_update(ids, "length")])) == ""
    assert text_of(run(machine(tokenizer, skip_special=False), [token_update(ids, "length")])) == "<|im_end|>"


def test_logprobs_name_tokens_as_text_and_bytes(tokenizer):
    a, b = tokenizer.encode("ab").ids
    first_byte = tokenizer.encode("é").ids[0]
    logprobs = TokenLogprobs(-0.5, 1, [a, first_byte], [-0.5, -2.0])
    (entry,) = (
        machine(tokenizer).push(token_update([a], logprobs=PieceLogprobs([logprobs]))).piece.logprobs.tokens
    )
    assert (entry.token, entry.bytes, entry.token_id, entry.logprob) == ("a", b"a", a, -0.5)
    assert entry.alternatives == [("a", b"a", -0.5, a), ("", b"\xc3", -2.0, first_byte)]


def test_a_repetition_has_a_reason_and_no_end_token(tokenizer):
    out = run(machine(tokenizer), updates(tokenizer, "abab", 4, finish="repetition"))
    assert (out[-1].piece.finish, out[-1].piece.stop_reason) == ("repetition", "repetition_detected")
    assert sum(update.piece.num_tokens for update in out) == 4


def test_scores_of_a_prompt_become_text_once_for_all_its_choices(tokenizer):
    first, second = ([*tokenizer.encode(text, add_special_tokens=False).ids] for text in ("abc", "de"))
    params = SamplingParams(prompt_logprobs=1)
    choices = [StreamChoice(i, Tokens([first, second][i // 2]), i // 2, params) for i in range(4)]
    prompts = PromptTexts()
    scores = [TokenLogprobs(-1.0, 3, [first[0]], [-0.5]), TokenLogprobs(-2.0, 1, [], [])]
    told = []
    for choice, known in ((0, scores), (1, scores), (2, scores[:1])):
        decoder = IncrementalDecoder(tokenizer, True)
        detokenizer = Detokenizer(
            decoder,
            StopStrings(StopPatterns([], include=False)),
            0,
            partial(prompts.describe, choices[choice]),
        )
        out = detokenizer.push(token_update(first[:1], logprobs=PieceLogprobs(prompt=known)))
        told.append(out.piece.logprobs.prompt)
        assert detokenizer.push(token_update([], "length")).piece.logprobs is None
    assert [(logprob.token, logprob.logprob, logprob.rank) for logprob in told[0]] == [
        ("b", -1.0, 3),
        ("c", -2.0, 1),
    ]
    assert [(alternative.token, alternative.logprob) for alternative in told[0][0].alternatives] == [
        ("a", -0.5)
    ]
    assert told[1] is told[0]
    assert [logprob.token for logprob in told[2]] == ["e"]
