"""`braid ovms`: flags as settings, refused ones by name, and what it does with a config.json."""

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from server import cli, ovms_command, ovms_config

SERVE = ["--rest_port", "8000"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the command; a start of the server gives its environment."""
    started = []
    monkeypatch.setattr(
        ovms_command, "become_gunicorn", lambda environment, options: started.append(environment)
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("API_KEY", raising=False)
    monkeypatch.delenv("OVMS_MODEL_REPOSITORY_PATH", raising=False)

    def command(*arguments):
        done = CliRunner().invoke(cli.main, ["ovms", *map(str, arguments)])
        return started[-1] if started else None, done

    return command


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models" / "dummy" / "1").mkdir(parents=True)
    (tmp_path / "models" / "dummy" / "1" / "dummy.xml").write_text("")
    (tmp_path / "models" / "org" / "llm").mkdir(parents=True)
    (tmp_path / "models" / "org" / "llm" / "graph.pbtxt").write_text("")
    return tmp_path / "models"


@pytest.fixture
def config(models):
    file = models / "config.json"
    file.write_text(json.dumps({"model_config_list": [{"config": {"name": "dummy"}}]}))
    return file


def test_a_config_file_is_served(run, config):
    environment, done = run("--config_path", config, *SERVE)
    assert done.exit_code == 0, done.output
    assert (
        environment.items()
        >= {
            "BRAID_MODELS": str(config),
            "BRAID_HOST": "0.0.0.0",
            "BRAID_PORT": "8000",
            "BRAID_CORS_ORIGINS": "*",
            "BRAID_LOG_LEVEL": "info",
            "BRAID_V1": "ovms",
        }.items()
    )


def test_one_model_is_served_by_a_config_file_of_its_own(run, models):
    options = ["--plugin_config", '{"NUM_STREAMS": 1}', "--nireq", "2", "--shape", "(1,10)"]
    environment, done = run("--model_name", "d", "--model_path", models / "dummy", *options, *SERVE)
    assert done.exit_code == 0, done.output
    entry = json.loads(Path(environment["BRAID_MODELS"]).read_text())["model_config_list"][0]["config"]
    assert entry == {
        "name": "d", "base_path": str(models / "dummy"), "plugin_config": {"NUM_STREAMS": 1}, "nireq": 2,
        "shape": "(1,10)",
    }  # fmt: skip


def test_the_config_file_of_one_model_leaves_nothing_behind(run, models, config):
    environment, _ = run("--model_name", "d", "--model_path", models / "dummy", *SERVE)
    made = Path(environment["BRAID_MODELS"])
    ovms_config.remove_temporary(made)
    ovms_config.remove_temporary(config)
    assert (made.parent.exists(), config.exists()) == (False, True)
    policy = ["--model_version_policy", '{"newest": {}}']
    _, done = run("--model_name", "d", "--model_path", models / "dummy", *policy, *SERVE)
    assert "model_version_policy.newest: unknown key" in done.output
    assert not list(Path(tempfile.tempdir).glob(f"{ovms_config.TEMPORARY}*"))


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["--rest_bind_address", "127.0.0.1"], "BRAID_HOST", "127.0.0.1"),
        (["--log_level", "TRACE"], "BRAID_LOG_LEVEL", "debug"),
        (["--rest_workers", "1"], "BRAID_WORKERS", "1"),
        (
            ["--allowed_media_domains", "a.example,b.example"],
            "BRAID_ALLOWED_MEDIA_DOMAINS",
            "a.example,b.example",
        ),
        (["--allowed_local_media_path", "/data"], "BRAID_ALLOWED_LOCAL_MEDIA_PATH", "/data"),
        (["--allowed_origins", "https://a.example"], "BRAID_CORS_ORIGINS", "https://a.example"),
    ],
)
def test_flags_are_settings(flags, name, value, run, config):
    environment, done = run("--config_path", config, *SERVE, *flags)
    assert done.exit_code == 0, done.output
    assert environment[name] == value


def test_the_key_of_clients(run, config, tmp_path, monkeypatch):
    (tmp_path / "key").write_text("secret\nmore\n")
    assert (
        run("--config_path", config, *SERVE, "--api_key_file", tmp_path / "key")[0]["BRAID_API_KEYS"]
        == "secret"
    )
    monkeypatch.setenv("API_KEY", "other")
    assert run("--config_path", config, *SERVE)[0]["BRAID_API_KEYS"] == "other"


def test_a_flag_that_changes_nothing_is_named(run, config):
    _, done = run("--config_path", config, *SERVE, "--metrics_enable")
    assert "--metrics_enable changes nothing here: /metrics is always on" in done.output


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ([], "port and rest_port cannot both be unset"),
        ([*SERVE, "--model_name", "x", "--model_path", "y"], "Use config_path or model_path with model_name"),
        ([*SERVE, "--nireq", "4"], "--nireq goes with --model_name"),
        ([*SERVE, "--allowed_media_domains", "all"], "name each host"),
        ([*SERVE, "--pull"], "--pull goes with --source_model"),
        ([*SERVE, "--configure"], "braid new-graph"),
        ([*SERVE, "--source_model", "a/b"], "--source_model needs --model_repository_path"),
        ([*SERVE, "--task", "rerank"], "--task goes with --source_model"),
        ([*SERVE, "--stateful", "true"], "stateful models were removed"),
        ([*SERVE, "--mean", "1"], "--mean: convert the model"),
        ([*SERVE, "--cpu_extension", "x.so"], "--cpu_extension: no library of others is loaded"),
        ([*SERVE, "--log_path", "x"], "--log_path: the log goes to stderr"),
        ([*SERVE, "--allow_credentials", "true"], "--allow_credentials"),
        ([*SERVE, "--grpc_bind_address", "1.2.3.4"], "--grpc_bind_address"),
        ([*SERVE, "--unknown", "1"], "No such option"),
    ],
)
def test_flags_that_cannot_hold_are_refused(flags, what, run, config):
    environment, done = run("--config_path", config, *flags)
    assert environment is None
    assert done.exit_code != 0
    assert what in " ".join(done.output.split())


def test_a_faulty_config_file_is_not_served(run, config):
    config.write_text('{"model_config_list": [{"config": {"name": "x", "stateful": true}}]}')
    environment, done = run("--config_path", config, *SERVE)
    assert environment is None
    assert "stateful models were removed" in done.output


def test_models_are_listed(run, models):
    _, done = run("--list_models", "--model_repository_path", models)
    assert done.output == "dummy\norg/llm\n"


def test_a_model_is_added_and_removed(run, models):
    file = models / "config.json"
    _, done = run(
        "--add_to_config", "--config_path", file, "--model_name", "dummy", "--model_repository_path", models
    )
    assert (done.exit_code, done.output) == (0, f"Config updated: {file}\n")
    _, done = run(
        *("--add_to_config", "--config_path", file, "--model_name", "llm", "--group_name", "permanent"),
        *("--model_path", models / "org" / "llm"),
    )
    entries = json.loads(file.read_text())["model_config_list"]
    assert entries == [
        {"config": {"name": "dummy", "base_path": str(models / "dummy")}},
        {"config": {"name": "llm", "base_path": str(models / "org" / "llm"), "group_name": "permanent"}},
    ]
    before = file.read_text()
    _, done = run("--add_to_config", "--config_path", file, "--model_name", "llm", "--model_path", "x")
    assert (done.exit_code, file.read_text()) == (1, before)
    assert "is listed already" in done.output
    _, done = run("--remove_from_config", "--config_path", file, "--model_name", "llm")
    assert json.loads(file.read_text())["model_config_list"] == entries[:1]
    _, done = run("--remove_from_config", "--config_path", file, "--model_name", "llm")
    assert done.exit_code == 1
    assert sorted(path.name for path in models.iterdir()) == ["config.json", "dummy", "org"]
