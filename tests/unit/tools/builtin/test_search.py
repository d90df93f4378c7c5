"""Glob and Grep."""

import os

import pytest

from lattice.tools.builtin import grep


@pytest.fixture
def tree(tmp_path):
    for path, text in {
        "a.ts": "alpha\nbeta\n",
        "src/b.ts": "beta\r\ngamma\r\n",
        "src/deep/foo.ts": "x = 1\n",
        "src/deep/barfoo.ts": "alpha beta\n",
        ".hidden/c.ts": "",
        "src/style.css": "alpha\n",
        "node_modules/m.ts": "alpha\n",
        ".git/config.ts": "alpha\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, newline="")
    return tmp_path


ALL = [".hidden/c.ts", "a.ts", "src/b.ts", "src/deep/barfoo.ts", "src/deep/foo.ts"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.ts", ALL),
        ("*.ts", ["a.ts"]),
        ("./*.ts", ["a.ts"]),
        ("src/*.ts", ["src/b.ts"]),
        ("**/foo.ts", ["src/deep/foo.ts"]),
        ("src/**/*.{ts,css}", ["src/b.ts", "src/deep/barfoo.ts", "src/deep/foo.ts", "src/style.css"]),
        ("[a-b].ts", ["a.ts"]),
        ("?.ts", ["a.ts"]),
        ("src/**", ["src/b.ts", "src/deep/barfoo.ts", "src/deep/foo.ts", "src/style.css"]),
        ("*.py", ["(no file matches)"]),
    ],
)
async def test_patterns(tools, tree, pattern, expected):
    """agent:GLOB-01 agent:GLOB-02 agent:GLOB-03 agent:W-20 - with braces and classes, and `**/x` is no suffix."""
    assert (await tools.ok("Glob", pattern=pattern)).split("\n") == expected


async def test_paths_are_relative_to_path(tools, tree):
    """agent:GLOB-01"""
    assert await tools.ok("Glob", pattern="**/*.ts", path="src/deep") == "barfoo.ts\nfoo.ts"
    assert await tools.ok("Glob", pattern="*.ts", path="a.ts") == "a.ts"
    assert "No such file" in await tools.error("Glob", pattern="*", path="nope")
    assert "relative" in await tools.error("Glob", pattern="/etc/*")


async def test_symlinks_are_neither_followed_nor_listed(tools, tree):
    """agent:GLOB-02"""
    (tree / "src/loop").symlink_to(tree)
    (tree / "z.ts").symlink_to(tree / "a.ts")
    assert (await tools.ok("Glob", pattern="**/*.ts")).split("\n") == ALL


async def test_ignore_files_are_honoured_where_they_stand(tools, tree):
    """agent:W-20"""
    (tree / ".gitignore").write_text("*.css\n/src/deep/\n")
    (tree / "src/.gitignore").write_text("!style.css\nb.ts\n")
    assert await tools.ok("Glob", pattern="**/*.{ts,css}") == ".hidden/c.ts\na.ts\nsrc/style.css"
    assert await tools.ok("Glob", pattern="src/deep/*", include_ignored=True) == "src/deep/barfoo.ts\nsrc/deep/foo.ts"
    assert await tools.ok("Glob", pattern="*", path="src/deep") == "barfoo.ts\nfoo.ts"
    assert "style.css" in await tools.ok("Glob", pattern="*", path="src")


async def test_rules_of_the_repository_reach_below(tools, tree):
    (tree / ".gitignore").write_text("*.css\n")
    assert await tools.ok("Glob", pattern="*", path="src") == "b.ts"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_an_unreadable_directory_is_noted(tools, tree):
    """agent:W-20"""
    (tree / "src/deep").chmod(0)
    try:
        text = await tools.ok("Glob", pattern="**/*.ts")
    finally:
        (tree / "src/deep").chmod(0o700)
    assert "src/b.ts" in text
    assert "1 directories could not be read" in text


async def test_a_directory_that_vanishes_is_noted(tools, tree, monkeypatch):
    """agent:W-20"""
    real = os.scandir

    def scandir(path):
        if str(path).rstrip("/").endswith("deep"):
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    text = await tools.ok("Glob", pattern="**/*.ts")
    assert text.endswith("[1 directories could not be read: src/deep/]")
    assert "src/b.ts" in text


async def test_too_many_paths_are_counted(tools, tmp_path):
    for n in range(2003):
        (tmp_path / f"{n:05}").touch()
    lines = (await tools.ok("Glob", pattern="*")).split("\n")
    assert lines[-1] == "[... 3 more files match: narrow the pattern]"
    assert lines[:2] == ["00000", "00001"]


async def test_lines_with_path_and_number_in_order(tools, tree):
    """agent:GREP-01 agent:W-20"""
    assert (await tools.ok("Grep", pattern="alpha|^beta$")).split("\n") == [
        "a.ts:1:alpha",
        "a.ts:2:beta",
        "src/b.ts:1:beta",
        "src/deep/barfoo.ts:1:alpha beta",
        "src/style.css:1:alpha",
    ]
    assert await tools.ok("Grep", pattern="nothing like it") == "(no line matches)"


@pytest.mark.parametrize(
    ("include", "files"),
    [("*.css", {"src/style.css"}), ("src/**/*.ts", {"src/deep/barfoo.ts"}), ("a.*", {"a.ts"})],
)
async def test_include_narrows(tools, tree, include, files):
    """agent:GREP-02 - a pattern without a slash speaks of names."""
    lines = (await tools.ok("Grep", pattern="alpha", include=include)).split("\n")
    assert {line.split(":")[0] for line in lines} == files


async def test_a_single_file_is_named(tools, tree):
    """agent:GREP-03 agent:W-20"""
    assert await tools.ok("Grep", pattern="gamma", path="src/b.ts") == "src/b.ts:2:gamma"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\Abeta", ["a.ts:2:beta", "src/b.ts:1:beta"]),
        (r"(?i)GAMMA$", ["src/b.ts:2:gamma"]),
        (r"(?<!a)beta", ["a.ts:2:beta", "src/b.ts:1:beta"]),
        (r"beta\Z", ["a.ts:2:beta", "src/b.ts:1:beta"]),
        (r"a\s*\n?b", ["(no line matches)"]),
    ],
)
async def test_each_line_is_matched_by_itself(tools, tree, pattern, expected):
    """agent:GREP-01"""
    (tree / "src/deep/barfoo.ts").unlink()
    assert (await tools.ok("Grep", pattern=pattern)).split("\n") == expected


async def test_a_bad_expression_is_told(tools):
    """agent:GREP-04"""
    assert (await tools.error("Grep", pattern="(")).startswith("Tool Grep failed: the regular expression '('")


async def test_binary_and_huge_files_are_skipped(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(grep, "_LARGEST_FILE", 100)
    (tmp_path / "bin").write_bytes(b"alpha\0")
    (tmp_path / "big.txt").write_text("alpha\n" * 100)
    (tmp_path / "ok.txt").write_text("alpha")
    assert await tools.ok("Grep", pattern="alpha") == "ok.txt:1:alpha\n[too large to search: big.txt]"


async def test_matches_and_lines_are_capped(tools, tmp_path):
    """agent:W-18"""
    (tmp_path / "a.txt").write_text(f"{'x' * 5000}\n" + "x\n" * 2000)
    lines = (await tools.ok("Grep", pattern="x")).split("\n")
    assert lines[0] == f"a.txt:1:{'x' * 500}[... 5000 characters]"
    assert lines[-1] == "[... stopped after 1000 lines: narrow the search]"
    assert len(lines) == 1001


async def test_an_expression_that_explodes_is_stopped(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(grep, "_SECONDS", 0.05)
    (tmp_path / "a.txt").write_text("a" * 40 + "!")
    assert "simplify the expression" in await tools.error("Grep", pattern="^(a|a|aa)+$")


async def test_kept_outputs_are_not_searched(tools, tmp_path):
    (tmp_path / ".tool-output").mkdir()
    (tmp_path / ".tool-output/x.txt").write_text("alpha")
    assert await tools.ok("Grep", pattern="alpha") == "(no line matches)"
    assert await tools.ok("Grep", pattern="alpha", path=".tool-output") == "x.txt:1:alpha"
