"""Branches as copies: who may be at the files, what a power loss leaves, and what copies take on the disk."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.boxed import emptied_later, trouble
from tests.contract.workspace_stage import BWRAP, Stage, staged, text

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace import copy, copying
from resolvent.adapters.workspace.confine import Walls, furnish
from resolvent.adapters.workspace.copy import CopyWorkspace
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.adapters.workspace.sealed import UNUSED_S
from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch, Job
from resolvent.errors import BranchBusy, JobLost, NotFound

BASE = {"README.md": text("hello\n"), "src/app.py": text("app\n")}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await staged("copy", tmp_path)
    yield stage
    assert stage.leftovers() == []


@pytest.fixture
async def base(stage: Stage) -> Change:
    return await stage.commit(BASE)


def on(stage: Stage) -> CopyWorkspace:
    assert isinstance(stage.workspace, CopyWorkspace)
    return stage.workspace


def place(stage: Stage, branch: Branch) -> Path:
    return on(stage).path(branch).parent


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """As the supervisor of a job has it for as long as the job runs; BlockingIOError when somebody else does."""
    hold = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(hold)


# Who may be at the files.


async def test_nobody_else_is_let_in_while_some_job_has_the_files_whoever_was_let_in_last(
    stage: Stage, base: Change
) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.entered(branch, id="quick")
    await stage.entered(branch, id="late")
    with held(place(stage, branch)):
        for refused in (
            stage.entered(branch, id="third"),
            stage.workspace.fork(branch, id="f"),
            stage.workspace.snapshot(branch),
            stage.workspace.lay(branch, [File(path="laid", text="x")], base=base),
            stage.workspace.drop("r"),
            stage.workspace.delete("r"),
        ):
            with pytest.raises(BranchBusy, match="somebody else uses"):
                await refused
    assert (await stage.entered(branch, id="third")).id == "third"
    assert await stage.workspace.fork(branch, id="f")


async def test_no_job_begins_in_a_branch_between_its_rescue_and_its_removal(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(branch, lambda work: (work / "new.py").write_text("new"))
    await stage.entered(branch, id="late")
    keep, tried = on(stage)._rescue.keep, []

    async def late(*args: Any) -> str | None:
        with pytest.raises(BlockingIOError), held(place(stage, branch)):
            pass
        with pytest.raises(BranchBusy):
            await stage.entered(branch, id="another")
        tried.append(args)
        return await keep(*args)

    monkeypatch.setattr(on(stage)._rescue, "keep", late)
    assert await stage.workspace.delete("r") and len(tried) == 1
    with pytest.raises(NotFound):
        await stage.entered(branch, id="late")


async def test_no_job_begins_in_a_parent_while_it_is_copied_and_others_copy_it_too(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await stage.workspace.root(base, id="r")
    real, loop, tried = copying.copy_tree, asyncio.get_running_loop(), []

    def late(source: int, target: int) -> None:
        tried.append(source)
        with pytest.raises(BlockingIOError), held(place(stage, parent)):
            pass
        if len(tried) == 1:
            again = asyncio.run_coroutine_threadsafe(stage.workspace.fork(parent, id="two"), loop)
            assert again.result().parent == "r"
            with pytest.raises(BranchBusy):
                asyncio.run_coroutine_threadsafe(stage.entered(parent), loop).result()
        real(source, target)

    monkeypatch.setattr(copy, "copy_tree", late)
    assert await stage.workspace.fork(parent, id="one") and len(tried) == 2
    assert await stage.entered(parent)


async def test_a_branch_is_kept_though_its_parent_cannot_be_compared_with(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, lambda work: (work / "new.py").write_text("new"))
    one, two = [await stage.workspace.fork(parent, id=id) for id in ("one", "two")]
    # Its job may overwrite it at any time; and what cannot become a commit is no reason to keep a child.
    with held(place(stage, parent)):
        assert await stage.workspace.delete(one.id)
    await stage.inside(parent, lambda work: (work / "sub/.git").mkdir(parents=True))
    assert await stage.workspace.delete(two.id)


@pytest.mark.skipif(bool(trouble()), reason=trouble())
async def test_of_two_jobs_that_were_let_in_before_either_began_one_runs() -> None:
    with emptied_later() as top:
        stage = await staged("copy", top)
        jobs = SupervisedJobs(top / "jobs")
        (stage.state / "sandbox").mkdir()
        user = jobs_user(stage.state)
        etc = furnish(stage.state / "sandbox", user=os.geteuid() if user is None else user)
        walls = Walls(kind="namespaces", bwrap=BWRAP, user=user, etc=etc)
        workspace = CopyWorkspace(stage.state, walls=walls, running=jobs.running)
        branch = await workspace.root(await stage.commit(BASE), id="r")
        private = top / "private"
        for inner in ("home", "tmp"):
            (private / inner).mkdir(parents=True)
        os.mkfifo(private / "gate")
        first = Job(id="first", argv=("/bin/sh", "-c", "cat /run/resolvent/gate; echo first > who"))
        second = Job(id="second", argv=("/bin/sh", "-c", "echo second > who"))
        first, second = [await workspace.enter(branch, job, private=str(private)) for job in (first, second)]
        running = asyncio.create_task(jobs.ensure(first))
        gate = await asyncio.to_thread(os.open, private / "gate", os.O_WRONLY)
        with pytest.raises(BranchBusy, match="another job runs in this branch"):
            await jobs.ensure(second)
        with pytest.raises(BranchBusy):
            await workspace.delete("r")
        os.close(gate)
        assert (await running).exit == 0
        assert await workspace.read(branch, "who") == b"first\n"
        await workspace.drop("r")


# What a power loss leaves.


async def test_a_copy_is_on_the_disk_before_it_has_its_name(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[set[str]] = []

    def flush(made: Path) -> None:
        assert not (stage.state / "branches").is_dir() or not list((stage.state / "branches").iterdir())
        flushed.append({entry.name for entry in made.iterdir()})

    monkeypatch.setattr(copy, "flush", flush)
    branch = await stage.workspace.root(base, id="r")
    assert flushed == [{"work", "branch.json"}] and place(stage, branch).is_dir()


@pytest.mark.parametrize("left", [b"", b"\0\0\0", b'{"id": "r"}', None])
async def test_a_branch_that_was_never_whole_is_made_anew(stage: Stage, base: Change, left: bytes | None) -> None:
    branch = await stage.workspace.root(base, id="r")
    (place(stage, branch) / "work/README.md").write_bytes(b"")
    if left is None:
        (place(stage, branch) / "branch.json").unlink()
    else:
        (place(stage, branch) / "branch.json").write_bytes(left)
    other = await stage.workspace.root(base, id="other")
    assert [kept.branch for kept in await stage.workspace.kept()] == [other]
    assert await stage.workspace.root(base, id="r") == branch
    assert await stage.workspace.read(branch, "README.md") == b"hello\n"


async def test_a_branch_whose_note_is_torn_is_not_made_anew_over_what_a_job_left(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(branch, lambda work: (work / "new.py").write_text("new"))
    (place(stage, branch) / "branch.json").write_bytes(b"")
    for refused in (stage.workspace.root(base, id="r"), stage.workspace.delete("r"), stage.workspace.snapshot(branch)):
        with pytest.raises(JobLost, match="torn") as caught:
            await refused
        assert str(place(stage, branch)) in caught.value.hint
    assert (place(stage, branch) / "work/new.py").read_text() == "new"
    await stage.workspace.drop("r")
    assert await stage.workspace.root(base, id="r") == branch


async def test_notes_are_there_wholly_or_not_at_all(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = await stage.workspace.root(base, id="r")
    first = await stage.entered(branch, id="first")
    before = {entry.name for entry in place(stage, branch).iterdir()}

    def died(path: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "replace", died)
        on(stage)._copies.note("r", "job", "second")
    assert on(stage)._copies.noted("r", "job") == first.id
    assert {entry.name for entry in place(stage, branch).iterdir()} == before


# What copies take.


async def test_a_file_of_many_names_is_one_in_a_fork_too(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")

    def leave(work: Path) -> None:
        (work / "large").write_bytes(os.urandom(1 << 20))
        deep = work / "/".join(["d" * 200] * 30)
        here = os.open(work, os.O_RDONLY)
        for part in deep.relative_to(work).parts:
            os.mkdir(part, dir_fd=here)
            below = os.open(part, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.link(work / "large", "deep", dst_dir_fd=here)
        os.close(here)
        for number in range(50):
            os.link(work / "large", work / f"{number}")
        os.link(work / "README.md", work / "src/second")

    await stage.inside(parent, leave)
    child = await stage.workspace.fork(parent, id="child")
    work = on(stage).path(child)
    assert {(work / name).stat().st_ino for name in ("large", "0", "49")} == {(work / "large").stat().st_ino}
    assert (work / "large").stat().st_nlink == 52
    assert (work / "large").stat().st_ino != (on(stage).path(parent) / "large").stat().st_ino
    assert os.path.samefile(work / "README.md", work / "src/second")
    assert {name for name in os.listdir(work) if name.startswith(".")} == {".git"}
    assert (work / "7").read_bytes() == (on(stage).path(parent) / "large").read_bytes()


async def test_a_file_of_more_names_than_the_disk_allows_is_copied_again(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, lambda work: [os.link(work / "README.md", work / f"{number}") for number in range(9)])
    real = os.link

    def few(source: str, target: str, **more: Any) -> None:
        if os.stat(source, dir_fd=more["src_dir_fd"]).st_nlink >= 4:
            raise OSError(31, "Too many links")
        real(source, target, **more)

    monkeypatch.setattr(os, "link", few)
    child = await stage.workspace.fork(parent, id="child")
    monkeypatch.undo()
    work = on(stage).path(child)
    assert all((work / str(number)).read_text() == "hello\n" for number in range(9))
    assert 3 <= len({(work / name).stat().st_ino for name in ("README.md", *map(str, range(9)))}) <= 4


def laid_out(stage: Stage) -> set[str]:
    found = [set(os.listdir(stage.state / name)) for name in ("trees", "indexes")]
    return found[0] | found[1]


def age(stage: Stage) -> None:
    then = time.time() - 2 * UNUSED_S
    for name in ("trees", "indexes"):
        for entry in (stage.state / name).iterdir():
            os.utime(entry, (then, then))


async def test_trees_that_no_branch_is_at_go_after_a_while(stage: Stage, base: Change) -> None:
    other = await stage.commit({"other": text("x")})
    used = await stage.workspace.root(base, id="used")
    for id in ("one", "two"):
        await stage.workspace.root(other, id=id)
    await stage.workspace.drop("one")
    assert laid_out(stage) == {base.commit, other.commit}
    age(stage)
    await stage.workspace.drop("two")
    assert laid_out(stage) == {base.commit}
    assert await stage.workspace.root(other, id="again")
    age(stage)
    assert await stage.workspace.root(other, id="asked for")
    for id in ("again", "asked for"):
        await stage.workspace.drop(id)
    assert laid_out(stage) == {base.commit, other.commit}
    assert await stage.workspace.export(used, message="m", at=1) is None


async def test_a_tree_is_not_removed_while_somebody_copies_it(stage: Stage, base: Change) -> None:
    await stage.workspace.root(base, id="r")
    with on(stage)._sealed.files(base.commit) as files:
        age(stage)
        await stage.workspace.drop("r")
        assert (files / "README.md").exists()
    await stage.workspace.root(await stage.commit({"other": text("x")}), id="other")
    age(stage)
    await stage.workspace.drop("other")
    assert laid_out(stage) == set()


async def test_an_export_lays_no_tree_out(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="r")
    await stage.inside(parent, lambda work: (work / "new.py").write_text("new"))
    change = await stage.workspace.export(parent, message="m", at=1)
    assert change
    child = await stage.workspace.fork(parent.model_copy(update={"commit": change.commit}), id="child")
    assert await stage.workspace.export(child, message="m", at=1) is None
    assert os.listdir(stage.state / "trees") == [base.commit]
