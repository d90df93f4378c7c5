"""The manifests fit the schemas of Kubernetes, and start what exists: the team's members, its ports, its probes."""

from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from lattice.redis.keys import Keys
from tests.deploy.test_files import click_command, options_of
from workers.apps import load_app
from workers.health import SILENCE
from workers.settings import OPTIONS, Settings, parse_duration

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
DOCUMENTS = {
    f"{path.name}/{number}": document
    for path in FILES
    for number, document in enumerate(yaml.safe_load_all(path.read_text()))
}
BUILT_IN = {name: document for name, document in DOCUMENTS.items() if "keda.sh" not in document["apiVersion"]}
OURS = {document["metadata"]["name"]: document for document in DOCUMENTS.values() if document["kind"] == "Deployment"}
SCALED = {
    document["metadata"]["name"]: document for document in DOCUMENTS.values() if document["kind"] == "ScaledObject"
}
SETTINGS = next(d for d in DOCUMENTS.values() if d["kind"] == "ConfigMap")["data"]
TEAM = load_app("examples.hello_team.team:team", folder=ROOT).team

SCALED_OBJECT = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
            "properties": {
                "scaleTargetRef": {"type": "object", "required": ["name"]},
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "cooldownPeriod": {"type": "integer"},
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["type", "metadata"],
                        "additionalProperties": False,
                        "properties": {
                            "type": {"const": "redis-streams"},
                            "metadata": {
                                "type": "object",
                                "required": ["address", "stream", "streamLength"],
                                "additionalProperties": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What KEDA's own definition asks of the part that we use; it is no part of Kubernetes."""


def pod_of(document):
    return document["spec"]["template"]["spec"]


def container_of(document):
    (container,) = pod_of(document)["containers"]
    return container


@pytest.mark.parametrize("name", [name for name in BUILT_IN if "kustomization" not in name])
def test_a_manifest_fits_the_schema_of_kubernetes(name):
    kubernetes_validate.validate(BUILT_IN[name], kubernetes_validate.latest_version(), strict=True)


def test_the_schema_check_can_fail():
    broken = {**BUILT_IN["coordinator.yaml/0"], "spec": {"replicas": "two"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("name", list(SCALED))
def test_a_scaler_fits_the_schema_of_keda_and_watches_the_mailbox_of_the_member_that_it_scales(name):
    jsonschema.validate(SCALED[name], SCALED_OBJECT)
    spec = SCALED[name]["spec"]
    target = OURS[spec["scaleTargetRef"]["name"]]
    member = options_of(container_of(target)["command"])["--member"]
    assert [trigger["metadata"]["stream"] for trigger in spec["triggers"]] == [Keys(TEAM.key).mailbox(member)]


def test_there_is_a_coordinator_and_a_worker_for_each_member():
    commands = {name: container_of(document)["command"] for name, document in OURS.items()}
    assert commands.pop("coordinator") == ["lattice-coordinator"]
    members = [options_of(command)["--member"] for command in commands.values()]
    assert sorted(members) == sorted(member.key for member in TEAM.members)
    assert sorted(SCALED) == sorted(commands)


@pytest.mark.parametrize("name", list(OURS))
def test_a_command_knows_its_options(name):
    script, *rest = container_of(OURS[name])["command"]
    known = {option for parameter in click_command(script).params for option in parameter.opts}
    assert set(options_of(rest)) <= known


def test_settings_are_ones_that_exist():
    known = {variable for option in OPTIONS.values() for variable in option.variables}
    assert {name for name in SETTINGS if name.startswith("LATTICE_")} <= known


@pytest.mark.parametrize("name", list(OURS))
def test_a_pod_may_drain_before_it_is_killed(name):
    drain = parse_duration(SETTINGS["LATTICE_DRAIN_TIMEOUT"])
    assert drain == Settings().drain_timeout
    assert pod_of(OURS[name])["terminationGracePeriodSeconds"] > drain


@pytest.mark.parametrize("name", list(OURS))
def test_probes_ask_what_the_process_serves_and_outlast_a_restart_of_redis(name):
    container = container_of(OURS[name])
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert ports == {"health": SETTINGS["LATTICE_HEALTH_PORT"], "metrics": SETTINGS["LATTICE_METRICS_PORT"]}
    paths = {kind: container[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/readyz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    live = container["livenessProbe"]
    assert live["periodSeconds"] * live["failureThreshold"] + SILENCE >= 90


@pytest.mark.parametrize("name", list(OURS))
def test_no_pod_runs_as_root(name):
    assert pod_of(OURS[name])["securityContext"]["runAsNonRoot"] is True


def test_the_kustomization_lists_every_file():
    text = (FOLDER / "kustomization.yaml").read_text()
    listed = yaml.safe_load(text)["resources"]
    others = {path.name for path in FILES} - {"kustomization.yaml", "keda.yaml"}
    assert set(listed) == others
    assert "# - keda.yaml" in text
