"""The rules of the bundled team: what they report is what the tools found."""

import sys
from pathlib import Path

import pytest

from lattice import create_builtin_tools, define_agent

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def rules(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from code_review import model

    yield model
    for name in [name for name in sys.modules if name.partition(".")[0] == "code_review"]:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "a folder with ünïcode"
    for name, content in {
        "README.md": "# Shop\n\nSells things.\n",
        "shop/cart.py": "import os\n\ndef total(x):\n    return eval(x)  # noqa\n",
        "shop/pay ment.py": "def pay():\n    try:\n        go()\n    except:\n        pass\n",
        "shop/[id].tsx": "// TODO: page\n",
        "tests/test_cart.py": "def test_total():\n    assert total('1') == 1\n\ndef test_more():\n    assert 1\n",
        "tests/test_idle.py": "def test_nothing():\n    pass\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    (folder / "logo.png").write_bytes(b"\x89PNG\0\0eval(x)\xff")
    (folder / "loop").symlink_to(folder)
    return folder


async def report(rules, folder, member_rules):
    agent = define_agent(
        name="member",
        model="rules",
        workspace=False,
        tools=[tool for tool in create_builtin_tools(cwd=folder) if tool.name in ("Read", "LS", "Glob", "Grep")],
        model_client=rules.scripted(member_rules),
    ).spawn()
    result = await agent.prompt("Do your part.")
    assert result.subtype == "success", result
    return result.result.splitlines()


async def test_the_surveyor_counts_what_is_there(rules, folder):
    lines = await report(rules, folder, rules.surveyor_rules)
    assert lines[0] == "## Survey"
    assert "Files: 7; folders at the top: 2." in lines
    assert "Kinds: .py 4, .md 1, .png 1, .tsx 1." in lines
    assert "- shop/: 3 files" in lines
    assert "README.md says: Shop" in lines
    assert lines[-1] == "Summary: 7 files, 5 of them code of the kinds above."


async def test_the_risk_reviewer_names_file_and_line(rules, folder):
    lines = await report(rules, folder, rules.reviewer_rules)
    assert "Found: code from a string 1, swallowed errors 1, open work 1." in lines
    assert "- shop/cart.py:4 code from a string: return eval(x)  # noqa" in lines
    assert "- shop/pay ment.py:4 swallowed errors: except:" in lines
    assert "- shop/[id].tsx:1 open work: // TODO: page" in lines
    assert lines[-1] == "Summary: 3 findings in 3 files; read 3 places again."


async def test_the_test_auditor_finds_what_is_not_tested(rules, folder):
    lines = await report(rules, folder, rules.auditor_rules)
    assert "Test files: 2 with 3 tests; code files: 3." in lines
    assert {"- shop/pay ment.py", "- shop/[id].tsx"} <= set(lines)
    assert "- shop/cart.py" not in lines
    assert "Test files that check nothing: 1, for instance tests/test_idle.py." in lines


async def test_more_files_than_a_tool_lists_are_counted_all_the_same(rules, tmp_path):
    for number in range(2100):
        (tmp_path / f"f{number}.py").touch()
    (tmp_path / "zz.js").touch()
    lines = await report(rules, tmp_path, rules.surveyor_rules)
    assert "Files: 2,101; folders at the top: 0." in lines
    assert "Kinds: .py 2,100." in lines


@pytest.mark.parametrize("member", ["surveyor_rules", "reviewer_rules", "auditor_rules"])
async def test_an_empty_folder_is_no_trouble(rules, tmp_path, member):
    lines = await report(rules, tmp_path, getattr(rules, member))
    assert lines[-1].startswith("Summary: 0 ")


def test_the_lead_hands_the_task_to_all_three(rules):
    asked = rules.lead_rules("Review the code in /x", [])
    calls = [block for block in asked["content"] if block["type"] == "tool_use"]
    assert [call["name"] for call in calls] == ["surveyor", "risk_reviewer", "test_auditor"]
    assert all(call["input"]["mode"] == "handoff" and "/x" in call["input"]["task"] for call in calls)


def test_the_lead_quotes_reports_and_says_who_did_not_report(rules):
    update = """Team runtime update:
--- mailbox reply ---
id: 1

## Risks
Found: swallowed errors 1.
- a.py:3 swallowed errors: except:
Summary: 1 findings in 1 files; read 1 places again.
--- mailbox reply ---
## Tests
- b.py
Summary: 0 tests; 1 code files have no test of their name.
"""
    said = rules.lead_rules(update, [rules.Call("surveyor", {}, "accepted", failed=False)])["text"]
    assert "The surveyor did not report." in said
    assert "1. Look at a.py:3 swallowed errors: except:" in said
    assert "2. Write a test for b.py" in said
    assert "mailbox reply" not in said
