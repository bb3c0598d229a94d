"""`braid pull`: fetches models by name, or shows what a repository offers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from server.base.settings import Settings
    from server.fetched_models import PullOptions

WEIGHTS = ("int8", "int4", "fp16", "bf16", "fp32")
FOLDER = click.Path(file_okay=False, path_type=Path)
HUBS = ("huggingface", "modelscope")


class PullTerms(NamedTuple):
    """What `hub_options` give."""

    hub: str | None
    revision: str | None
    sha256: str | None
    export: str | None

    def options(self, device: str | None, settings: Settings) -> PullOptions:
        from server.fetched_models import PullOptions

        terms = (self.hub, self.revision, self.sha256, self.export)
        return PullOptions(*terms, device or "cpu", settings.cache, settings.pull_cache_gb)


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that fetch models."""
    for option in (
        click.option("--export", type=click.Choice(WEIGHTS), help="Export safetensors to such weights."),
        click.option("--sha256", help="What the file at an address must have."),
        click.option("--hub", type=click.Choice(HUBS), help="Where names are looked up."),
        click.option("--revision", help="Branch, tag or commit."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1)
@click.option("--to", "repository", show_default="model_repo", type=FOLDER, help="Folder of models.")
@click.option("--as", "local", metavar="LOCAL", help="Name under which the model is served.")
@click.option("--list", "is_list", is_flag=True, help="Show what the repository offers; fetch nothing.")
@click.option("--clean", "is_clean", is_flag=True, help="Remove these models, and parts of downloads.")
@click.option("--device", metavar="cpu|cuda:0", default="cpu", show_default=True, help="What it is for.")
@hub_options
def pull(
    names: tuple[str, ...],
    repository: Path | None,
    local: str | None,
    is_list: bool,
    is_clean: bool,
    device: str,
    revision: str | None,
    hub: str | None,
    sha256: str | None,
    export: str | None,
) -> None:
    """Fetch models by name into a folder of models.

    NAME is ORG/NAME or ORG/NAME:TAG on a hub, as Qwen/Qwen3-4B-GGUF:Q4_K_M, or the address of a GGUF file.
    Files are stored in the cache of the Hugging Face libraries; the folder of models gets links to them.

    --clean removes parts of files to which no byte came for a day, and each NAME from the cache, from the
    folder of models and from where `serve` has it.
    """
    from server.base.environment import SettingsError, read_settings
    from server.fetched_models import fetch

    if not names and not is_clean:
        raise click.UsageError("Missing argument 'NAME…'.")
    if local and len(names) > 1:
        raise click.UsageError("--as goes with one name")
    try:
        settings = read_settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error
    options = PullTerms(hub, revision, sha256, export).options(device, settings)
    place = repository or settings.models
    if place.is_file():
        raise click.UsageError(f"{place} is a file: --to names a folder of models")
    if is_clean:
        click.echo(_cleaned(names, place, options))
        return
    for name in names:
        if is_list:
            click.echo(_listed(name, options), nl=False)
        else:
            fetch(name, place, options, local)


def _listed(name: str, options: PullOptions) -> str:
    """What a repository offers, as a table.  Raises click's error."""
    from pipelines.hub.base.errors import HubError
    from server.fetched_models import listing_of
    from server.offer_table import offer_table

    try:
        listing, note = listing_of(name, options)
        return offer_table(options.wanted(name), listing, note)
    except HubError as error:
        raise click.ClickException(str(error)) from error


def _cleaned(names: tuple[str, ...], repository: Path, options: PullOptions) -> str:
    """What was removed, in words.  Raises click's error."""
    from pipelines.base.cache_folder import default_cache
    from pipelines.hub.base.errors import HubError
    from pipelines.hub.cleaning import remove_model, remove_parts
    from server.fetched_models import served_folders
    from server.pull_progress import shown_bytes

    folders = [repository, *served_folders(options.cache or default_cache())]
    try:
        environment = options.environment
        wanted = [options.wanted(name).name for name in names]
        lines = [
            f"{name}: {shown_bytes(remove_model(name, environment, folders))} removed from the cache"
            for name in wanted
        ]
        parts = shown_bytes(remove_parts(environment, folders))
        return "\n".join([*lines, f"{parts} of unfinished downloads removed"])
    except (HubError, OSError) as error:
        raise click.ClickException(str(error)) from error
