"""The smallest team: a lead with two members. Start it with ``lattice up`` in this folder."""

import os

from lattice import create_team, define_agent, team_member

MODEL = os.environ.get("HELLO_MODEL", "claude-sonnet-4-5")


def agent(name, system_prompt):
    return define_agent(name=name, model=MODEL, system_prompt=system_prompt, workspace=False)


team = create_team(
    name="hello",
    lead=agent(
        "lead", "You lead a small newsroom. Hand facts to the researcher and the text to the writer, then answer."
    ),
    members=[
        team_member(
            name="researcher",
            role="executor",
            focus="Collects what is known about a subject",
            agent=agent("researcher", "You collect facts, each in one line, and say how sure you are of it."),
        ),
        team_member(
            name="writer",
            role="executor",
            focus="Turns facts into a short text",
            agent=agent("writer", "You turn the facts you are given into three clear sentences."),
        ),
    ],
)
