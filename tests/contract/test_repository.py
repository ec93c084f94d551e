"""The repository port, and the git below it: objects only, nobody's configuration, nobody's drivers."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.workspace_stage import WHEN, WHO, Stage, link, script, staged, text

from resolvent.adapters.git import Git, GitError
from resolvent.adapters.workspace import repository as repository_module
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.domain.change import Change
from resolvent.errors import NotFound, StoreBusy, UsageError
from resolvent.ports import Repository


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return await staged("copy", tmp_path)


@pytest.fixture
def repository(stage: Stage) -> Repository:
    return stage.repository


@pytest.fixture
async def base(stage: Stage) -> Change:
    change = await stage.commit({"a.txt": text("one\ntwo\nthree\n"), "src/b.py": text("b\n"), "gone": text("gone\n")})
    await stage.git("update-ref", "refs/heads/main", change.commit)
    return change


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program of ours in git's place."""

    def put(body: str) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/git").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin/git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")

    return put


async def test_a_revision_names_its_commit_and_tree(stage: Stage, repository: Repository, base: Change) -> None:
    await stage.git("tag", "-a", "-m", "annotated", "v1", base.commit, env=WHO | WHEN)
    for revision in ("main", "refs/heads/main", base.commit, base.commit[:12], "v1"):
        assert await repository.change(revision) == base


@pytest.mark.parametrize(
    "revision",
    [
        "nope",
        "",
        "0" * 40,
        "--help",
        "-1",
        "main\nmain",
        "main\0",
        "main:a.txt",
        "main..main",
        "^main",
        "é",
        "a b",
        "@{1}",
    ],
)
async def test_what_names_no_commit_is_not_found(repository: Repository, base: Change, revision: str) -> None:
    with pytest.raises(NotFound):
        await repository.change(revision)


async def test_a_diff_shows_text_and_notes_what_is_binary(stage: Stage, repository: Repository, base: Change) -> None:
    changed = await stage.commit(
        {"a.txt": text("one\n2\nthree\n"), "src/b.py": script("b\n"), "bin": ("100644", b"\0\1"), "l": link("/etc")}
    )
    patch = await repository.diff(base, changed)
    assert "-two\n+2\n" in patch
    assert "old mode 100644\nnew mode 100755" in patch
    assert "Binary files /dev/null and b/bin differ" in patch
    assert "+/etc" in patch and "deleted file mode 100644" in patch
    assert await repository.diff(base, base) == ""


async def test_a_patch_that_nobody_could_read_is_cut_and_says_so(
    stage: Stage, repository: Repository, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_module, "MAX_PATCH", 1 << 20)
    long = await stage.commit({"a.txt": text("".join(f"line {number}\n" for number in range(300_000)))})
    patch = await repository.diff(base, long)
    *lines, last = patch.splitlines()
    assert last == "... cut: the patch is longer than 1 MiB" and len(patch) < (1 << 20) + 100
    assert lines[-1].startswith("+line ") and lines[-1] == f"+line {int(lines[-2].split()[-1]) + 1}"
    short = await stage.commit({"a.txt": text("x\n" * 1000)})
    assert "cut" not in await repository.diff(base, short)


@pytest.mark.parametrize("left", ["", "../../upstream.git/obj"])
async def test_a_repository_whose_way_to_the_forges_objects_was_torn_finds_it_again(
    stage: Stage, repository: Repository, base: Change, left: str
) -> None:
    borrowed = repository.path / "objects/info/alternates"
    whole = borrowed.read_text()
    borrowed.write_text(left)
    await TrustedRepository.open(repository.path)
    assert borrowed.read_text() == whole and [path.name for path in borrowed.parent.iterdir()] == ["alternates"]
    inode = borrowed.stat().st_ino
    await TrustedRepository.open(repository.path)
    assert borrowed.stat().st_ino == inode


async def test_no_driver_and_no_attribute_decides_what_a_diff_shows(
    stage: Stage, repository: Repository, base: Change
) -> None:
    program = stage.plant()
    await stage.git("config", "diff.evil.textconv", str(program))
    await stage.git("config", "diff.evil.command", str(program))
    await stage.git("config", "diff.external", str(program))
    (repository.path / "info").mkdir(exist_ok=True)
    (repository.path / "info/attributes").write_text("*.txt diff=evil\n")
    hidden = await stage.commit({".gitattributes": text("*.py -diff\n* binary\n"), "src/b.py": text("seen\n")})
    await stage.git("update-ref", "refs/heads/main", hidden.commit)
    other = await stage.commit({".gitattributes": text("*.py -diff\n* binary\n"), "src/b.py": text("changed\n")})
    assert "+changed" in await repository.diff(hidden, other)
    await repository.diff(base, hidden)
    assert not stage.canary.exists()


async def test_changed_paths_are_sorted_and_name_both_ends_of_a_move(
    stage: Stage, repository: Repository, base: Change
) -> None:
    changed = await stage.commit(
        {
            "a.txt": text("one\ntwo\nthree\n"),
            "src/c.py": text("b\n"),
            "gone": text("x\n"),
            b"\xff\n": text(""),
            "é": text(""),
        }
    )
    assert await repository.changed_paths(base, changed) == ("\\xff\n", "gone", "src/b.py", "src/c.py", "é")
    assert await repository.changed_paths(base, base) == ()


async def test_the_merge_base_is_the_newest_common_commit(stage: Stage, repository: Repository, base: Change) -> None:
    one = await stage.commit({"a": text("1")}, parent=base)
    other = await stage.commit({"a": text("2")}, parent=base)
    assert await repository.merge_base(one, other) == base
    assert await repository.merge_base(one, base) == base
    with pytest.raises(NotFound, match="no commit in common"):
        await repository.merge_base(one, await stage.commit({"a": text("3")}))


async def test_conflicts_name_the_paths_that_do_not_merge(stage: Stage, repository: Repository, base: Change) -> None:
    shared = {"src/b.py": text("b\n"), "gone": text("gone\n")}
    change = await stage.commit({"a.txt": text("one\nMINE\nthree\n"), b"n\n\xff": text("mine"), **shared}, parent=base)
    clean = await stage.commit({"a.txt": text("one\ntwo\nthree\n"), "src/b.py": text("new\n")}, parent=base)
    assert await repository.conflicts(change, clean) == ()
    theirs = {"a.txt": text("one\nTHEIRS\nthree\n"), b"n\n\xff": text("theirs"), "src/b.py": text("b\n")}
    assert await repository.conflicts(change, await stage.commit(theirs, parent=base)) == ("a.txt", "n\n\\xff")
    removed = await stage.commit(shared, parent=base)
    assert await repository.conflicts(change, removed) == ("a.txt",)
    assert await repository.conflicts(change, change) == ()


async def test_commits_without_a_common_past_do_not_silently_merge(
    stage: Stage, repository: Repository, base: Change
) -> None:
    with pytest.raises(GitError, match="unrelated"):
        await repository.conflicts(await stage.commit({"x": text("x")}), base)


async def test_a_plain_clean_up_by_a_person_takes_nothing(stage: Stage, base: Change) -> None:
    loose = await stage.commit({"loose": text("loose")})
    for path in (stage.repository.path / "objects").glob("??/*"):
        os.utime(path, (1_000_000, 1_000_000))
    subprocess.run(["git", "gc", "-q"], cwd=stage.repository.path, check=True)
    assert await stage.repository.change(loose.commit) == loose


async def test_a_repository_is_made_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "repo.git"
    made = await asyncio.gather(*(Git.init_bare(path) for _ in range(4)))
    assert [entry.name for entry in path.parent.iterdir()] == ["repo.git"]
    assert (await made[0]("rev-parse", "--is-bare-repository")).strip() == b"true"
    assert not list(path.glob("hooks/*"))


async def test_git_inherits_nothing_of_our_environment(
    stage: Stage, base: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = stage.plant()
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {program}\n[alias]\n\tx = !{program}\n[user]\n\tname=me\n"
    )
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "GIT_DIR": str(tmp_path / "other.git"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "me",
        "GIT_EXTERNAL_DIFF": str(program),
        "GIT_TRACE": str(tmp_path / "trace"),
        "SECRET_TOKEN": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    assert await stage.repository.change("main") == base
    assert await stage.git("config", "--get", "user.name", check=False) == b""
    await stage.repository.diff(base, await stage.commit({"a.txt": text("x")}))
    seen = await stage.git("-c", "alias.env=!env", "env")
    assert b"secret" not in seen and b"HOME=/nonexistent" in seen
    assert not stage.canary.exists() and not (tmp_path / "trace").exists()


async def test_no_transport_works_unless_it_is_asked_for(stage: Stage, base: Change, tmp_path: Path) -> None:
    other = await Git.init_bare(tmp_path / "other.git")
    fetch = ("fetch", "-q", str(stage.repository.path), "main:refs/heads/main")
    with pytest.raises(GitError, match="not allowed"):
        await other(*fetch)
    with pytest.raises(GitError, match="not allowed"):
        await other("fetch", f"ext::{stage.plant()}", env={"GIT_ALLOW_PROTOCOL": "file"})
    await other(*fetch, env={"GIT_ALLOW_PROTOCOL": "file"})
    assert (await other("rev-parse", "main")).decode().strip() == base.commit
    assert not stage.canary.exists()


async def test_a_failing_git_says_what_it_said(stage: Stage) -> None:
    with pytest.raises(GitError) as caught:
        await stage.git("cat-file", "-p", "nothing")
    assert caught.value.exit == 128
    assert "nothing" in caught.value.stderr and "nothing" in caught.value.message
    assert await stage.git("cat-file", "-p", "nothing", check=False) == b""


async def test_a_missing_git_is_answered_with_the_command_to_type(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="not installed") as caught:
        await stage.git("version")
    assert "apt-get install" in caught.value.hint


async def test_a_git_too_old_to_try_a_merge_is_named(
    stage: Stage, base: Change, fake_git: Callable[[str], None]
) -> None:
    fake_git("echo 'usage: git merge-tree <base-tree> <branch1> <branch2>' >&2; exit 129")
    with pytest.raises(UsageError, match=r"2\.38"):
        await stage.repository.conflicts(base, base)


async def test_a_full_disk_may_heal(stage: Stage, fake_git: Callable[[str], None]) -> None:
    fake_git("echo 'fatal: sha1 file write error: No space left on device' >&2; exit 128")
    with pytest.raises(StoreBusy):
        await stage.git("hash-object", "-w", "--stdin", input=b"x")


async def test_a_cancelled_call_leaves_no_git_behind(
    stage: Stage, fake_git: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git("exec cat /dev/zero >/dev/null")
    started: list[subprocess.Popen[bytes]] = []
    git = stage.git
    popen = git.popen
    monkeypatch.setattr(git, "popen", lambda *args, **more: started.append(popen(*args, **more)) or started[0])
    call = asyncio.create_task(git("fetch"))
    while not started:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(started[0].wait, 10) == -15


async def test_objects_can_be_read_by_the_user_of_a_box_whatever_our_own_mask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        git = await Git.init_bare(tmp_path / "repo.git")
        oid = (await git("hash-object", "-w", "--stdin", input=b"content\n")).decode().strip()
    finally:
        os.umask(before)
    objects = git.git_dir / "objects"
    assert objects.stat().st_mode & 0o005 == (objects / oid[:2]).stat().st_mode & 0o005 == 0o005
    assert (objects / oid[:2] / oid[2:]).stat().st_mode & 0o004
