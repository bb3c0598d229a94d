"""Loads a model that is new in a process of its own first: one that ends its process ends that one alone.

A segmentation fault, an abort, a run without end or a lack of memory there is a problem of that model; the
engine host and the other models live.  So is what is wrong with the files that only workers read: the process
opens them too, and a model that it cannot open is never announced to a worker.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graphs.compose import GraphSource
from graphs.graph import Binding
from graphs.node import FilePath, named_paths
from pipelines.base.bounded_processes import child_environment
from pipelines.base.prepared_models import PreparedModels
from pipelines.host.adapters.adapter_discovery import AdapterFinder
from pipelines.host.models.loader import Build, ModelSource, Scan
from pipelines.host.models.model import HostModel, build_for_host
from pipelines.host.models.passed_models import PassedModels, folder_digest
from pipelines.host.models.prefix_files import PrefixFiles
from pipelines.loading.load import BuildError, checked_graph, graphs_from
from pipelines.loading.request_lines import check_request_lines
from pipelines.repository import model_folders
from pipelines.repository.model_folders import ModelFolder
from pipelines.wire.lora_modules import LoraModule

OPENED, RUNNING = "opened", "running"
"""What the process says when it has opened what workers open, and when it has loaded the model."""
RUN_S = 60
"""Seconds that the first run of a loaded model may take."""
OPEN_S = 60
"""Seconds that opening what workers open may take."""
DOING = {None: "opened what workers open of it", OPENED: "loaded it", RUNNING: "ran it"}
"""What the process did after it wrote a stage."""
ADVICE = "The engine host did not load it and serves the other models; the log has more."
OF_SIGNALS = {int(each): each.name for each in signal.Signals} | {
    int(signal.SIGKILL): "SIGKILL, as when memory runs out,"
}


@dataclass(frozen=True)
class NewModel:
    """What the process gets: the arguments of `build_for_host`, and the id of its parent."""

    folder: ModelFolder
    sources: Mapping[str, GraphSource]
    device: str | None
    limit_s: float
    open_s: float
    parent: int
    prepared: PreparedModels | None = None


@dataclass(frozen=True)
class FirstRun:
    """Builds models; one that has not passed yet is run in another process before."""

    passed: PassedModels
    device: str | None = None
    limit_s: float = RUN_S
    open_s: float = OPEN_S
    prefix_files: PrefixFiles | None = None
    prepared: PreparedModels | None = None

    def __call__(self, folder: ModelFolder, sources: Mapping[str, GraphSource]) -> HostModel:
        """Raises BuildError."""
        self.run(folder, sources)
        return build_for_host(folder, sources, self.device, self.prefix_files, self.prepared)

    def run(self, folder: ModelFolder, sources: Mapping[str, GraphSource]) -> None:
        """Run a model that is new in another process.  Raises BuildError.

        Files that change during the run have not passed: what is noted is the state before it.
        """
        graph = checked_graph(folder, graphs_from(sources))
        if not any(_names_a_file(binding) for binding in graph.bindings):
            return
        name, state = folder.path.name, folder_digest(folder.path, self.device)
        if not self.passed.holds(name, state):
            limits_s = self.limit_s, self.open_s
            _try(NewModel(folder, sources, self.device, *limits_s, os.getpid(), self.prepared))
            self.passed.add(name, state)


@dataclass(frozen=True)
class HostOptions:
    """How a host finds the models of a repository and builds them.

    `device`: what every model runs on instead of its graph's own.  `cache`: the folder for what can be made
    again; None: the user's own.  `prefix_file_gb`: GiB of each model's file of prefixes, of the host with the
    number `engine`; 0: none.  `prepared_mb`: MB that are stored of what engines make of models; 0: nothing
    is.  `poll_s`: seconds between two looks at the repository; 0: none.  `modules`: adapters beside those of
    the models' folders.
    """

    models: Path
    device: str | None = None
    cache: Path | None = None
    first_run: bool = False
    prefix_file_gb: float = 0
    engine: str = "0"
    prepared_mb: int = 0
    poll_s: float = 0
    modules: Iterable[LoraModule] = ()

    def source(self, scan: Scan | None = None) -> ModelSource:
        """The source of the host's models; `scan` finds them instead of the repository's own."""
        return ModelSource(
            self.models,
            scan=scan or partial(model_folders.scan, cache=self.cache, device=self.device),
            build=self._build(),
            poll_s=self.poll_s or None,
            adapters=AdapterFinder(self.modules),
        )

    def _build(self) -> Build:
        prepared = PreparedModels(self.prepared_mb << 20, self.cache) if self.prepared_mb else None
        prefix_files = PrefixFiles.of(self.cache, self.prefix_file_gb, self.engine)
        if self.first_run:
            passed = PassedModels(self.cache)
            return FirstRun(passed, self.device, prefix_files=prefix_files, prepared=prepared)
        return partial(build_at_once, device=self.device, prefix_files=prefix_files, prepared=prepared)


def build_at_once(folder: ModelFolder, sources: Mapping[str, GraphSource], **settings: Any) -> HostModel:
    """A model without a first run: what workers open is opened in this process.  Raises BuildError."""
    check_request_lines(folder, graphs_from(sources))
    return build_for_host(folder, sources, **settings)


def _names_a_file(binding: Binding) -> bool:
    """Whether a line names one, or a line of its body does."""
    return any(any(named_paths(line.config, FilePath)) for line in (binding, *binding.body))


def _try(new: NewModel) -> None:
    """Raise BuildError unless another process can load and run the model."""
    from pipelines.base.load_progress import doing, report

    command = [sys.executable, "-P", "-m", "pipelines.host.first_run"]
    last, pipe = None, subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=child_environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError), process.stdin:  # it may have ended
            process.stdin.write(pickle.dumps(new))
        for line in process.stdout:
            said = json.loads(line)
            if isinstance(said, dict):
                with doing(said["doing"]):
                    report(said["share"])
            else:
                last = said
    if process.returncode == 0 and isinstance(last, list):
        problems = last
    else:
        problems = [f"{new.folder.name}: {_how_it_ended(new, process.returncode, last)} {ADVICE}"]
    if problems:
        raise BuildError(problems)


def _how_it_ended(new: NewModel, code: int, stage: str | None) -> str:
    """`stage` is the last that it wrote."""
    if code == 1 and stage == RUNNING:
        return f"its first run, in a process of its own, did not end within {new.limit_s:g} s."
    if code == 1 and stage is None:
        return f"a process of its own did not open what workers open of it within {new.open_s:g} s."
    how = OF_SIGNALS.get(-code) or (f"exit code {code}" if code >= 0 else f"signal {-code}")
    return f"a process of its own ended with {how} when it {DOING[stage]}."
