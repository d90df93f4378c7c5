"""The compose file, the Procfile and the image start commands that exist, for members that exist."""

import importlib
import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from honcho.environ import parse_procfile

from workers.apps import load_app
from workers.settings import Settings, parse_duration

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PROCFILE = parse_procfile((ROOT / "Procfile").read_text()).processes
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()

OURS = {name: service for name, service in COMPOSE["services"].items() if service.get("image") == "lattice"}
COMMANDS = {
    **{f"compose {name}": [*service.get("entrypoint", []), *service["command"]] for name, service in OURS.items()},
    **{f"Procfile {name}": shlex.split(line) for name, line in PROCFILE.items()},
    **{f"image {line}": yaml.safe_load(line) for line in re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)},
}


def click_command(script):
    """The click command behind a console script: the module's own one of that name."""
    module = importlib.import_module(SCRIPTS[script].split(":")[0])
    found = [value for value in vars(module).values() if isinstance(value, click.Command) and value.name == script]
    assert len(found) == 1, f"{module.__name__} defines no one click command called {script}"
    return found[0]


def options_of(arguments):
    """The long options of a command line, with their values."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=False)
    return {word: value for word, value in pairs if word.startswith("--")}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=list(COMMANDS))
def test_each_command_is_a_console_script_that_knows_its_options(arguments):
    script, *rest = arguments
    assert script in SCRIPTS
    known = {name for parameter in click_command(script).params for name in parameter.opts} | {"--help"}
    assert set(options_of(rest)) <= known


def test_the_compose_file_starts_redis_a_coordinator_and_the_two_members_of_the_team():
    team = load_app("examples.hello_team.team:team", folder=ROOT).team
    members = [options_of(service["command"]).get("--member") for service in OURS.values()]
    assert sorted(filter(None, members)) == sorted(member.name for member in team.members)
    assert OURS["coordinator"]["command"] == ["lattice-coordinator"]
    assert COMPOSE["services"]["redis"]["image"].startswith("redis:")


def test_the_procfile_starts_a_coordinator_and_each_member_of_its_team():
    commands = [shlex.split(line) for line in PROCFILE.values()]
    (app,) = {options_of(command)["--app"] for command in commands}
    team = load_app(app, folder=ROOT).team
    assert [command[0] for command in commands].count("lattice-coordinator") == 1
    members = [options_of(command)["--member"] for command in commands if command[0] == "lattice-worker"]
    assert sorted(members) == sorted(member.name for member in team.members)


def test_redis_keeps_its_data_and_evicts_nothing_in_the_compose_file():
    options = options_of(COMPOSE["services"]["redis"]["command"])
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"


def test_a_container_is_given_longer_to_stop_than_a_worker_takes_to_drain():
    for service in OURS.values():
        assert parse_duration(service["stop_grace_period"]) > Settings().drain_timeout


def test_services_are_healthy_when_they_claim():
    probe = ["python", "-m", "workers.probe", "/livez"]
    for name, service in OURS.items():
        assert (
            service["healthcheck"] == {"disable": True}
            if name == "submit"
            else service["healthcheck"]["test"][1:] == probe
        )
    assert json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1]) == probe
    assert "LATTICE_HEALTH_PORT=8080" in DOCKERFILE


def test_services_wait_for_a_redis_that_answers():
    assert "healthcheck" in COMPOSE["services"]["redis"]
    assert all(service["depends_on"]["redis"]["condition"] == "service_healthy" for service in OURS.values())


def test_the_image_does_not_run_as_root():
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert users
    assert users[-1] not in ("root", "0")
    assert DOCKERFILE.index("USER ") < DOCKERFILE.index("\nCMD ")


def test_what_the_image_copies_exists_and_is_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *sources, _target = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{Path(source).parts[0]}" in ignored


def test_the_image_starts_in_a_folder_whose_team_is_found_without_flags():
    target = re.findall(r"^WORKDIR (\S+)$", DOCKERFILE, re.MULTILINE)[-1]
    source = re.search(rf"^COPY .*?(\S+) {target}$", DOCKERFILE, re.MULTILINE)[1]
    assert (ROOT / source / "team.py").is_file()
