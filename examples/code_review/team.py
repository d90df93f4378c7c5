"""The team: a lead that hands off to three members, who read the folder in ``LATTICE_DEMO_PATH`` with the file tools.

With ``ANTHROPIC_API_KEY``, ``LATTICE_DEMO_BASE_URL`` or ``LATTICE_DEMO_MODEL`` it works on a real model, else on rules.
"""

import os
from pathlib import Path

from lattice import create_builtin_tools, create_team, define_agent, team_member

from .model import auditor_rules, lead_rules, reviewer_rules, scripted, surveyor_rules

FOLDER = Path(os.environ.get("LATTICE_DEMO_PATH") or Path.cwd()).resolve()
BASE_URL = os.environ.get("LATTICE_DEMO_BASE_URL")
MODEL = os.environ.get("LATTICE_DEMO_MODEL")
API_KEY = os.environ.get("ANTHROPIC_API_KEY")
REAL = bool(API_KEY or BASE_URL or MODEL)

READING = ("Read", "LS", "Glob", "Grep")

LEAD = """You lead a code review. Hand the folder you are given to all three members at once, in one response, each in
mode "handoff". When their reports have arrived, write one review: how much code there is, the risks with file and line,
the gaps in the tests, and what to do first. Name only files and numbers that stand in the reports."""

SURVEYOR = """You survey a folder of code with LS, Glob and Read: how many files of which kind there are, how it is laid
out, what it is for. Report counts and names that you have seen, nothing else."""

REVIEWER = """You look for risky code with Grep and Read: shell and eval calls, unpickling, swallowed errors, secrets in
the source, open TODOs. Report each finding as file:line with the line itself, the worst first, and their number."""

AUDITOR = """You audit the tests of a folder with Glob, Grep and Read: how many test files and tests there are, which
source files have none, which tests check nothing. Report counts and file names that you have seen, nothing else."""


def agent(name, system_prompt, rules, tools=()):
    how = {"api_key": API_KEY or "none", "base_url": BASE_URL} if REAL else {"model_client": scripted(rules)}
    return define_agent(
        name=name,
        model=(MODEL or "claude-sonnet-4-5") if REAL else "rules",
        system_prompt=system_prompt,
        workspace=False,
        tools=list(tools),
        max_turns=30,
        **{key: value for key, value in how.items() if value},
    )


def reading_tools():
    return [tool for tool in create_builtin_tools(cwd=str(FOLDER)) if tool.name in READING]


def member(name, focus, system_prompt, rules):
    return team_member(
        name=name, role="executor", focus=focus, agent=agent(name, system_prompt, rules, reading_tools())
    )


team = create_team(
    name="code-review",
    lead=agent("lead", LEAD, lead_rules),
    members=[
        member("surveyor", "Counts the files and says how the folder is laid out", SURVEYOR, surveyor_rules),
        member("risk_reviewer", "Finds risky code and names file and line", REVIEWER, reviewer_rules),
        member("test_auditor", "Finds out what is tested and what is not", AUDITOR, auditor_rules),
    ],
)
