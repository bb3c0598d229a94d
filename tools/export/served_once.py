"""Runs an exported model once as its graph says, and notes it, so that the server loads it at once."""

from __future__ import annotations

from pathlib import Path

from pipelines.host.first_run.new_models import FirstRun
from pipelines.host.models.passed_models import PassedModels
from pipelines.loading.load import BuildError, Sources
from pipelines.repository.model_folders import scan


def run_exported(folder: Path, cache: Path | None) -> str | None:
    """Why the model in `folder` does not run here, if so.  `cache` has the note; None is the user's own."""
    models = scan(folder)
    try:
        for model in models:
            FirstRun(PassedModels(cache)).run(model, Sources(models))
    except BuildError as error:
        return str(error)
    return None
