"""Tokens without a text are given out after a few more, and each costs the same."""

import random

import pytest
from patience import assert_linear
from tokenizers import Tokenizer, decoders, models
from tokenizers.decoders import DecodeStream

from pipelines.nodes.text.replies.incremental_decoder import MAX_HELD, IncrementalDecoder


def of_bytes(tokenizer):
    """A tokenizer with a token for each byte, and one that strips the space before a text's first word."""
    words = ["<unk>", "\u2581a", "b", "<s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    model = models.BPE(
        vocab={word: number for number, word in enumerate(words)}, merges=[], byte_fallback=True
    )
    stripping = Tokenizer(model)
    stripping.add_special_tokens(["<s>"])
    steps = [
        decoders.Replace("\u2581", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    stripping.decoder = decoders.Sequence(steps)
    first, second = tokenizer.encode("\u00e9", add_special_tokens=False).ids
    emoji = tokenizer.encode("\U0001f642", add_special_tokens=False).ids
    letter = tokenizer.encode("a", add_special_tokens=False).ids[-1]
    special = tokenizer.token_to_id("<|im_end|>")
    return [
        (tokenizer, [first, second, *emoji], letter, special),
        (stripping, [4 + byte for byte in (0xE2, 0x82, 0xAC, 0xC3, 0xF0, 0x9F)], 1, 3),
    ]


@pytest.mark.parametrize("skips", [False, True])
def test_texts_are_those_of_a_stream_that_holds_all(tokenizer, skips):
    rng = random.Random(0)
    num_same = 0
    for maker, half, letter, special in of_bytes(tokenizer):
        for _ in range(500):
            longest, most = (90, 40) if maker is tokenizer else (MAX_HELD - 4, 1)
            ids = [letter] * rng.randint(0, 2) + [special] * rng.choice((0, 0, 1, most))
            ids += rng.choices(rng.sample(half, k=rng.randint(1, len(half))), k=rng.randint(1, longest))
            ids += [letter, special, letter]
            decoder, stream = IncrementalDecoder(maker, skips), DecodeStream(skip_special_tokens=skips)
            text = "".join(decoder.push(token_id) for token_id in ids)
            try:
                whole = "".join(stream.step(maker, token_id) or "" for token_id in ids)
            except Exception:  # of bytes that make others before them no characters, after these were given
                continue
            assert text == whole, ids
            num_same += 1
    assert num_same > 700


def test_bytes_that_make_earlier_ones_no_characters_are_given_alone(tokenizer):
    stripping, _, letter, _ = of_bytes(tokenizer)[1]
    decoder = IncrementalDecoder(stripping, skip_special_tokens=True)
    ids = [4 + byte for byte in (0xC3, 0x9F, 0xE2)] + [letter, letter]
    assert [decoder.push(token_id) for token_id in ids] == ["", "\u00df", "", "\ufffd a", " a"]


def test_bytes_that_become_no_character_wait_for_a_few_more(tokenizer):
    for maker, half, *_ in of_bytes(tokenizer):
        decoder = IncrementalDecoder(maker, skip_special_tokens=True)
        num_shown = len("".join(decoder.push(half[0]) for _ in range(10 * MAX_HELD)))
        assert 9 * MAX_HELD <= num_shown < 10 * MAX_HELD


@pytest.mark.slow
def test_tokens_without_a_text_cost_the_same_each(tokenizer):
    for maker, half, _, special in of_bytes(tokenizer):
        for token_id in (half[0], special):

            def push(size, maker=maker, token_id=token_id):
                decoder = IncrementalDecoder(maker, skip_special_tokens=True)
                for _ in range(size):
                    decoder.push(token_id)

            assert_linear(push, 1000)
