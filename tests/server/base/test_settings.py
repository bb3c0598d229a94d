from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.base import ROOT
from pipelines.nodes import own_setting
from server.base.environment import PREFIX, SettingsError, read_settings
from server.base.settings import Settings

SETTINGS_PAGE = (ROOT / "docs" / "settings.md").read_text()


def test_nothing_set_is_a_local_server():
    settings = read_settings({})
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8000, 2)
    assert settings.api_keys == ()
    assert not settings.in_process


def test_values_are_read_from_the_environment(tmp_path):
    settings = read_settings({"BRAID_PORT": "9", "BRAID_IN_PROCESS": "1", "BRAID_MODELS": str(tmp_path)})
    assert (settings.port, settings.in_process, settings.models) == (9, True, tmp_path)


@pytest.mark.parametrize("written", ["a,b", "a, b", "a\nb", " a,,b "])
def test_lists_are_split_at_commas_and_space(written):
    assert read_settings({"BRAID_API_KEYS": written}).api_keys == ("a", "b")


def test_empty_variable_is_the_default():
    assert read_settings({"BRAID_PORT": ""}).port == 8000


def test_other_variables_are_left_alone():
    assert read_settings({"PATH": "/bin"}) == read_settings({})


def test_every_wrong_value_is_named():
    with pytest.raises(SettingsError) as caught:
        read_settings({"BRAID_PORT": "70000", "BRAID_LOG_LEVEL": "loud"})
    message = str(caught.value)
    assert "BRAID_PORT=70000" in message
    assert "BRAID_LOG_LEVEL=loud" in message


def test_a_wrong_device_is_answered_with_those_there_are():
    with pytest.raises(
        SettingsError, match="^BRAID_DEVICE=gpu: expected cpu, cuda .the first GPU. or cuda:N$"
    ):
        read_settings({"BRAID_DEVICE": "gpu"})
    assert read_settings({"BRAID_DEVICE": "cuda:1"}).device == "cuda:1"


def test_unknown_setting_names_the_nearest():
    with pytest.raises(SettingsError, match=r"BRAID_WORKER: .*did you mean BRAID_WORKERS"):
        read_settings({"BRAID_WORKER": "2"})


def test_models_are_absolute_however_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_settings({"BRAID_MODELS": "here"}).models == tmp_path / "here"


def test_default_models_are_those_of_the_current_folder_if_it_has_some(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_settings({}).models == ROOT / "model_repo"
    Path("model_repo").mkdir()
    assert read_settings({}).models == tmp_path / "model_repo"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("10.0.0.7", "http://10.0.0.7:8000"),
    ],
)
def test_url_is_one_that_a_client_here_can_use(host, url):
    assert read_settings({"BRAID_HOST": host}).url == url


def test_url_says_when_connections_are_encrypted():
    assert read_settings({"BRAID_TLS": "True"}).url == "https://127.0.0.1:8000"


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_in_the_table_with_its_description(field):
    row = next(
        line for line in SETTINGS_PAGE.splitlines() if line.startswith(f"| `{PREFIX}{field.upper()}` ")
    )
    assert row.endswith(f"| {Settings.model_fields[field].description} |")


@pytest.mark.parametrize("word", ["1", "true", "Yes", "ON", "t", "y", "0", "false", "No", "off", "f", "n"])
def test_code_of_models_runs_by_the_words_of_the_settings(monkeypatch, word):
    """Processes without a server read this setting themselves."""
    monkeypatch.setenv(own_setting.SETTING, word)
    assert own_setting.allows_code() is read_settings({own_setting.SETTING: word}).allow_node_code


def test_code_of_models_has_the_limit_of_the_settings(monkeypatch):
    monkeypatch.delenv(own_setting.LIMIT_SETTING, raising=False)
    assert own_setting.limit_s() == Settings().node_code_s
    monkeypatch.setenv(own_setting.LIMIT_SETTING, "2.5")
    assert own_setting.limit_s() == read_settings({own_setting.LIMIT_SETTING: "2.5"}).node_code_s
