from pathlib import Path

import pytest

from lattice.errors import LatticeError
from lattice.workspace.paths import display_path, is_within, real_path, resolve_path


def test_relative_paths_start_at_cwd_and_absolute_ones_stand():
    """agent:BI-03"""
    cwd = Path("/w/space")
    assert resolve_path("a/../b.txt", cwd) == Path("/w/space/b.txt")
    assert resolve_path("/etc/x", cwd) == Path("/etc/x")
    assert resolve_path("~/x", cwd) == Path("/w/space/~/x")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(LatticeError, match="not a path"):
        resolve_path(path, Path("/w"))


def test_containment_follows_symlinks(tmp_path):
    """agent:GRANT-05 agent:W-16 - ours follows them, dangling ones too."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "new.txt")
    (tmp_path / "alias").symlink_to(root)
    assert is_within(root, [root])
    assert is_within(root / "a/b", [root])
    assert is_within(tmp_path / "alias/a", [root])
    assert is_within(root / "a", [tmp_path / "alias"])
    assert not is_within(root / "link/x", [root])
    assert not is_within(root / "dangling", [root])
    assert not is_within(root / "../outside", [root])
    assert not is_within(tmp_path / "rooted", [root])
    assert not is_within(root, [])
    assert real_path(root / "link/x") == outside / "x"


def test_display_is_relative_and_may_climb():
    assert display_path(Path("/w/space/a/b"), Path("/w/space")) == "a/b"
    assert display_path(Path("/w/other"), Path("/w/space")) == "../other"
