"""The files of deploy/ fit the server, one another, and the schemas of the programs that read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from every_route import ROOT_ROUTES

from server.base.environment import read_settings
from server.base.replica_ids import NAME, with_replica

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
PROXY = (ROOT / "deploy" / "haproxy.cfg").read_text()
OBJECTS = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "braid.yaml").read_text()))
BY_KIND = {each["kind"]: each for each in OBJECTS}
POD = BY_KIND["Deployment"]["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
PAGE = (ROOT / "docs" / "scaling.md").read_text()


@pytest.mark.parametrize(
    "one", OBJECTS, ids=[f"{each['kind']}/{each['metadata']['name']}" for each in OBJECTS]
)
def test_a_manifest_is_one_of_the_api(one):
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate (the extra dev)")
    validate.validate(one, validate.latest_version(), strict=True)


def test_a_wrong_manifest_is_found():
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate (the extra dev)")
    service = {**BY_KIND["Service"], "spec": {"prots": []}}
    with pytest.raises(validate.ValidationError):
        validate.validate(service, validate.latest_version(), strict=True)


def test_a_pod_has_time_to_end():
    grace_s = int(next(each["value"] for each in CONTAINER["env"] if each["name"] == "BRAID_GRACE_S"))
    command, seconds = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert POD["spec"]["terminationGracePeriodSeconds"] >= int(seconds) + grace_s + 10


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_asks_a_path_that_needs_no_key(probe):
    asked = CONTAINER[probe]["httpGet"]
    assert asked["path"] in ROOT_ROUTES
    assert asked["port"] in {port["name"] for port in CONTAINER["ports"]}


def test_every_selector_finds_the_pods():
    labels = POD["metadata"]["labels"]
    services = [each["spec"]["selector"] for each in OBJECTS if each["kind"] == "Service"]
    others = [
        BY_KIND[kind]["spec"]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget")
    ]
    assert [*services, *others] == [labels] * 4
    target = BY_KIND["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", BY_KIND["Deployment"]["metadata"]["name"])


def test_pods_scale_by_a_metric_that_the_documented_rule_offers():
    (metric,) = BY_KIND["HorizontalPodAutoscaler"]["spec"]["metrics"]
    (block,) = re.findall(r"```yaml\n(rules:.*?)```", PAGE, re.DOTALL)
    (rule,) = yaml.safe_load(block)["rules"]["custom"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    series = rule["seriesQuery"].partition("{")[0]
    assert f'"{series}"' in "".join(
        path.read_text() for path in (ROOT / "pipelines" / "telemetry").glob("*.py")
    )


def test_settings_of_the_files_exist():
    names = {each["name"] for each in CONTAINER["env"]} | set(re.findall(r"BRAID_[A-Z_]+(?==)", DOCKERFILE))
    values = {"BRAID_GRACE_S": "30", "BRAID_HOST": "0.0.0.0", "BRAID_DEVICE": "cuda:0"}
    settings = read_settings({name: values.get(name, "x") for name in names})
    assert settings.replica == "x"


def test_the_container_file_copies_what_the_project_is_made_of():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    copied = {
        name
        for line in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for name in line.split()
    }
    assert {pattern.removesuffix("*") for pattern in packages["include"]} <= copied
    sent = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_the_container_file_names_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert [each.split(",")[0] for each in named] == ["cpu", "cuda"]
    assert {extra for each in named for extra in each.split(",")} <= extras.keys()


def test_nothing_in_the_container_runs_as_root():
    last = DOCKERFILE[DOCKERFILE.index("AS base") :]
    (user,) = re.findall(r"^USER (\d+)$", last, re.MULTILINE)
    assert int(user) == POD["spec"]["securityContext"]["runAsUser"] > 0


def test_the_proxy_reads_replicas_as_ids_name_them():
    names = re.findall(r"^  server (\S+) ", PROXY, re.MULTILINE)
    assert names
    assert all(re.fullmatch(NAME, name) for name in names)
    (pattern,) = re.findall(r"-m reg (\S+)", PROXY)
    made = f"resp_{'0' * 32}"
    assert re.match(pattern, with_replica(made, "a-1.x"))
    assert not re.match(pattern, made)


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy (apt-get install haproxy)")
def test_haproxy_reads_its_configuration(tmp_path):
    check = ["haproxy", "-c", "-f"]
    done = subprocess.run([*check, ROOT / "deploy" / "haproxy.cfg"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (block,) = re.findall(r"```\n(resolvers .*?)```", PAGE, re.DOTALL)
    resolvers, _, template = block.partition("# instead of the lines `server`:\n")
    kept = [line for line in PROXY.splitlines() if not line.startswith("  server ")]
    (tmp_path / "cluster.cfg").write_text("\n".join([*kept, template, resolvers]))
    done = subprocess.run([*check, tmp_path / "cluster.cfg"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
