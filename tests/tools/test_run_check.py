"""`braid check --run`: every way of computing a decoder gives the same, or the command says where not."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from fake_decoder import write_fake_model

from tools import logit_distance, run_check


@pytest.fixture
def check(tmp_path):
    """The command over a repository of one fake model, which has a state for each sequence too."""
    write_fake_model(tmp_path / "models" / "fake", max_context=90, keeps_states=True)
    return lambda: CliRunner().invoke(run_check.main, [str(tmp_path / "models")])


def test_a_decoder_that_does_not_depend_on_its_steps_passes(check):
    result = check()
    assert result.exit_code == 0, result.output
    assert "prompts of 24, 90, 90 random tokens" in result.output
    assert result.output.count("  same ") == 2


def test_where_a_decoder_parts_from_itself_is_said(check, monkeypatch):
    """As if chunks lost what came before them."""
    honest = run_check.prompt_logits

    def forgetful(session, prompts, step_tokens):
        logits = honest(session, prompts, step_tokens)
        if step_tokens == run_check.CHUNK:
            logits[1][prompts[1].rows >= run_check.CHUNK] = logits[1][0]
        return logits

    monkeypatch.setattr(run_check, "prompt_logits", forgetful)
    result = check()
    assert result.exit_code == 1
    assert "PARTS" in result.output
    assert "first at tokens 80 to 89 of the prompt of 90" in result.output


def test_a_model_that_is_refused_does_not_pass(check, tmp_path):
    (tmp_path / "models" / "fake" / "graph.yaml").write_text(
        (tmp_path / "models" / "fake" / "graph.yaml")
        .read_text()
        .replace("fake.json, device: fake", "fake.json")
    )
    result = check()
    assert result.exit_code == 1
    assert "refused: fake.json" in result.output


def test_rows_are_judged_in_groups():
    rows = np.array([0, 1, 2, 32, 33])
    expected = np.zeros((5, 4), np.float32) + np.arange(4)
    given = expected.copy()
    given[3:] += 1
    assert [begin for begin, apart in logit_distance.distances(expected, given, rows) if apart > 0.5] == [32]
