"""What becomes of branches nobody needs any more: rescued, removed, collected; and of those that grew too deep."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.workspace_stage import BWRAP, Stage, staged, text

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace import layer_store, overlay
from resolvent.adapters.workspace.confine import Walls, furnish
from resolvent.adapters.workspace.housekeeping import Housekeeping
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.adapters.workspace.overlay import DEEP, OverlayWorkspace
from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch, Job
from resolvent.errors import BranchBusy, ExportRefused, NotFound, StoreBusy

BASE = {"README.md": text("hello\n"), "src/app.py": text("app\n"), ".gitignore": text("build/\n")}
MB = 1 << 20


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await staged("overlay", tmp_path)
    yield stage
    await on(stage).close()


@pytest.fixture
async def base(stage: Stage) -> Change:
    return await stage.commit(BASE)


def on(stage: Stage) -> OverlayWorkspace:
    assert isinstance(stage.workspace, OverlayWorkspace)
    return stage.workspace


def housekeeping(stage: Stage) -> Housekeeping:
    return Housekeeping(on(stage))


async def worked(stage: Stage, branch: Branch, name: str = "new.py", content: str = "new") -> Branch:
    """The branch after a job wrote one file."""
    (await stage.place(branch) / name).write_text(content)
    return branch


async def ref(stage: Stage, name: str | None) -> Change:
    assert name is not None
    return await stage.repository.change(name)


async def refs(stage: Stage) -> list[str]:
    return (await stage.git("for-each-ref", "--format=%(refname)")).decode().split()


def age(stage: Stage, id: str, seconds: float) -> None:
    """Let a branch be as if nobody had used it for so long."""
    with sqlite3.connect(stage.state / "sandbox/branches.db") as record:
        record.execute("UPDATE branches SET updated_at = ? WHERE id = ?", (time.time() - seconds, id))


def own_layers(stage: Stage) -> set[str]:
    return {name for name in on(stage).store.layers.names() if "-" not in name}


# Rescue.


@pytest.mark.spec("B10")
async def test_work_that_nobody_published_is_kept_under_a_ref_when_its_branch_is_deleted(
    stage: Stage, base: Change
) -> None:
    branch = await worked(stage, await stage.workspace.root(base, id="a/b: 'c'"))
    kept = await ref(stage, await stage.workspace.delete(branch.id))
    held = await stage.tree(kept)
    assert held[b"new.py"] == text("new") and held.keys() == {b"new.py", *map(os.fsencode, BASE)}
    assert (await stage.git("rev-parse", f"{kept.commit}^")).decode().strip() == base.commit
    assert await stage.workspace.kept() == () and own_layers(stage) == set()
    assert await stage.workspace.delete(branch.id) is None


async def test_work_of_two_branches_that_had_one_id_in_turn_is_kept_twice(stage: Stage, base: Change) -> None:
    id = "\ud800 'quoted'\n\0" + "x" * 3000
    names = []
    for name in ("one.py", "two.py", "two.py"):
        await worked(stage, await stage.workspace.root(base, id=id), name)
        names.append(await stage.workspace.delete(id))
    first, second, *_ = names
    assert first != second and sorted(await refs(stage)) == sorted(set(map(str, names)))
    assert b"one.py" in await stage.tree(await ref(stage, first))
    assert b"two.py" in await stage.tree(await ref(stage, second))


async def test_a_branch_without_work_leaves_no_ref(stage: Stage, base: Change) -> None:
    root = await stage.workspace.root(base, id="root")
    fork = await stage.workspace.fork(root, id="fork")
    ignoring = await stage.workspace.root(base, id="ignoring")
    (await stage.place(ignoring) / "build").mkdir()
    (await stage.place(ignoring) / "build/out.o").write_text("x")
    same = await worked(stage, await stage.workspace.root(base, id="same"), "README.md", "hello\n")
    for branch in (fork, root, ignoring, same):
        assert await stage.workspace.delete(branch.id) is None
    assert await refs(stage) == []


async def test_work_that_the_parent_still_holds_is_not_kept_twice(stage: Stage, base: Change) -> None:
    parent = await worked(stage, await stage.workspace.root(base, id="parent"))
    child = await stage.workspace.fork(parent, id="child")
    assert await stage.workspace.delete(child.id) is None
    assert (await stage.workspace.read(parent, "new.py")) == b"new"
    again = await stage.workspace.fork(parent, id="again")
    kept = await stage.workspace.delete(parent.id)
    assert await stage.workspace.read(again, "new.py") == b"new"
    assert (await ref(stage, await stage.workspace.delete(again.id))).tree == (await ref(stage, kept)).tree


async def test_the_exported_commit_itself_is_kept_unless_it_is_published(stage: Stage, base: Change) -> None:
    branch = await worked(stage, await stage.workspace.root(base, id="one"))
    change = await stage.workspace.export(branch, message="the engine's words", at=1)
    assert change
    await stage.git("update-ref", "refs/heads/published", change.commit)
    assert await stage.workspace.delete("one") is None
    other = await worked(stage, await stage.workspace.root(base, id="two"), "other.py")
    exported = await stage.workspace.export(other, message="the engine's words", at=1)
    assert await ref(stage, await stage.workspace.delete("two")) == exported
    third = await worked(stage, await stage.workspace.root(base, id="three"), "third.py")
    await stage.workspace.export(third, message="m", at=1)
    await worked(stage, third, "later.py")
    assert b"later.py" in await stage.tree(await ref(stage, await stage.workspace.delete("three")))


async def test_a_fork_of_a_commit_nobody_published_keeps_that_commit(stage: Stage, base: Change) -> None:
    parent = await worked(stage, await stage.workspace.root(base, id="parent"))
    change = await stage.workspace.export(parent, message="m", at=1)
    assert change
    child = await stage.workspace.fork(parent.model_copy(update={"commit": change.commit}), id="child")
    await stage.workspace.drop("parent")
    assert await ref(stage, await stage.workspace.delete(child.id)) == change


async def test_whoever_knows_what_was_published_is_asked(tmp_path: Path) -> None:
    stage = await staged("overlay", tmp_path)
    asked: list[str] = []

    async def published(commit: str) -> bool:
        asked.append(commit)
        return True

    store = on(stage).store
    stage.workspace = OverlayWorkspace(stage.state, store, walls=Walls(kind="namespaces"), published=published)
    branch = await worked(stage, await stage.workspace.root(await stage.commit(BASE), id="a"))
    change = await stage.workspace.export(branch, message="m", at=1)
    assert await stage.workspace.delete("a") is None and change and asked == [change.commit]
    await store.close()


@pytest.mark.spec("B10")
async def test_what_cannot_become_a_commit_is_not_thrown_away_unless_it_is_dropped(stage: Stage, base: Change) -> None:
    branch = await worked(stage, await stage.workspace.root(base, id="a"), "GIT~1")
    with pytest.raises(ExportRefused):
        await stage.workspace.delete("a")
    done = await housekeeping(stage).tidy(keep=0, quota=None)
    assert done.removed == [] and "GIT~1" in done.refused["a"]
    assert await stage.workspace.read(branch, "GIT~1") == b"new"
    await stage.workspace.drop("a")
    assert await stage.workspace.kept() == ()


async def test_a_deletion_that_died_after_the_ref_is_asked_again(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = await worked(stage, await stage.workspace.root(base, id="a"))

    async def full(*ids: str, **more: object) -> None:
        raise StoreBusy("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(on(stage).store, "delete", full)
        with pytest.raises(StoreBusy):
            await stage.workspace.delete(branch.id)
    (first,) = await refs(stage)
    kept = await ref(stage, first)
    assert await stage.workspace.delete(branch.id) == first and (await ref(stage, first)).tree == kept.tree


async def test_a_branch_in_use_is_neither_deleted_nor_dropped(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="a")
    job = await stage.entered(branch)
    stage.running.add(job.id)
    for refused in (stage.workspace.delete("a"), stage.workspace.drop("a")):
        with pytest.raises(BranchBusy):
            await refused
    done = await housekeeping(stage).tidy(keep=0, quota=0)
    assert (done.removed, done.refused) == ([], {}) and done.over > 0
    assert [one.busy for one in await stage.workspace.kept()] == [True]


# Age and quota.


async def test_branches_nobody_used_for_long_are_removed_and_their_work_is_kept(stage: Stage, base: Change) -> None:
    for id in ("old", "pinned", "young"):
        await worked(stage, await stage.workspace.root(base, id=id), f"{id}.py", id)
    age(stage, "old", 1000)
    age(stage, "pinned", 1000)
    done = await housekeeping(stage).tidy(keep=500, quota=None, pins={"pinned"})
    assert done.removed == ["old"] and done.refused == {} and done.freed > 0 and len(done.layers) == 1
    assert b"old.py" in await stage.tree(await ref(stage, done.rescued["old"]))
    assert [one.branch.id for one in await stage.workspace.kept()] == ["pinned", "young"]
    assert len(own_layers(stage)) == 2


async def test_a_branch_that_somebody_used_since_it_was_found_too_old_stays(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = await worked(stage, await stage.workspace.root(base, id="a"))
    age(stage, "a", 1000)
    real = on(stage).delete

    async def late(branch_id: str, **more: Any) -> str | None:
        await worked(stage, branch, "late.py")
        return await real(branch_id, **more)

    monkeypatch.setattr(on(stage), "delete", late)
    done = await housekeeping(stage).tidy(keep=500, quota=None)
    assert done.removed == [] and "somebody else uses" in done.refused["a"]
    assert await stage.workspace.read(branch, "late.py") == b"new"


async def test_over_the_quota_the_oldest_branches_go_until_the_rest_fits(stage: Stage, base: Change) -> None:
    for number, id in enumerate("abcd"):
        await worked(stage, await stage.workspace.root(base, id=id), "large.bin", id * MB)
        age(stage, id, 1000 - number)
    fresh = await stage.workspace.root(base, id="fresh")
    age(stage, "fresh", 5000)
    before = await housekeeping(stage).tidy(keep=None, quota=100 * MB)
    assert before.removed == [] and before.over == 0
    done = await housekeeping(stage).tidy(keep=None, quota=int(2.9 * MB), pins={"a"})
    # The one that takes no place stays, for its removal would help nobody; the pinned one stays though it is older.
    assert done.removed == ["b", "c"] and set(done.rescued) == {"b", "c"} and done.over == 0
    assert 2 * MB <= done.freed < 3 * MB
    assert (await stage.tree(await ref(stage, done.rescued["b"])))[b"large.bin"] == text("b" * MB)
    assert await stage.workspace.read(fresh, "README.md") == b"hello\n"


async def test_where_the_oldest_branch_cannot_be_kept_others_go_for_the_quota(stage: Stage, base: Change) -> None:
    for number, id in enumerate("abc"):
        await worked(stage, await stage.workspace.root(base, id=id), "large.bin", id * MB)
        age(stage, id, 1000 - number)
    await stage.inside(Branch(id="a", parent=None, commit=base.commit), lambda work: (work / "GIT~1").touch())
    age(stage, "a", 2000)
    done = await housekeeping(stage).tidy(keep=None, quota=int(2.9 * MB))
    assert list(done.refused) == ["a"] and done.removed == ["b"] and done.over == 0
    done = await housekeeping(stage).tidy(keep=None, quota=0)
    assert list(done.refused) == ["a"] and done.removed == ["c"] and done.over >= MB
    assert await stage.workspace.read(Branch(id="a", parent=None, commit=base.commit), "large.bin")


async def test_what_cannot_be_brought_below_the_quota_is_said(stage: Stage, base: Change) -> None:
    await worked(stage, await stage.workspace.root(base, id="a"), "large.bin", "a" * MB)
    done = await housekeeping(stage).tidy(keep=None, quota=MB // 2, pins={"a"})
    assert done.removed == [] and MB // 2 <= done.over < MB


async def test_a_branch_whose_layers_others_stand_on_is_spared_by_the_quota(stage: Stage, base: Change) -> None:
    parent = await worked(stage, await stage.workspace.root(base, id="parent"), "large.bin", "a" * MB)
    child = await stage.workspace.fork(parent, id="child")
    age(stage, "parent", 1000)
    done = await housekeeping(stage).tidy(keep=None, quota=MB // 2, pins={"child"})
    assert done.removed == [] and done.over > 0
    assert len(await stage.workspace.read(child, "large.bin")) == MB
    done = await housekeeping(stage).tidy(keep=None, quota=MB // 2)
    assert done.removed == ["parent", "child"] and done.over == 0 and done.freed >= MB


async def test_a_layer_that_was_made_while_others_were_measured_is_measured_again(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = await stage.workspace.root(base, id="a")
    real, seen = on(stage).store.all, []

    async def late() -> Any:
        every = await real()
        # Just after somebody looked who stands on what: a job is let in, and has written nothing yet.
        if not seen:
            seen.append(await stage.place(branch))
        return every

    with monkeypatch.context() as patched:
        patched.setattr(on(stage).store, "all", late)
        await housekeeping(stage)._sizes()
    (seen[0] / "large.bin").write_bytes(bytes(2 * MB))
    done = await housekeeping(stage).tidy(keep=None, quota=MB, pins={"a"})
    assert done.over >= MB


# Collection.


@pytest.mark.spec("B8")
async def test_what_a_crash_left_is_collected_and_nothing_else(stage: Stage, base: Change) -> None:
    branch = await worked(stage, await stage.workspace.root(base, id="a"))
    fork = await stage.workspace.fork(branch, id="b")
    sandbox = stage.state / "sandbox"
    (sandbox / "layers/0123456789ab/up/d").mkdir(parents=True)
    (sandbox / "layers/0123456789ab/up/d/f").write_bytes(bytes(MB))
    (sandbox / "layers/0123456789ab/up/d").chmod(0)
    for place in ("trash", "scratch"):
        # Named as if it belonged to a process that lives: whose it is, its lock alone tells.
        (sandbox / place / f"{os.getpid()}-left/x").mkdir(parents=True)
    await stage.workspace.export(fork, message="m", at=1)
    await stage.workspace.drop("b")
    (sandbox / "skipped/gone").write_text("[]")
    before = set(on(stage).store.layers.names())
    done = await housekeeping(stage).collect()
    assert done.layers == ["0123456789ab"] and done.freed >= MB
    assert before - set(on(stage).store.layers.names()) == {"0123456789ab"}
    assert list((sandbox / "trash").iterdir()) == list((sandbox / "scratch").iterdir()) == []
    assert list((sandbox / "skipped").iterdir()) == []
    assert await stage.workspace.read(branch, "new.py") == b"new"
    assert (await housekeeping(stage).collect()).layers == []


async def test_layers_go_once_the_last_branch_on_them_is_gone(stage: Stage, base: Change) -> None:
    parent = await worked(stage, await stage.workspace.root(base, id="parent"))
    child = await worked(stage, await stage.workspace.fork(parent, id="child"), "child.py")
    await stage.workspace.drop("parent")
    assert (await housekeeping(stage).collect()).layers == []
    assert set(await stage.files(child)) == {b"new.py", b"child.py", *map(os.fsencode, BASE)}
    await stage.workspace.drop("child")
    assert len((await housekeeping(stage).collect()).layers) == 1 and own_layers(stage) == set()


async def test_commits_nobody_asked_for_lately_are_forgotten_but_not_those_in_use(stage: Stage, base: Change) -> None:
    used = await stage.workspace.root(base, id="used")
    gone = await stage.commit({"other": text("x"), "and": text("y")})
    await stage.workspace.root(gone, id="gone")
    await stage.workspace.drop("gone")
    newest = await stage.commit({"something": text("else"), "third": text("z")})
    await stage.workspace.root(newest, id="newest")
    await stage.workspace.drop("newest")
    layers = stage.state / "sandbox/layers"
    assert (await housekeeping(stage).collect()).layers == []
    for number, commit in enumerate((gone, base, newest)):
        then = time.time() - 200_000 + number
        os.utime(stage.state / "sandbox/bases" / commit.commit, (then, then))
        for layer in layers.glob(f"*-{commit.commit}-*"):
            os.utime(layer, (then, then))
    removed = (await housekeeping(stage).collect()).layers
    assert len(removed) == 2 and all(gone.commit in name for name in removed)
    assert await stage.files(used)
    again = await stage.workspace.root(gone, id="gone")
    assert set(await stage.files(again)) == {b"other", b"and"}


async def test_branches_made_while_others_collect_lose_nothing(stage: Stage, base: Change) -> None:
    root = await stage.workspace.root(base, id="root")
    over, parent = asyncio.Event(), root
    collecting = asyncio.create_task(collect_until(over, stage))
    for number in range(12):
        parent = await stage.workspace.fork(parent, id=f"{number}")
        await worked(stage, parent, f"{number}.py")
        if number % 3 == 2:
            await stage.workspace.delete(f"{number - 1}")
    over.set()
    assert await collecting > 1
    held = await stage.files(await stage.workspace.fork(parent, id="last"))
    assert {os.fsencode(f"{number}.py") for number in range(12)} <= held.keys()


async def collect_until(over: asyncio.Event, stage: Stage) -> int:
    """How often it was collected; whatever goes wrong in it is raised to who waits for this."""
    times = 0
    while not over.is_set():
        await housekeeping(stage).collect()
        times += 1
    return times


# Depth.


async def deep(stage: Stage, base: Change, *, depth: int) -> Branch:
    """A fork of a fork of a fork…, each with a file of its own, and the first one's file removed by the last."""
    branch = await stage.workspace.root(base, id="0")
    for number in range(depth):
        branch = await worked(
            stage, await stage.workspace.fork(branch, id=f"{number + 1}"), f"{number}.py", f"{number}"
        )
    return branch


async def depth_of(stage: Stage, id: str) -> int:
    return len((await on(stage).store.require(id)).shown)


@pytest.mark.spec("B7")
async def test_a_fork_looks_at_nothing_of_the_tree_below_it(stage: Stage, base: Change) -> None:
    parent = await deep(stage, base, depth=5)
    await stage.workspace.fork(parent, id="first")
    store = on(stage).store
    trees = [store.layers.up(layer) for layer in (await store.require(parent.id)).shown]
    for tree in trees:
        tree.rename(tree.with_name("away"))
        tree.mkdir()
    # That a layer is there is all that it asks, so it takes as long whatever is in it.
    child = await stage.workspace.fork(parent, id="child")
    for tree in trees:
        tree.rmdir()
        tree.with_name("away").rename(tree)
    assert len(trees) >= 6 and await stage.files(child) == await stage.files(parent)


@pytest.mark.spec("B7")
async def test_a_stack_past_64_is_put_together_into_one_layer_that_shows_the_same(stage: Stage, base: Change) -> None:
    branch = await deep(stage, base, depth=DEEP - 2)
    assert await depth_of(stage, branch.id) == DEEP
    await stage.inside(branch, lambda work: [shutil.rmtree(work / "src"), (work / "7.py").unlink()])
    await stage.inside(branch, lambda work: (work / ".git/planted").write_text("x"))
    before = await stage.files(branch)
    change = await stage.workspace.export(branch, message="m", at=1)
    child = await stage.workspace.fork(branch, id="child")
    assert await depth_of(stage, "child") == 3 and await depth_of(stage, branch.id) == 2
    for _ in range(2):
        assert await stage.files(child) == before == await stage.files(branch)
        assert await stage.workspace.export(child, message="m", at=1) == change
        assert await stage.workspace.export(branch, message="m", at=1) == change
        await housekeeping(stage).collect()
    assert not await stage.inside(child, lambda work: (work / ".git/planted").exists())
    assert await stage.inside(branch, lambda work: (work / ".git/planted").exists())
    for number in range(DEEP - 1):
        await stage.workspace.drop(str(number)) if str(number) != branch.id else None
    assert len((await housekeeping(stage).collect()).layers) >= DEEP - 4
    assert await stage.files(child) == before == await stage.files(branch)


async def test_a_long_conversation_in_one_branch_stays_shallow(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="talk")
    for number in range(DEEP + 10):
        await worked(stage, branch, f"{number}.py")
        await stage.workspace.snapshot(branch)
    assert await depth_of(stage, "talk") < DEEP
    await housekeeping(stage).collect()
    held = await stage.files(branch)
    assert {os.fsencode(f"{number}.py") for number in range(DEEP + 10)} <= held.keys()


async def test_a_deep_parent_in_use_is_forked_as_it_is(stage: Stage, base: Change) -> None:
    branch = await deep(stage, base, depth=DEEP)
    await stage.workspace.snapshot(branch)
    await worked(stage, branch, "now.py")
    stage.running.add((await on(stage).store.require(branch.id)).job)
    before = await depth_of(stage, branch.id)
    child = await stage.workspace.fork(branch, id="child")
    assert await depth_of(stage, branch.id) == before
    assert f"{DEEP - 1}.py".encode() in await stage.files(child) and b"now.py" not in await stage.files(child)


async def test_an_export_while_its_layers_are_replaced_and_collected_is_still_whole(
    stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = await deep(stage, base, depth=5)
    expected = await stage.workspace.export(branch, message="m", at=1)
    workspace, loop, times = on(stage), asyncio.get_running_loop(), []
    for number in range(5):
        await workspace.drop(str(number))

    async def replaced() -> None:
        await workspace._flatten(await workspace.store.require(branch.id))
        await Housekeeping(workspace).collect()

    def late(*args: Any, **more: Any) -> Any:
        times.append(args)
        if len(times) == 1:
            asyncio.run_coroutine_threadsafe(replaced(), loop).result()
        return real(*args, **more)

    real = overlay.export
    monkeypatch.setattr(overlay, "export", late)
    assert await workspace.export(branch, message="m", at=1) == expected and len(times) == 2


# Real jobs, wherever the state may lie.


async def with_real_jobs(stage: Stage) -> tuple[OverlayWorkspace, SupervisedJobs, str]:
    """The stage's workspace anew, over jobs that really run; and a private directory for one."""
    await on(stage).close()
    state, user = stage.state, jobs_user(stage.state)
    jobs = SupervisedJobs(state / "jobs")
    etc = furnish(state / "sandbox", user=user or os.getuid())
    walls = Walls(kind="namespaces", bwrap=BWRAP, user=user, etc=etc)
    workspace = await OverlayWorkspace.open(state, sandbox=state / "sandbox", walls=walls, running=jobs.running)
    stage.workspace = workspace
    for inner in ("home", "tmp"):
        (state / "private" / inner).mkdir(parents=True)
    return workspace, jobs, str(state / "private")


async def test_a_job_that_comes_after_its_branch_was_sealed_writes_nowhere_until_it_is_let_in_again(
    stage: Stage, base: Change
) -> None:
    workspace, jobs, private = await with_real_jobs(stage)
    branch = await workspace.root(base, id="a")
    late = await workspace.enter(branch, Job(id="late", argv=("touch", "late.txt")), private=private)
    child = await workspace.fork(branch, id="b")
    with pytest.raises(BranchBusy, match="sealed after the job was let in"):
        await jobs.ensure(late)
    await on_time(workspace, jobs, branch, private=private)
    assert {one.branch.id: one.busy for one in await workspace.kept()} == {"a": False, "b": False}
    assert await workspace.read(branch, "on-time.txt") == b""
    for place, name in ((branch, "late.txt"), (child, "late.txt"), (child, "on-time.txt")):
        with pytest.raises(NotFound):
            await workspace.read(place, name)
    late = await workspace.enter(branch, Job(id="late", argv=("touch", "late.txt")), private=private)
    assert (await jobs.ensure(late)).exit == 0
    assert await workspace.read(branch, "late.txt") == b""


async def on_time(workspace: OverlayWorkspace, jobs: SupervisedJobs, branch: Branch, *, private: str) -> None:
    job = Job(id="on-time", argv=("touch", "on-time.txt"))
    exit = await jobs.ensure(await workspace.enter(branch, job, private=private))
    assert exit.exit == 0, jobs.output(job.id).read_text()


async def test_a_branch_is_busy_for_as_long_as_its_job_runs(stage: Stage, base: Change) -> None:
    workspace, jobs, private = await with_real_jobs(stage)
    branch = await workspace.root(base, id="a")
    # It ends when the host says so: nobody waits for a fixed time.
    os.mkfifo(Path(private) / "gate")
    waits = Job(
        id="waits", argv=("/bin/sh", "-c", "echo early > left.txt; cat /run/resolvent/gate; echo done > left.txt")
    )
    waits = await workspace.enter(branch, waits, private=private)
    running = asyncio.create_task(jobs.ensure(waits))
    gate = await asyncio.to_thread(os.open, Path(private) / "gate", os.O_WRONLY)
    assert await workspace.enter(branch, Job(id="waits", argv=("true",)), private=private)
    for refused in (
        workspace.enter(branch, Job(id="other", argv=("true",)), private=private),
        workspace.snapshot(branch),
        workspace.delete("a"),
    ):
        with pytest.raises(BranchBusy, match="waits"):
            await refused
    child = await workspace.fork(branch, id="b")
    with pytest.raises(NotFound):
        await workspace.read(child, "left.txt")
    os.close(gate)
    assert (await running).exit == 0
    await workspace.snapshot(branch)
    assert await workspace.read(await workspace.fork(branch, id="c"), "left.txt") == b"done\n"


@pytest.fixture(params=["disk", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "disk":
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.mark.parametrize("name", [b"sp ace", b"quo'te\"", b"new\nline", b"\xff\xfe", b"a:b,c"])
async def test_a_branch_lives_its_whole_life_wherever_the_state_lies(anywhere: Path, name: bytes) -> None:
    directory = anywhere / os.fsdecode(name)
    directory.mkdir()
    stage = await staged("overlay", directory)
    workspace, jobs, private = await with_real_jobs(stage)
    base = await stage.commit(BASE)
    branch = await workspace.root(base, id="a")
    await workspace.lay(
        branch, [File(path="laid.sh", text="#!/bin/sh\ncat README.md src/app.py > left.txt\n")], base=base
    )
    job = Job(id="one", argv=("/bin/sh", "-c", "./laid.sh && rm -r src && git status --porcelain"))
    exit = await jobs.ensure(await workspace.enter(branch, job, private=private))
    said = jobs.output("one").read_text()
    assert exit.exit == 0, said
    assert said.splitlines() == [" D src/app.py", "?? laid.sh", "?? left.txt"]
    await workspace.snapshot(branch)
    child = await workspace.fork(branch, id="b")
    assert await workspace.read(child, "left.txt") == b"hello\napp\n"
    change = await workspace.export(child, message="m", at=1)
    assert change and set(await stage.tree(change)) == {b"README.md", b".gitignore", b"laid.sh", b"left.txt"}
    assert await workspace.delete("b") is None and await ref(stage, await workspace.delete("a"))
    assert own_layers(stage) == set()
    await workspace.close()


def test_a_directory_that_becomes_a_link_while_it_is_measured_stops_no_housekeeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layer/up").mkdir(parents=True)
    (tmp_path / "layer/file").write_bytes(bytes(MB))
    real = layer_store.open_directory

    def opened(name: bytes | Path, *, at: int | None = None) -> int:
        # As a job does that is at work in there.
        if name == b"up":
            (tmp_path / "layer/up").rmdir()
            (tmp_path / "layer/up").symlink_to("/")
        return real(name, at=at)

    monkeypatch.setattr(layer_store, "open_directory", opened)
    assert MB <= layer_store.measure(tmp_path / "layer") < 2 * MB
