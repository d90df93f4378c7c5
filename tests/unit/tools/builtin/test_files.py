"""Read, Write, Edit and LS."""

import os

import pytest

from lattice.errors import ToolPermissionDeniedError
from lattice.tools.builtin.read import LIMIT_CHARS


async def test_a_file_is_read_as_it_is(tools, tmp_path):
    """agent:READ-02"""
    (tmp_path / "a.txt").write_text("one\r\ntwo\n", newline="")
    assert await tools.ok("Read", file_path="a.txt") == "one\r\ntwo\n"
    assert await tools.ok("Read", file_path=str(tmp_path / "a.txt")) == "one\r\ntwo\n"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"offset": 2, "limit": 1}, "two"),
        ({"offset": 2}, "two\nthree\n"),
        ({"limit": 2}, "one\ntwo"),
        ({"offset": 3, "limit": 5}, "three\n"),
        ({"offset": 9}, "(line 9 is past the end: a.txt has 4 lines)"),
    ],
)
async def test_lines_are_counted_from_one(tools, tmp_path, part, expected):
    """agent:READ-01 agent:READ-03 - past the end ours says so."""
    for text in ("one\ntwo\nthree\n", "one\r\ntwo\r\nthree\r\n"):
        (tmp_path / "a.txt").write_text(text, newline="")
        assert await tools.ok("Read", file_path="a.txt", **part) == expected


async def test_a_part_must_be_positive(tools, tmp_path):
    """agent:READ-01"""
    assert "greater_than" in await tools.error("Read", file_path="a", offset=0)
    assert "greater_than" in await tools.error("Read", file_path="a", limit=-1)


async def test_what_cannot_be_read_is_told_in_the_systems_words(tools, tmp_path):
    """agent:READ-04 - a binary file is named as one instead of being decoded."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "bin").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(tmp_path / "pipe")
    assert "No such file or directory" in await tools.error("Read", file_path="nope")
    assert "Is a directory" in await tools.error("Read", file_path="sub")
    assert "bin is a binary file (6 bytes)" in await tools.error("Read", file_path="bin")
    assert "not a regular file" in await tools.error("Read", file_path="/dev/null")


async def test_bad_bytes_do_not_poison_the_conversation(tools, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 \x1b[31m \xed\xa0\x80")
    (await tools.ok("Read", file_path="a.txt")).encode("utf-8")
    assert "\x1b" not in await tools.ok("Read", file_path="a.txt")


async def test_utf16_is_read_by_its_mark(tools, tmp_path):
    (tmp_path / "a.txt").write_text("héllo\nzwei\n", encoding="utf-16")
    assert await tools.ok("Read", file_path="a.txt", offset=2, limit=1) == "zwei"


async def test_an_empty_file_is_called_empty(tools, tmp_path):
    (tmp_path / "a.txt").write_text("")
    assert await tools.ok("Read", file_path="a.txt") == "(the file is empty)"


async def test_a_long_file_comes_in_parts_that_join_up(tools, tmp_path):
    """agent:W-18"""
    lines = [f"line {n}" for n in range(30_000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    collected, offset = [], 1
    while offset is not None:
        part = await tools.ok("Read", file_path="a.txt", offset=offset)
        assert len(part) <= LIMIT_CHARS + 200
        text, marker, rest = part.rpartition("\n[... cut off before line ")
        collected += (text if marker else part).split("\n")
        offset = int(rest.split(":")[0]) if marker else None
    assert collected == lines


async def test_a_line_too_long_for_any_part(tools, tmp_path):
    (tmp_path / "a.txt").write_text("x" * 500_000)
    shown = await tools.ok("Read", file_path="a.txt")
    assert len(shown) < LIMIT_CHARS + 300
    assert "line 1 has 500000 characters" in shown


async def test_write_creates_and_replaces(tools, tmp_path):
    """agent:WRITE-01"""
    assert await tools.ok("Write", file_path="a/b/c.txt", content="é\n") == "Wrote a/b/c.txt"
    assert await tools.ok("Write", file_path=str(tmp_path / "a/b/c.txt"), content="x\r\n") == "Wrote a/b/c.txt"
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"x\r\n"


async def test_write_outside_is_refused(tmp_path, make_tools):
    """agent:WRITE-02 agent:EDIT-01 - and Edit is refused before it looks into the file."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "o.txt").write_text("secret")
    tools = make_tools(tmp_path / "ws")
    outcome = await tools.outcome("Write", file_path="../o.txt", content="x")
    assert isinstance(outcome.error, ToolPermissionDeniedError)
    assert outcome.error.denial.requested_path == str(tmp_path / "o.txt")
    assert "outside allowed write roots" in await tools.error(
        "Edit", file_path="../o.txt", old_string="q", new_string="x"
    )
    assert "outside allowed write roots" in await tools.error(
        "Edit", file_path="../none", old_string="q", new_string="x"
    )
    assert (tmp_path / "o.txt").read_text() == "secret"


async def test_symlinks_do_not_lead_out(tmp_path, make_tools):
    """agent:W-16"""
    (tmp_path / "ws").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f.txt").write_text("old")
    (tmp_path / "ws/dir").symlink_to(tmp_path / "out")
    (tmp_path / "ws/file").symlink_to(tmp_path / "out/f.txt")
    (tmp_path / "ws/dangling").symlink_to(tmp_path / "out/new.txt")
    tools = make_tools(tmp_path / "ws")
    for path in ("dir/f.txt", "file", "dangling", "dir/deeper/x"):
        assert "permission_denied" in await tools.error("Write", file_path=path, content="new")
    assert "permission_denied" in await tools.error("Edit", file_path="file", old_string="old", new_string="new")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["f.txt"]
    assert (tmp_path / "out/f.txt").read_text() == "old"


async def test_a_grant_opens_a_directory(tmp_path, make_tools):
    """agent:GRANT-04 agent:WRITE-01"""
    (tmp_path / "ws").mkdir()
    tools = make_tools(tmp_path / "ws")
    value = {"file_path": "../shared/a.txt", "content": "x"}
    assert "permission_denied" in await tools.error("Write", **value)
    grant = {"workspace_grants": [{"root": str(tmp_path / "shared")}]}
    outcome = await tools.outcome("Write", _permissions=grant, **value)
    assert outcome.results[0]["content"] == "Wrote ../shared/a.txt"


async def test_allowed_directories_replace_the_workspace(tmp_path, make_tools):
    """agent:WS-06"""
    tools = make_tools(tmp_path, allowed_directories=["out"])
    assert "permission_denied" in await tools.error("Write", file_path="a.txt", content="x")
    assert await tools.ok("Write", file_path="out/a.txt", content="x") == "Wrote out/a.txt"
    assert "permission_denied" in await tools.error("Bash", command="echo > a.txt")
    assert await tools.ok("Bash", command="echo hi > out/b.txt; cat out/b.txt") == "hi\n"


async def test_edit_replaces_the_one_occurrence(tools, tmp_path):
    """agent:EDIT-01 agent:EDIT-04 - what looks like a pattern is literal."""
    (tmp_path / "a.py").write_text("cost = 1\n")
    assert await tools.ok("Edit", file_path="a.py", old_string="cost", new_string="$& $$ \\1") == "Edited a.py"
    assert (tmp_path / "a.py").read_text() == "$& $$ \\1 = 1\n"


async def test_edit_refuses_to_guess(tools, tmp_path):
    """agent:EDIT-02 agent:EDIT-03 agent:EDIT-05 agent:W-19 - ours refuses several matches and an empty one."""
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    assert "occurs 2 times" in await tools.error("Edit", file_path="a.py", old_string="x = 1", new_string="y")
    assert await tools.error("Edit", file_path="a.py", old_string="q", new_string="y") == (
        "Tool Edit failed: old_string was not found in a.py"
    )
    assert "empty" in await tools.error("Edit", file_path="a.py", old_string="", new_string="y")
    assert (tmp_path / "a.py").read_text() == "x = 1\nx = 1\n"
    await tools.ok("Edit", file_path="a.py", old_string="x = 1", new_string="y", replace_all=True)
    assert (tmp_path / "a.py").read_text() == "y\ny\n"


async def test_edit_of_an_empty_file_fills_it(tools, tmp_path):
    (tmp_path / "a").write_text("")
    await tools.ok("Edit", file_path="a", old_string="", new_string="text")
    assert (tmp_path / "a").read_text() == "text"


async def test_edit_keeps_the_line_ends_of_the_file(tools, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    await tools.ok("Edit", file_path="a", old_string="one\ntwo", new_string="1\n2")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\r\n"


async def test_edit_leaves_what_is_no_text_alone(tools, tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xfex")
    assert "not UTF-8" in await tools.error("Edit", file_path="a", old_string="x", new_string="y")
    assert (tmp_path / "a").read_bytes() == b"\xff\xfex"


async def test_ls_lists_sorted_with_slashes(tools, tmp_path):
    """agent:LSTOOL-01"""
    assert await tools.ok("LS") == "(empty directory)"
    for name in ("b", "a.txt", ".hidden", "B"):
        (tmp_path / name).write_text("")
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "dir")
    assert await tools.ok("LS") == ".hidden\nB\na.txt\nb\ndir/\nlink"
    assert await tools.ok("LS", path="dir") == "(empty directory)"
    assert "No such file" in await tools.error("LS", path="nope")


async def test_ls_of_very_many(tools, tmp_path):
    for n in range(2005):
        (tmp_path / f"{n:05}").touch()
    lines = (await tools.ok("LS")).split("\n")
    assert lines[-1] == "[... 5 more entries]"
    assert len(lines) == 2001
