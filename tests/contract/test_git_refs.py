"""Refs read as files are what git says they are, however they are kept."""

import os
from pathlib import Path

import pytest

from resolvent.adapters.git import Git
from resolvent.adapters.git_refs import refs_of

UNDER = ("refs/heads/", "refs/resolvent/")
NAMES = (
    b"refs/heads/main",
    b"refs/heads/deep/er/one",
    b"refs/heads/gr\xc3\xbcn",
    b"refs/heads/\xff\xfe",
    b"refs/tags/x",
)


@pytest.fixture
async def git(tmp_path: Path) -> Git:
    git = await Git.init_bare(tmp_path / "a 'strange' place" / "repo.git")
    tree = (await git("mktree", input=b"")).decode().strip()
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for name in NAMES:
        commit = (await git("commit-tree", tree, "-m", name.hex(), env=who)).strip()
        await git("update-ref", "--stdin", input=b"create " + name + b" " + commit + b"\n")
    return git


async def told(git: Git, *under: str) -> dict[str, str]:
    said = await git("for-each-ref", "--format=%(objectname) %(refname)", *under)
    lines = said.decode("utf-8", "surrogateescape").splitlines()
    return {name: id for id, _, name in (line.partition(" ") for line in lines)}


async def agrees(git: Git) -> dict[str, str]:
    found = await refs_of(git, *UNDER)
    assert found == await told(git, *UNDER)
    return found


async def test_loose_ones_and_strange_names(git: Git) -> None:
    assert [os.fsencode(name) for name in await agrees(git)] == sorted(NAMES[:4])


async def test_packed_ones_and_what_moved_or_went_since(git: Git) -> None:
    await git("pack-refs", "--all", "--prune")
    assert not any((git.git_dir / "refs/heads").rglob("main"))
    before = await agrees(git)
    await git("update-ref", "refs/heads/main", before["refs/heads/deep/er/one"])
    await git("update-ref", "-d", "refs/heads/deep/er/one")
    after = await agrees(git)
    assert after["refs/heads/main"] == before["refs/heads/deep/er/one"] != before["refs/heads/main"]
    assert "refs/heads/deep/er/one" not in after


async def test_one_that_is_being_written_is_as_it_was(git: Git) -> None:
    before = await agrees(git)
    (git.git_dir / "refs/heads/main.lock").write_bytes(b"")
    assert await agrees(git) == before


async def test_a_ref_that_leads_to_another_is_followed(git: Git) -> None:
    await git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    found = await agrees(git)
    assert found["refs/heads/alias"] == found["refs/heads/main"]


async def test_one_that_a_power_loss_emptied_is_left_to_git(git: Git) -> None:
    (git.git_dir / "refs/heads/main").write_bytes(b"")
    assert "refs/heads/main" not in await agrees(git)


async def test_one_ref_by_its_name_and_none_by_another(git: Git) -> None:
    assert list(await refs_of(git, "refs/heads/main")) == ["refs/heads/main"]
    await git("pack-refs", "--all", "--prune")
    assert list(await refs_of(git, "refs/heads/main")) == ["refs/heads/main"]
    assert await refs_of(git, "refs/heads/nothing") == {}
