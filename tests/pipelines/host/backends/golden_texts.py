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
    wanted = [continued(model, prompt, NUM_TOKENS) for prompt in prompts]
    engine = greedy_engine(session, NUM_BLOCKS)
    assert generate_together(engine, prompts, preempting=True)[0] == wanted
    assert engine.counts().preemptions > 1
    engine = greedy_engine(session, NUM_BLOCKS)
    for prompt, text, least in ((prompts[1], wanted[1], 0), (prompts[3], wanted[3], 1)):
        texts, num_cached = generate_together(engine, [prompt])
        assert texts == [text]
        assert num_cached >= least
    session.close()


def continued(model, prompt, count):
    """The greedy tokens after a prompt, by whole passes without a cache."""
    import torch

    ids = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]
