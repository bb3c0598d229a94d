"""The step profile of a real server: over HTTP, in metrics, and from the command."""

from __future__ import annotations

import httpx
import pytest
from click.testing import CliRunner

from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed
from tools.lab.profile_step.__main__ import main
from tools.lab.profile_step.difference import profile_difference
from tools.lab.profile_step.server_load import profile_of

PHASES = ["plan", "reserve", "pack", "body.logits", "body.next", "body", "commit", "send"]


def complete(server, max_tokens):
    body = {"model": "fake", "prompt": "abc", "max_tokens": max_tokens, "ignore_eos": True}
    ApiServer(server.url).post("/completions", body)


def test_a_profile_has_the_steps_of_its_time(server):
    client = ApiServer(server.url)
    before = profile_of(client, "fake")
    complete(server, 30)
    after = profile_of(client, "fake")
    ran = profile_difference(before, after)
    kinds = {kind.kind: kind for kind in ran.kinds}
    assert (kinds["with_prompts"].steps, kinds["decoding"].steps) == (1, 29)
    for kind in ran.kinds:
        assert [row.phase for row in kind.rows] == PHASES
        assert {row.phase: row.node for row in kind.rows}["body.logits"] == "model"
        assert sum(row.share for row in kind.rows) == pytest.approx(1.0)
    assert 30 * 0.005 <= sum(kind.seconds for kind in ran.kinds) < ran.seconds
    assert sum(ran.host.values()) == pytest.approx(1.0)


def test_the_status_feed_says_how_models_are_run(demo):
    reply = httpx.get(f"{demo.url}/v1/status?model=braid-demo", verify=False).json()
    opened = {node["path"]: node["opened"] for node in reply["nodes"] if node["opened"]}
    assert list(opened) == ["generated.logits"]
    assert opened["generated.logits"]["linear_layers"] == "by openvino"


def test_metrics_have_the_same_phases(server):
    complete(server, 5)
    wanted = {
        f'braid:step_seconds_total{{kind="decoding",model_name="fake",phase="{phase}"}}' for phase in PHASES
    }
    server.wait_for(lambda: all(name in httpx.get(f"{server.url}/metrics").text for name in wanted))


def test_the_command_shows_something_on_an_idle_server(server):
    done = CliRunner().invoke(
        main, ["--url", server.url, "--model", "fake", "--seconds", "0.3", "--load", "3"]
    )
    assert done.exit_code == 0, done.output
    assert "decoding only" in done.output
    assert ", 3.0 sequences" in done.output


def test_a_load_that_is_refused_is_an_error(server):
    done = CliRunner().invoke(main, ["--url", server.url, "--model", "nope", "--load", "8"])
    assert done.exit_code == 1
    assert "404" in done.output
    with pytest.raises(RequestFailed, match="404"):
        profile_of(ApiServer(server.url), "nope")
