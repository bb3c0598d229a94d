"""`braid ovms`: the flags of OpenVINO Model Server, as settings of Braid or refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from pipelines.repository.ovms import STATEFUL
from server import ovms_pull
from server.gunicorn_start import become_gunicorn

NO_NODES = "no custom node is run"
NOTED = {
    "metrics_enable": "/metrics is always on",
    "metrics_list": "/metrics has all metrics",
    "cache_dir": "compiled models are not stored",
    "custom_node_resources_cleaner_interval_seconds": NO_NODES,
    "grpc_workers": "gRPC is served by each worker process",
    "grpc_max_threads": "gRPC is served by each worker process",
    "grpc_memory_quota": "BRAID_MAX_BODY_MB and BRAID_MAX_CONCURRENCY bound requests",
}
"""Flag → why it changes nothing here; it is named when the server starts."""
REFUSED = {
    "log_path": "the log goes to stderr; redirect it",
    "verbose_response": "replies have no `__verbose`; /tokenize and /detokenize show what a model reads",
    "cpu_extension": "no library of others is loaded",
    "grpc_channel_arguments": "gRPC's channels are set by Braid; delete it",
    "allowed_methods": "BRAID_CORS_ORIGINS allows every method to its origins",
    "allowed_headers": "BRAID_CORS_ORIGINS allows every header to its origins",
    "mean": "convert the model with it built in (`ovc --mean_values`)",
    "scale": "convert the model with it built in (`ovc --scale_values`)",
    "color_format": "convert the model with it built in (`ovc --reverse_input_channels`)",
    "precision": "requests name the type of their tensors",
    "stateful": STATEFUL,
    "idle_sequence_cleanup": STATEFUL,
    "max_sequence_number": STATEFUL,
    "low_latency_transformation": STATEFUL,
    "sequence_cleaner_poll_wait_minutes": STATEFUL,
    "draft_source_model": "a draft line of graph.yaml names a draft model",
    "source_loras": "images are not generated",
    "extra_quantization_params": "--weight-format says how weights are stored",
}
"""Flag → what to do instead."""
CONFIGURE = "--configure: run `braid new-graph FOLDER` and edit the graph.yaml that it writes"
POLL_S = 1
"""Seconds between two looks at the files, where the flag is not given: as in the model server."""
LEVELS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error"}
MODEL_OPTIONS = (
    *("batch_size", "shape", "layout", "model_version_policy", "nireq", "target_device", "plugin_config"),
    "group_name",
)
"""Flags of one model; each is a key of config.json too."""
JSON_OPTIONS = ("shape", "layout", "model_version_policy", "plugin_config")
Command = Callable[..., None]


def _declared(command: Command) -> Command:
    """The command with the flags of the tables."""
    for name in reversed((*NOTED, *REFUSED)):
        is_flag = name in ("metrics_enable", "verbose_response")
        command = click.option(f"--{name}", is_flag=is_flag, default=None, hidden=True)(command)
    for name in reversed(MODEL_OPTIONS):
        command = click.option(f"--{name}", help="Of the model of --model_name; as in config.json.")(command)
    return command


@click.command()
@click.option("--config_path", type=click.Path(path_type=Path), help="A config.json that lists models.")
@click.option("--model_name", help="The name of the only model.")
@click.option(
    "--model_path", type=click.Path(path_type=Path), help="Its folder: versions, a graph.pbtxt or an export."
)
@click.option(
    "--model_repository_path",
    type=click.Path(path_type=Path),
    envvar="OVMS_MODEL_REPOSITORY_PATH",
    help="A folder of models.",
)
@click.option("--rest_port", type=click.IntRange(0, 65535), default=0, help="Port of HTTP.")
@click.option("--rest_bind_address", default="0.0.0.0", show_default=True, help="Address of HTTP.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of gRPC.")
@click.option("--grpc_bind_address", help="Address of gRPC: that of HTTP.")
@click.option(
    "--rest_workers", type=click.IntRange(1, 10000), help="Worker processes, at most one for each core."
)
@click.option(
    "--file_system_poll_wait_seconds", type=click.IntRange(0), help="Between two looks at the files; 0: none."
)
@click.option(
    "--idle_unload_timeout_seconds", type=click.IntRange(0), help="Unload models without calls; 0: never."
)
@click.option(
    "--api_key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the key of clients; else API_KEY.",
)
@click.option(
    "--allowed_origins", default="*", show_default=True, help="Web origins whose pages may call the server."
)
@click.option("--allowed_media_domains", help="Hosts from which images are fetched, separated by commas.")
@click.option("--allowed_local_media_path", help="Folder below which `file:` URLs of images are read.")
@click.option("--allow_credentials", type=bool, default=False, help="Only false.")
@click.option(
    "--log_level", type=click.Choice(list(LEVELS), case_sensitive=False), default="INFO", show_default=True
)
@ovms_pull.pull_options
@click.option("--configure", is_flag=True, hidden=True)
@click.option("--list_models", is_flag=True, help="Print the names of the models in --model_repository_path.")
@click.option("--add_to_config", is_flag=True, help="Add --model_name to --config_path, and exit.")
@click.option("--remove_from_config", is_flag=True, help="Remove --model_name from --config_path, and exit.")
@_declared
def ovms(**flags: Any) -> None:
    """Serve with the flags of OpenVINO Model Server."""
    from server import ovms_config

    _refuse(flags)
    try:
        if flags["list_models"]:
            click.echo("".join(f"{name}\n" for name in ovms_config.list_models(_repository(flags))), nl=False)
        elif flags["add_to_config"]:
            ovms_config.add(_config(flags), _name(flags), _added_path(flags), _model_options(flags))
            click.echo(f"Config updated: {flags['config_path']}")
        elif flags["remove_from_config"]:
            ovms_config.remove(_config(flags), _name(flags))
            click.echo(f"Config updated: {flags['config_path']}")
        else:
            _pull_and_serve(flags)
    except (ValueError, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from error


def _refuse(flags: Mapping[str, Any]) -> None:
    ovms_pull.check(flags)
    if flags["configure"]:
        raise click.UsageError(CONFIGURE)
    for name, why in REFUSED.items():
        if flags[name] is not None:
            raise click.UsageError(f"--{name}: {why}")
    if flags["allow_credentials"]:
        raise click.UsageError("--allow_credentials: keys are sent in headers, not in cookies; delete it")
    if flags["allowed_media_domains"] == "all":
        raise click.UsageError("--allowed_media_domains: name each host; images of all hosts are not fetched")
    if flags["grpc_bind_address"] not in (None, flags["rest_bind_address"]):
        raise click.UsageError(
            "--grpc_bind_address: gRPC is served at the address of HTTP, --rest_bind_address"
        )


def _pull_and_serve(flags: Mapping[str, Any]) -> None:
    """Fetch what --source_model names, and serve unless --pull is given."""
    if flags["source_model"] is None:
        _serve(flags)
        return
    if not flags["pull"]:
        _check_ports(flags)
    folder = ovms_pull.pull_source(flags)
    if not flags["pull"]:
        name = flags["model_name"] or flags["source_model"]
        _serve({**flags, "model_name": name, "model_path": folder, "model_repository_path": None})


def _check_ports(flags: Mapping[str, Any]) -> None:
    if not flags["port"] and not flags["rest_port"]:
        raise click.UsageError("port and rest_port cannot both be unset")


def _serve(flags: Mapping[str, Any]) -> None:
    """Replace this process by the server."""
    _check_ports(flags)
    models = _models(flags)
    for name, why in NOTED.items():
        if flags[name] is not None:
            click.echo(f"--{name} changes nothing here: {why}", err=True)
    become_gunicorn(settings_of(flags, models), ())


def settings_of(flags: Mapping[str, Any], models: Path) -> dict[str, str]:
    """The environment of a server with these flags.  Raises UsageError for a setting that is missing here."""
    from pipelines.repository.model_folders import CONFIG_SUFFIX
    from pipelines.repository.ovms.config_file import read_file
    from pipelines.repository.ovms.config_schema import ServerConfig
    from server.base.environment import PREFIX
    from server.base.settings import Settings

    poll, idle = flags["file_system_poll_wait_seconds"], flags["idle_unload_timeout_seconds"]
    if idle is None and models.suffix == CONFIG_SUFFIX:
        idle = read_file(models, ServerConfig).idle_unload_timeout_seconds
    workers = flags["rest_workers"]
    values = {
        "models": models,
        "host": flags["rest_bind_address"],
        "port": flags["rest_port"],
        "grpc_port": flags["port"] or None,
        "workers": workers and min(workers, os.cpu_count() or 1),
        "poll_models": POLL_S if poll is None else poll,
        "idle_unload_s": idle,
        "api_keys": _key(flags["api_key_file"]),
        "cors_origins": flags["allowed_origins"],
        "allowed_media_domains": flags["allowed_media_domains"],
        "allowed_local_media_path": flags["allowed_local_media_path"],
        "log_level": LEVELS[flags["log_level"].upper()],
        "v1": os.environ.get("BRAID_V1", "ovms"),
    }
    flag_names = {"grpc_port": "port", "poll_models": "file_system_poll_wait_seconds",
                  "idle_unload_s": "idle_unload_timeout_seconds"}  # fmt: skip
    for name, flag in flag_names.items():
        if flags[flag] and name not in Settings.model_fields:
            raise click.UsageError(f"--{flag}: this version of Braid cannot do it; leave it out")
    return {f"{PREFIX}{name.upper()}": str(value) for name, value in values.items()
            if value is not None and name in Settings.model_fields}  # fmt: skip


def _key(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("API_KEY")
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0].strip():
        raise click.UsageError(f"--api_key_file: {file} has no key in its first line")
    return lines[0].strip()


def _models(flags: Mapping[str, Any]) -> Path:
    """What is served: a config.json, or one that is written for the only model."""
    from pipelines.repository.ovms.config_file import read_config
    from server import ovms_config

    name, path = flags["model_name"], flags["model_path"]
    config: Path | None = flags["config_path"]
    repository = flags["model_repository_path"]
    if config is None and name is None and repository is not None and (repository / "config.json").is_file():
        config = repository / "config.json"
    if (config is None) == (name is None) or (name is None) != (path is None):
        raise click.UsageError("Use config_path or model_path with model_name")
    if config is None:
        return ovms_config.write_temporary(name, path.resolve(), _model_options(flags))
    if stray := [option for option in MODEL_OPTIONS if flags[option] is not None]:
        raise click.UsageError(
            f"--{stray[0]} goes with --model_name; with --config_path it stands in the file"
        )
    read_config(config)
    return config


def _model_options(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of one model as keys of config.json."""
    options = {name: flags[name] for name in MODEL_OPTIONS if flags[name] is not None}
    for name in JSON_OPTIONS:
        if name in options and options[name].lstrip().startswith("{"):
            try:
                options[name] = json.loads(options[name])
            except ValueError as error:
                raise click.UsageError(f"--{name} is not JSON: {error}") from error
    if "nireq" in options:
        options["nireq"] = _number("nireq", options["nireq"])
    return options


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise click.UsageError(f"--{name} must be a number, not {text}")
    return int(text)


def _name(flags: Mapping[str, Any]) -> str:
    name = flags["model_name"]
    if not name:
        raise click.UsageError("--model_name is missing")
    return str(name)


def _config(flags: Mapping[str, Any]) -> Path:
    path: Path | None = flags["config_path"]
    if path is None:
        raise click.UsageError("--config_path is missing")
    return path / "config.json" if path.is_dir() else path


def _repository(flags: Mapping[str, Any]) -> Path:
    path: Path | None = flags["model_repository_path"]
    if path is None or not path.is_dir():
        raise click.UsageError("--model_repository_path must name a folder of models")
    return path


def _added_path(flags: Mapping[str, Any]) -> Path:
    """The base_path of an added model."""
    path: Path | None = flags["model_path"]
    return path if path is not None else _repository(flags).resolve() / _name(flags)
