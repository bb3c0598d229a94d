"""Products with weights of few bits, as the benchmark makes them."""

import pytest

from tools.lab.bench import products

OF_FORM = {"none": 0, "middle": 1, "whole": 1 / 2, "float": 4, "sums": 4}
"""`zeros` → bytes of a block of 4 bits with float32 scales; `middle` is one byte for all."""


@pytest.mark.parametrize("zeros", OF_FORM)
def test_a_chain_runs_and_counts_its_bytes(zeros, monkeypatch):
    monkeypatch.setattr(products, "WIDTHS", (64, 128))
    monkeypatch.setattr(products, "LAYERS", 1)
    chain = products.Chain(products.Form("u4", 32, zeros), 3, 1)
    blocks, apart = 2 * 64 * 128 // 32, OF_FORM[zeros]
    of_zeros = 2 if zeros == "middle" else blocks * apart + (2 if zeros == "sums" else 0)
    assert chain.num_bytes == blocks * (16 + 4) + of_zeros
    assert chain.run_ms() > 0


def test_the_forms_differ():
    titles = [form.title for form in products.FORMS]
    assert len(set(titles)) == len(titles)
