"""The states of models in a worker: of those that it cannot build, and of graphs that name others."""

import pytest

from pipelines.wire.messages import ModelStatus
from pipelines.worker.model_table import BuiltPipeline, ModelTable


def built(*named):
    return BuiltPipeline(None, 1, named, None, "")


def ready(name):
    return ModelStatus(name, 1, 1, "ready")


def table(**built_ones):
    """Models that the host has ready, and what this worker made of them."""
    return ModelTable(True, {name: ready(name) for name in built_ones}, built_ones)


def card(models, name):
    return next(each for each in models.cards() if each.name == name)


def test_a_model_that_cannot_be_built_here_is_failed():
    models = ModelTable(True, {"bad": ready("bad")}, {}, {"bad": ["its template does not compile"]})
    assert (card(models, "bad").state, card(models, "bad").problems) == (
        "failed",
        ["its template does not compile"],
    )
    assert "could not be loaded: its template" in models.absent(models.models["bad"]).message


def test_a_model_that_is_still_to_be_built_is_loading():
    models = ModelTable(True, {"new": ready("new")})
    assert card(models, "new").state == "loading"


@pytest.mark.parametrize(
    ("state", "on_request"),
    [("failed", True), ("loading", False), ("loading", True), ("unloaded", True), ("unloading", False)],
)
def test_a_graph_that_names_a_model_has_its_state(state, on_request):
    """So a server is ready while one that is named failed, or left memory."""
    models = table(outer=built("inner"), inner=built())
    models.models["inner"] = ModelStatus("inner", 1, 0, state, ["why"], on_request=on_request)
    found = card(models, "outer")
    assert (found.state, found.on_request) == (state, on_request)
    assert found.problems == ["its graph names `inner`, which is not ready: why"]
    assert "why" in models.absent(models.models["outer"]).message


def test_a_graph_that_names_a_model_that_is_gone_is_failed():
    assert card(table(outer=built("inner")), "outer").state == "failed"


def test_the_worst_of_several_states_counts():
    models = table(outer=built("first", "second"), first=built("inner"), second=built(), inner=built())
    models.models["second"] = ModelStatus("second", 1, 0, "unloaded")
    models.models["inner"] = ModelStatus("inner", 1, 0, "failed")
    assert card(models, "outer").state == "failed"
