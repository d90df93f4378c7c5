"""What runs for a team on one machine."""

import pytest

from lattice import create_team, define_agent, team_member
from lattice.errors import OptionError
from workers.local_team import find_member, member_names, redis_url_for, team_processes
from workers.settings import Settings


@pytest.fixture
def team():
    agent = define_agent(name="a", model="m", workspace=False)
    members = [team_member(name="backend", agent=agent), team_member(name="Front End", agent=agent)]
    return create_team(name="shop", lead=agent, members=members)


def test_a_coordinator_and_a_worker_for_each_member(team, tmp_path):
    settings = Settings(app="a:b", redis_url="redis://u:hunter2@h", burst=True, member="x", health_port=80, lease=5)
    wanted = team_processes(member_names(team), settings, env={"MORE": "1"}, cwd=tmp_path)
    assert [child.name for child in wanted] == ["coordinator", *member_names(team)]
    assert all("hunter2" not in part for child in wanted for part in child.argv)
    for child in wanted:
        assert child.cwd == tmp_path
        assert child.env["LATTICE_REDIS_URL"] == "redis://u:hunter2@h"
        assert child.env["LATTICE_LEASE"] == "5"
        assert child.env["MORE"] == "1"
        # What cannot be the same for all of them.
        assert child.env["LATTICE_HEALTH_PORT"] == ""
        assert child.env["LATTICE_MEMBER"] == ""
        assert child.env["LATTICE_BURST"] == "false"
    assert wanted[1].argv[-2:] == ("--member", "backend")


def test_a_member_is_found_by_its_name_and_by_its_key(team):
    key = member_names(team)[1]
    assert find_member(team, "Front End") is find_member(team, key)


@pytest.mark.parametrize("name", [None, "", "nobody", "manager"])
def test_an_unknown_member_is_answered_with_the_members(team, name):
    with pytest.raises(OptionError) as refused:
        find_member(team, name)
    assert ", ".join(member_names(team)) in refused.value.message
    assert "shop" in refused.value.message


async def test_a_configured_redis_is_used_as_it_is(tmp_path):
    async with redis_url_for(Settings(redis_url="redis://h"), tmp_path / "data") as url:
        assert url == "redis://h"
    assert not (tmp_path / "data").exists()
