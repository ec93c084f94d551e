"""The workspace port as jobs see it: one at a time in a branch, what they leave is kept, and none of it is lost."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

import pytest
from tests.contract.boxed import emptied_later
from tests.contract.workspace_stage import ADAPTERS, BWRAP, Stage, link, staged, text

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace import boots
from resolvent.adapters.workspace.confine import PRIVATE, Walls, furnish
from resolvent.adapters.workspace.copy import CopyWorkspace
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.domain.change import Change, File
from resolvent.domain.job import Job
from resolvent.errors import BranchBusy, ExportRefused, JobLost, NoSandbox, NotFound
from resolvent.ports import Workspace

BASE = {"README.md": text("hello\n"), "src/app.py": text("print('app')\n"), ".gitignore": text("build/\n")}


@pytest.fixture(params=ADAPTERS)
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await staged(request.param, tmp_path)
    yield stage
    await stage.close()


@pytest.fixture
async def base(stage: Stage) -> Change:
    return await stage.commit(BASE)


def writing(name: str, content: str = "new") -> Callable[[Path], int]:
    return lambda work: (work / name).write_text(content)


async def test_a_job_occupies_its_branch_until_it_ended(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    laid = [File(path="laid", text="laid")]
    await stage.workspace.lay(branch, laid, base=base)
    first = await stage.entered(branch, id="first")
    stage.running.add("first")
    assert await stage.entered(branch, id="first") == first
    with pytest.raises(BranchBusy, match="first") as caught:
        await stage.entered(branch, id="second")
    assert caught.value.hint
    for refused in (
        stage.workspace.snapshot(branch),
        stage.workspace.drop(branch.id),
        stage.workspace.delete(branch.id),
        stage.workspace.lay(branch, [File(path="other", text="x")], base=base),
    ):
        with pytest.raises(BranchBusy):
            await refused
    # What was laid is there already.
    await stage.workspace.lay(branch, laid, base=base)
    assert [(kept.job, kept.busy) for kept in await stage.workspace.kept()] == [("first", True)]
    stage.running.clear()
    assert (await stage.entered(branch, id="second")).id == "second"
    assert [(kept.job, kept.busy) for kept in await stage.workspace.kept()] == [("second", False)]
    assert set(await stage.files(branch)) == {*map(os.fsencode, BASE), b"laid"}


async def test_two_workspaces_over_one_store_know_of_each_others_jobs(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.entered(branch, id="first")
    other = await stage.again()
    other.running.add("first")
    with pytest.raises(BranchBusy):
        await other.entered(branch, id="second")
    await other.close()


async def test_a_branch_that_is_not_there_cannot_be_used(stage: Stage, base: Change) -> None:
    gone = await stage.workspace.root(base, id="r")
    await stage.workspace.drop("r")
    for refused in (stage.entered(gone), stage.workspace.snapshot(gone), stage.workspace.read(gone, "README.md")):
        with pytest.raises(NotFound):
            await refused
    with pytest.raises(ExportRefused):
        await stage.workspace.export(gone, message="m", at=1)
    assert await stage.workspace.delete("r") is None
    assert await stage.workspace.kept() == ()


async def test_what_a_snapshot_sealed_is_what_children_have(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.workspace.snapshot(branch)
    await stage.inside(branch, writing("first", "1"))
    await stage.workspace.snapshot(branch)
    await stage.workspace.snapshot(branch)
    child = await stage.workspace.fork(branch, id="child")
    await stage.inside(branch, lambda work: ((work / "first").unlink(), (work / "second").write_text("2")))
    assert (await stage.files(child))[b"first"] == text("1")
    assert b"first" not in await stage.files(branch)
    assert set(await stage.files(await stage.workspace.fork(branch, id="later"))) == {
        *map(os.fsencode, BASE),
        b"second",
    }


async def test_what_no_snapshot_sealed_before_the_machine_went_down_becomes_no_commit(
    stage: Stage, base: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, torn = [await stage.workspace.root(base, id=id) for id in ("kept", "torn")]
    for branch in (kept, torn):
        await stage.inside(branch, writing("new.py"))
    await stage.workspace.snapshot(kept)
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(boots, "BOOT_ID", tmp_path / "boot")
    after = await stage.again()
    for refused in (
        after.entered(torn),
        after.workspace.snapshot(torn),
        after.workspace.export(torn, message="m", at=1),
        after.workspace.fork(torn, id="child"),
        after.workspace.lay(torn, [File(path="laid", text="x")], base=base),
    ):
        with pytest.raises(JobLost, match="went down"):
            await refused
    assert await after.workspace.export(kept, message="m", at=1)
    assert b"new.py" in await after.files(await after.workspace.fork(kept, id="child"))
    # Whatever is left of it is for somebody to look at.
    assert await after.workspace.read(torn, "new.py") == b"new"
    ref = await after.workspace.delete(torn.id)
    assert ref and b"new.py" in await after.tree(await after.repository.change(ref))
    anew = await after.workspace.root(base, id=torn.id)
    assert set(await after.files(anew)) == set(map(os.fsencode, BASE))
    await after.workspace.drop(anew.id)
    await after.close()


async def test_a_branch_whose_layer_the_machine_took_along_can_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await staged("overlay", tmp_path)
    base = await stage.commit(BASE)
    for id in ("deleted", "dropped"):
        branch = await stage.workspace.root(base, id=id)
        shutil.rmtree((await stage.place(branch)).parent)
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(boots, "BOOT_ID", tmp_path / "boot")
    after = await stage.again()
    assert await after.workspace.delete("deleted") is None
    await after.workspace.drop("dropped")
    assert await after.workspace.kept() == ()
    await after.close()
    await stage.close()


async def test_a_file_is_read_as_the_branch_shows_it(stage: Stage, base: Change, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    branch = await stage.workspace.root(base, id="r")

    def leave(work: Path) -> None:
        (work / "README.md").unlink()
        (work / "src/app.py").write_bytes(b"\x00\xff")
        (work / os.fsdecode(b"odd\xff\n")).write_text("odd")
        (work / "link").symlink_to(tmp_path / "secret")
        (work / "way").symlink_to(tmp_path)
        (work / "build").mkdir()
        (work / "build/ignored").write_text("too")

    assert await stage.workspace.read(branch, "README.md") == b"hello\n"
    await stage.inside(branch, leave)
    child = await stage.workspace.fork(branch, id="child")
    for made in (branch, child):
        assert await stage.workspace.read(made, "src/app.py") == b"\x00\xff"
        assert await stage.workspace.read(made, os.fsdecode(b"odd\xff\n")) == b"odd"
        assert await stage.workspace.read(made, "build/ignored") == b"too"
        for path in ("README.md", "link", "way/secret", "src", "", ".", "..", "src/../../x", "/etc/passwd", "a\0b",
                     "\ud800", "src/app.py/x", "x" * 5000):  # fmt: skip
            with pytest.raises(NotFound):
                await stage.workspace.read(made, path)


async def test_all_branches_are_listed_oldest_first(stage: Stage, base: Change) -> None:
    first = await stage.workspace.root(base, id="z")
    second = await stage.workspace.fork(first, id="a")
    third = await stage.workspace.root(base, id="m")
    listed = await stage.workspace.kept()
    assert [kept.branch for kept in listed] == [first, second, third]
    assert all(0 < kept.created_at <= kept.updated_at for kept in listed)
    await stage.workspace.drop("a")
    assert [kept.branch for kept in await stage.workspace.kept()] == [first, third]


@pytest.mark.spec("B10")
async def test_a_deleted_branch_leaves_its_unpublished_work_under_a_ref(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="run/edit:fix@1")
    await stage.inside(branch, writing("precious.py", "precious"))
    place = await stage.place(branch)
    ref = await stage.workspace.delete(branch.id)
    assert ref and ref.startswith("refs/")
    kept = await stage.repository.change(ref)
    assert (await stage.tree(kept))[b"precious.py"] == text("precious")
    assert await stage.repository.changed_paths(base, kept) == ("precious.py",)
    assert not place.parent.exists() and await stage.workspace.kept() == ()


async def test_a_deleted_branch_without_work_of_its_own_leaves_nothing(stage: Stage, base: Change) -> None:
    root = await stage.workspace.root(base, id="root")
    await stage.inside(root, lambda work: ((work / "build").mkdir(), (work / "build/x").write_text("ignored")))
    assert await stage.workspace.delete(root.id) is None
    published = await stage.workspace.root(base, id="published")
    await stage.inside(published, writing("new.py"))
    change = await stage.workspace.export(published, message="m", at=1)
    assert change
    await stage.git("update-ref", "refs/heads/there", change.commit)
    assert await stage.workspace.delete(published.id) is None
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, writing("new.py"))
    child = await stage.workspace.fork(parent, id="child")
    assert await stage.workspace.delete(child.id) is None
    assert await stage.workspace.delete(parent.id)


async def test_work_that_only_a_child_still_has_is_kept(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, writing("new.py"))
    change = await stage.workspace.export(parent, message="m", at=1)
    assert change
    child = await stage.workspace.fork(parent.model_copy(update={"commit": change.commit}), id="child")
    await stage.workspace.drop(parent.id)
    ref = await stage.workspace.delete(child.id)
    assert ref and await stage.repository.change(ref) == change


async def test_work_that_the_parent_has_overwritten_is_kept(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, writing("new.py", "first"))
    children = [await stage.workspace.fork(parent, id=id) for id in ("one", "two")]
    await stage.inside(parent, writing("new.py", "second"))
    for child in children:
        ref = await stage.workspace.delete(child.id)
        assert ref and (await stage.tree(await stage.repository.change(ref)))[b"new.py"] == text("first")
        # What nobody wrote to since is sealed: it must not matter whether the parent is.
        await stage.workspace.snapshot(parent)


async def test_the_commit_of_a_fork_that_was_rebuilt_from_it_is_kept(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, writing("new.py"))
    change = await stage.workspace.export(parent, message="m", at=1)
    assert change
    await stage.workspace.drop(parent.id)
    child = await stage.workspace.fork(parent.model_copy(update={"commit": change.commit}), id="child")
    ref = await stage.workspace.delete(child.id)
    assert ref and await stage.repository.change(ref) == change


async def test_a_branch_that_cannot_be_kept_is_not_deleted(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(
        branch, lambda work: ((work / "sub/.git").mkdir(parents=True), (work / "sub/.git/config").touch())
    )
    with pytest.raises(ExportRefused):
        await stage.workspace.delete(branch.id)
    assert [kept.branch for kept in await stage.workspace.kept()] == [branch]
    await stage.workspace.drop(branch.id)
    assert await stage.workspace.kept() == ()


async def test_without_walls_nothing_runs_unless_somebody_says_so(tmp_path: Path) -> None:
    stage = await staged("copy", tmp_path)
    branch = await stage.workspace.root(await stage.commit(BASE), id="r")
    job = Job(id="j", argv=("true",))
    with pytest.raises(NoSandbox) as caught:
        await stage.workspace.enter(branch, job, private="/private")
    assert caught.value.hint == "resolvent doctor"
    entered = await stage.workspace.enter(branch, job, private="/private", unsafe=True)
    assert entered == job.model_copy(update={"cwd": str(await stage.place(branch))})
    assert stage.workspace.inside("/private") == "/private"


async def test_layers_are_entered_inside_of_walls_only(tmp_path: Path) -> None:
    stage = await staged("copy", tmp_path)
    layered = await OverlayWorkspace.open(
        stage.state, sandbox=stage.state / "sandbox", walls=None, running=lambda job: False
    )
    branch = await layered.root(await stage.commit(BASE), id="r")
    with pytest.raises(NoSandbox) as caught:
        await layered.enter(branch, Job(id="j", argv=("true",)), private="/private", unsafe=True)
    assert caught.value.hint == "resolvent doctor"
    await layered.close()


SCRIPT = """
set -e
test -z "$(git status --porcelain)"
git log -1 --format=%H
id -u
pwd
echo changed >> README.md
mkdir new && echo new > new/file
ln -s /etc/shadow stolen
echo '{}' > "$INSIDE/answer.json"
if cat "$SECRET" 2>/dev/null; then exit 9; fi
git status --porcelain
"""


async def workspace_within(kind: str, state: Path, *, running: Callable[[str], bool]) -> Workspace:
    user = jobs_user(state)
    sandbox = state / "sandbox"
    sandbox.mkdir(mode=0o711)
    walls: Literal["namespaces", "landlock"] = "landlock" if kind == "landlock" else "namespaces"
    etc = furnish(sandbox, user=os.geteuid() if user is None else user)
    around = Walls(kind=walls, bwrap=BWRAP, user=user, etc=etc)
    if kind == "overlay":
        return await OverlayWorkspace.open(state, sandbox=sandbox, walls=around, running=running)
    return CopyWorkspace(state, walls=around, running=running)


@pytest.mark.spec("B11")
@pytest.mark.parametrize("kind", ["overlay", "copy", "landlock"])
async def test_a_job_works_in_its_branch_as_nobody_else_and_git_works_there(kind: str) -> None:
    with emptied_later() as top:
        stage = await staged("copy", top)
        # Behind Landlock the paths of the host are what a job sees: it has to be able to go there.
        stage.state.chmod(0o711)
        jobs = SupervisedJobs(top / "jobs")
        workspace = await workspace_within(kind, stage.state, running=jobs.running)
        base = await stage.commit(BASE)
        branch = await workspace.fork(await workspace.root(base, id="r"), id="f")
        private = top / "private"
        for place in (private, private / "home", private / "tmp"):
            place.mkdir()
        (top / "secret").write_text("secret")
        inside = workspace.inside(str(private))
        assert inside == (str(private) if kind == "landlock" else PRIVATE)
        environment = {"INSIDE": inside, "HOME": f"{inside}/home", "TMPDIR": f"{inside}/tmp", "SECRET": f"{top}/secret"}
        job = Job(id="j", argv=("/bin/sh", "-c", SCRIPT), environment=environment)
        ended = await jobs.ensure(await workspace.enter(branch, job, private=str(private)))
        said = jobs.output("j").read_text()
        assert (ended.ending, ended.exit) == ("exited", 0), said + ended.message
        user = jobs_user(stage.state) or os.geteuid()
        head, who, where, *status = said.splitlines()
        assert (head, who) == (base.commit, str(user))
        assert where == ("/workspace" if kind != "landlock" else str(CopyWorkspace(stage.state).path(branch)))
        assert status == [" M README.md", "?? new/", "?? stolen"]
        assert (private / "answer.json").read_text() == "{}\n"
        change = await workspace.export(branch, message="m", at=1)
        assert change
        held = await stage.tree(change)
        assert held[b"README.md"] == text("hello\nchanged\n") and held[b"stolen"] == link("/etc/shadow")
        await workspace.lay(branch, [File(path="more/laid", text="laid")], base=base)
        again = Job(id="k", argv=("/bin/sh", "-c", "rm -r more new && touch src/own"), environment=environment)
        ended = await jobs.ensure(await workspace.enter(branch, again, private=str(private)))
        assert ended.exit == 0, jobs.output("k").read_text()
        await workspace.drop(branch.id)
        if isinstance(workspace, OverlayWorkspace):
            await workspace.close()
