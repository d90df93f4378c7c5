"""A lead whose model always fails."""

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel


def broken(request):
    raise RuntimeError("the model broke")


def agent(name):
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(broken))


team = create_team(name="failing", lead=agent("lead"), members=[team_member(name="only", agent=agent("only"))])
