"""Texts of an engine, with preemption and shared prefixes, beside those that transformers makes of each alone."""

from __future__ import annotations

import numpy as np
from greedy_batches import NUM_TOKENS, generate_together, greedy_engine

NUM_BLOCKS = 24


def check_texts(model, session, vocab_size):
    """Prompts in chunks beside sequences that decode, some of them preempted; one continues another's cache."""
    rng = np.random.default_rng(7)
    prompts = [rng.integers(5, vocab_size, size).tolist() for size in (5, 90, 33)]
    prompts.append(prompts[1] + prompts[0])
    engine = greedy_engine(session, NUM_BLOCKS)
    wanted = generate_together(engine, prompts, preempting=True)[0]
    assert wanted == [chosen(model, *prompt) for prompt in zip(prompts, wanted, strict=True)]
    assert {len(text) for text in wanted} == {NUM_TOKENS}
    assert engine.counts().preemptions > 1
    engine = greedy_engine(session, NUM_BLOCKS)
    for prompt, text, least in ((prompts[1], wanted[1], 0), (prompts[3], wanted[3], 1)):
        texts, num_cached = generate_together(engine, [prompt])
        assert texts == [text]
        assert num_cached >= least
    session.close()


def chosen(model, prompt, text):
    """The greedy tokens after a prompt and after each beginning of a text, by one whole pass without a cache.

    They are `text` where each token of it is the greedy one after those before it: then it is the greedy text.
    """
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *text[:-1]]])).logits[0, len(prompt) - 1 :]
    return logits.argmax(-1).tolist()
