"""The workspace port: branches hold exactly what they should, whatever an agent did to the one before."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.workspace_stage import (
    ADAPTERS,
    Stage,
    agent,
    link,
    script,
    staged,
    submodule,
    text,
)

from resolvent.domain.change import Change, File
from resolvent.errors import ExportRefused, NotFound, ReplayDiverged, StepFailed, StoreBusy

BASE = {
    "README.md": text("hello\n"),
    "src/app.py": text("print('app')\n"),
    "src/deep/er/x.py": text("x = 1\n"),
    "run.sh": script("#!/bin/sh\nexit 0\n"),
    "current": link("src/app.py"),
    ".gitignore": text("build/\n*.log\n!keep.log\n.venv\n"),
}


@pytest.fixture(params=ADAPTERS)
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await staged(request.param, tmp_path)
    yield stage
    await stage.close()


@pytest.fixture
async def base(stage: Stage) -> Change:
    return await stage.commit(BASE)


@pytest.mark.spec("B2")
async def test_a_root_holds_exactly_the_bytes_modes_and_links_of_its_commit(stage: Stage) -> None:
    files = BASE | {
        ".gitattributes": text("* text eol=crlf\n*.id ident\n*.sub export-subst\n*.lfs filter=lfs\n"),
        "mixed.txt": ("100644", b"one\r\ntwo\n\x00\xff"),
        "a.id": text("$Id$\n"),
        "a.sub": text("$Format:%H$\n"),
        "a.lfs": text("pointer\n"),
        "empty": text(""),
        b"n\xff\n\"q\\'\t": text("odd name\n"),
    }
    change = await stage.commit(files)
    branch = await stage.workspace.root(change, id="check/1")
    expected = {os.fsencode(name): node for name, node in files.items()}
    assert await stage.files(branch) == expected
    assert branch.commit == change.commit and branch.parent is None


async def test_a_submodule_is_an_empty_directory(stage: Stage, base: Change) -> None:
    change = await stage.commit(BASE | {"vendor/lib": submodule(base.commit)})
    branch = await stage.workspace.root(change, id="r")
    assert await stage.inside(branch, lambda work: os.listdir(work / "vendor/lib")) == []
    assert await stage.workspace.export(branch, message="m", at=1) is None


async def test_a_commit_we_do_not_hold_is_not_found(stage: Stage, base: Change) -> None:
    with pytest.raises(NotFound):
        await stage.workspace.root(Change(commit="0" * 39 + "1", tree="0" * 40), id="r")
    assert await stage.workspace.kept() == ()


async def test_asking_again_for_the_same_id_returns_the_same_branch_untouched(stage: Stage, base: Change) -> None:
    first = await stage.workspace.root(base, id="run/check:test@abc#1~2")
    await stage.inside(first, lambda work: (work / "left.txt").write_text("kept"))
    again = await stage.workspace.root(base, id="run/check:test@abc#1~2")
    assert again == first
    assert (await stage.files(again))[b"left.txt"] == text("kept")
    child = await stage.workspace.fork(first, id="child")
    await stage.inside(child, lambda work: (work / "mine.txt").write_text("kept too"))
    assert await stage.workspace.fork(first, id="child") == child
    assert (await stage.files(child))[b"mine.txt"] == text("kept too")


async def test_an_id_that_was_made_of_another_commit_is_refused(stage: Stage, base: Change) -> None:
    other = await stage.commit({"a": text("b")})
    await stage.workspace.root(base, id="same")
    with pytest.raises(ReplayDiverged):
        await stage.workspace.root(other, id="same")


async def test_ids_of_any_shape_get_directories_of_their_own_inside_the_state(stage: Stage, base: Change) -> None:
    ids = ["a/b", "a:b", "a@b", "a-b", "A-b", "../../x", ".", "..", "", "~", "x" * 2000, "é", "e\u0301", "a b", "a\nb"]
    paths = [await stage.place(await stage.workspace.root(base, id=id)) for id in ids]
    assert len({str(path).casefold() for path in paths}) == len(ids)
    assert all(path.resolve().is_relative_to(stage.state.resolve()) and path.is_dir() for path in paths)


@pytest.mark.spec("B2")
async def test_a_fork_has_everything_the_parent_left_and_shares_nothing_with_it(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    content = os.urandom(300_000)

    def leave(work: Path) -> None:
        (work / "src/app.py").write_text("edited")
        (work / "README.md").unlink()
        (work / "build").mkdir()
        (work / "build/out.o").write_bytes(content)
        (work / "build/out.o").chmod(0o640)
        (work / "dangling").symlink_to("/nowhere/at/all")
        os.utime(work / "src/app.py", ns=(1, 1_600_000_000_123_456_789))

    await stage.inside(parent, leave)
    child = await stage.workspace.fork(parent, id="child")
    left = await stage.files(parent)
    assert left[b"build/out.o"] == ("100640", content) and b"README.md" not in left
    assert await stage.files(child) == left
    modified = await stage.inside(child, lambda work: (work / "src/app.py").stat().st_mtime_ns)
    assert modified == 1_600_000_000_123_456_789
    assert (child.parent, child.commit) == (parent.id, base.commit)

    def change(work: Path) -> None:
        with (work / "build/out.o").open("r+b") as file:
            file.write(b"child")
        (work / "src/app.py").write_text("child")

    await stage.inside(child, change)
    assert await stage.files(parent) == left
    assert (await stage.files(child))[b"src/app.py"] == text("child")


async def test_what_a_parent_does_later_is_not_its_childs(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, lambda work: (work / "first").write_text("1"))
    child = await stage.workspace.fork(parent, id="child")
    await stage.inside(parent, lambda work: ((work / "second").write_text("2"), (work / "first").write_text("3")))
    held = await stage.files(child)
    assert held[b"first"] == text("1") and b"second" not in held


async def test_a_fork_of_a_parent_that_is_gone_is_rebuilt_from_its_commit(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, lambda work: (work / "new.py").write_text("new"))
    change = await stage.workspace.export(parent, message="m", at=1)
    assert change
    became = parent.model_copy(update={"commit": change.commit})
    await stage.workspace.drop(parent.id)
    child = await stage.workspace.fork(became, id="child")
    assert (await stage.files(child))[b"new.py"] == text("new")
    assert await stage.workspace.export(child, message="m", at=1) is None


async def test_an_agent_can_use_git_in_its_branch(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.fork(await stage.workspace.root(base, id="r"), id="f")

    def work_on(work: Path) -> None:
        assert agent(work, "git", "status", "--porcelain") == ""
        assert agent(work, "git", "log", "--format=%H %s") == f"{base.commit} by hand\n"
        assert agent(work, "git", "branch", "--show-current") == "work\n"
        (work / "src/app.py").write_text("print('more')\n")
        assert "+print('more')" in agent(work, "git", "diff")
        agent(work, "git", "commit", "-qam", "mine")
        agent(work, "git", "tag", "v1")
        agent(work, "git", "stash", "list")
        assert agent(work, "git", "status", "--porcelain") == ""

    await stage.inside(branch, work_on)
    assert await stage.agent(branch, "git", "log", "-1", "--format=%s") == "mine\n"


@pytest.mark.spec("B4")
async def test_an_agents_own_commits_are_not_history(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")

    def work_on(work: Path) -> None:
        for number in (1, 2):
            (work / "src/app.py").write_text(f"{number}\n")
            agent(work, "git", "commit", "-qam", f"mine {number}")
        (work / "uncommitted.py").write_text("too")

    await stage.inside(branch, work_on)
    change = await stage.workspace.export(branch, message="engine's words", at=1_700_000_000.9)
    assert change
    said = (await stage.git("cat-file", "commit", change.commit)).decode()
    who = "Resolvent <resolvent@localhost> 1700000000 +0000"
    assert said == f"tree {change.tree}\nparent {base.commit}\nauthor {who}\ncommitter {who}\n\nengine's words\n"
    assert (await stage.tree(change))[b"uncommitted.py"] == text("too")


async def test_edits_deletions_modes_and_new_kinds_become_what_git_would_make_of_them(
    stage: Stage, base: Change
) -> None:
    branch = await stage.workspace.root(base, id="r")

    def edit(work: Path) -> None:
        (work / "README.md").unlink()
        (work / "run.sh").chmod(0o600)
        (work / "src/app.py").chmod(0o4755)
        (work / "src/deep/er/x.py").unlink()
        (work / "src/deep/er").rmdir()
        (work / "src/deep/er").write_text("a file where a directory was")
        (work / "current").unlink()
        (work / "current").mkdir()
        (work / "current/now").write_text("a directory where a link was")
        (work / "src.d").write_text("sorts before src/")
        (work / "src-").mkdir()
        (work / "src-/a").symlink_to("../README.md")
        (work / "empty/dirs/are").mkdir(parents=True)

    await stage.inside(branch, edit)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and change.tree == await stage.as_git_would(branch)
    held = await stage.tree(change)
    assert held[b"src/app.py"] == script("print('app')\n")
    assert held[b"run.sh"][0] == "100644"
    assert b"README.md" not in held and held[b"src-/a"] == link("../README.md")


async def test_many_new_files_travel_as_one_pack(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")

    def generate(work: Path) -> None:
        for number in range(150):
            path = work / f"gen/{number % 7}/{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}")

    await stage.inside(branch, generate)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and change.tree == await stage.as_git_would(branch)
    assert len(list((stage.repository.path / "objects/pack").glob("*.pack"))) == 1


@pytest.mark.spec("B3")
async def test_ignored_leftovers_stay_behind_and_are_named(stage: Stage) -> None:
    base = await stage.commit(BASE | {"build/tracked.txt": text("old"), "src/.gitignore": text("local.py\n!x.log\n")})
    branch = await stage.workspace.root(base, id="r")

    def litter(work: Path) -> None:
        (work / "build/tracked.txt").write_text("tracked though ignored")
        (work / "build/untracked.txt").write_text("no")
        (work / "new/build/deep").mkdir(parents=True)
        (work / "new/build/deep/x").write_text("no")
        for name, kept in {
            "a.log": False,
            "keep.log": True,
            "src/local.py": False,
            "src/x.log": True,
            "local.py": True,
        }.items():
            (work / name).write_text(str(kept))
        (work / ".venv").symlink_to("/usr")
        (work / "src/build").write_text("`build/` names directories only")

    await stage.inside(branch, litter)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and change.tree == await stage.as_git_would(branch)
    held = await stage.tree(change)
    assert held[b"build/tracked.txt"] == text("tracked though ignored")
    assert {b"keep.log", b"src/x.log", b"local.py", b"src/build"} <= held.keys()
    assert stage.workspace.ignored(branch) == (
        ".venv",
        "a.log",
        "build/untracked.txt",
        "new/build/",
        "src/local.py",
    )
    check = await stage.workspace.root(change, id="check")
    assert (await stage.files(check)).keys() == held.keys()


@pytest.mark.spec("B3")
async def test_an_agent_cannot_change_what_is_ignored(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")

    def hide(work: Path) -> None:
        (work / ".gitignore").write_text("secret_test.py\n")
        (work / ".git/info").mkdir()
        (work / ".git/info/exclude").write_text("*\n")
        (work / "src/.gitignore").write_text("*\n")
        (work / "secret_test.py").write_text("seen")
        (work / "src/new.py").write_text("seen")
        (work / "a.log").write_text("not")

    await stage.inside(branch, hide)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change
    assert set(await stage.repository.changed_paths(base, change)) == {
        ".gitignore",
        "secret_test.py",
        "src/.gitignore",
        "src/new.py",
    }
    assert stage.workspace.ignored(branch) == ("a.log",)


async def test_rules_that_became_a_directory_are_still_the_parents_rules(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")

    def replace(work: Path) -> None:
        (work / ".gitignore").unlink()
        (work / ".gitignore/sub").mkdir(parents=True)
        (work / ".gitignore/sub/x").write_text("x")
        (work / "a.log").write_text("no")

    await stage.inside(branch, replace)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change
    assert await stage.repository.changed_paths(base, change) == (".gitignore", ".gitignore/sub/x")


@pytest.mark.spec("B4")
async def test_nothing_that_git_would_keep_is_no_change(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")

    def touch(work: Path) -> None:
        (work / "src/app.py").write_text("print('app')\n")
        (work / "README.md").chmod(0o600)
        (work / "empty").mkdir()
        (work / "a.log").write_text("ignored")

    await stage.inside(branch, touch)
    assert await stage.workspace.export(branch, message="m", at=1) is None
    assert stage.workspace.ignored(branch) == ("a.log",)


@pytest.mark.spec("B4")
async def test_a_repeated_export_is_the_same_commit(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(branch, lambda work: (work / "new.py").write_text("new"))
    first = await stage.workspace.export(branch, message="m", at=1_700_000_000.25)
    assert first and await stage.workspace.export(branch, message="m", at=1_700_000_000.25) == first
    other = await stage.workspace.fork(branch, id="another")
    assert await stage.workspace.export(other, message="m", at=1_700_000_000.25) == first
    later = await stage.workspace.export(branch, message="m", at=1_700_000_001.0)
    assert later and later.tree == first.tree and later.commit != first.commit
    await stage.git("fsck", "--strict", "--no-dangling")


async def test_untouched_modes_of_old_repositories_stay_untouched(stage: Stage, base: Change) -> None:
    blob = (await stage.git("hash-object", "-w", "--stdin", input=b"old")).decode().strip()
    tree = (await stage.git("mktree", input=f"100664 blob {blob}\told\n100644 blob {blob}\tb\n".encode())).decode()
    change = await stage.commit_of(tree.strip())
    branch = await stage.workspace.root(change, id="r")
    assert await stage.workspace.export(branch, message="m", at=1) is None
    await stage.inside(branch, lambda work: (work / "b").write_text("new"))
    edited = await stage.workspace.export(branch, message="m", at=1)
    assert edited and await stage.repository.changed_paths(change, edited) == ("b",)


async def test_a_message_of_any_text_makes_a_sound_commit(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(branch, lambda work: (work / "new.py").write_text("new"))
    change = await stage.workspace.export(branch, message="\n\ntree \0 \N{SNOWMAN}\ngpgsig -----\n\n", at=-5)
    assert change
    await stage.git("fsck", "--strict", "--no-dangling", change.commit)


async def test_work_in_a_submodule_is_named_not_taken_and_its_removal_is_a_deletion(stage: Stage, base: Change) -> None:
    change = await stage.commit(BASE | {"vendor/lib": submodule(base.commit)})
    branch = await stage.workspace.root(change, id="r")

    def edit(work: Path) -> None:
        (work / "vendor/lib/.git").mkdir()
        (work / "vendor/lib/lib.c").write_text("edited")

    def remove(work: Path) -> None:
        (work / "vendor/lib/.git").rmdir()
        (work / "vendor/lib/lib.c").unlink()
        (work / "vendor/lib").rmdir()

    await stage.inside(branch, edit)
    assert await stage.workspace.export(branch, message="m", at=1) is None
    assert stage.workspace.ignored(branch) == ("vendor/lib/",)
    await stage.inside(branch, remove)
    removed = await stage.workspace.export(branch, message="m", at=1)
    assert removed and await stage.repository.changed_paths(change, removed) == ("vendor/lib",)


@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_repository_with_longer_hashes_works_the_same(adapter: str, tmp_path: Path) -> None:
    path = tmp_path / "state/repo.git"
    subprocess.run(["git", "init", "-q", "--bare", "--object-format=sha256", path], check=True)
    stage = await staged(adapter, tmp_path)
    branch = await stage.workspace.root(await stage.commit(BASE), id="r")
    await stage.inside(branch, lambda work: (work / "new.py").write_text("new"))
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and len(change.commit) == 64 and change.tree == await stage.as_git_would(branch)
    assert await stage.agent(branch, "git", "status", "--porcelain") == "?? new.py\n"
    await stage.close()


async def test_a_file_laid_over_a_branch_is_there_once_and_for_all(stage: Stage, base: Change) -> None:
    branch = await stage.workspace.root(base, id="r")
    files = (
        File(path="tests/new/test_it.py", text="assert False\n"),
        File(path="repro.sh", text="#!/bin/sh\nexit 1\n"),
        File(path="build/ignored.txt", text="also"),
        File(path="src/deep/beside.py", text="beside"),
    )
    await stage.workspace.lay(branch, files, base=base)

    def find(work: Path) -> int:
        assert (work / "tests/new/test_it.py").read_text() == "assert False\n"
        assert os.access(work / "repro.sh", os.X_OK) and not (work / "build/ignored.txt").stat().st_mode & 0o111
        assert (work / "src/deep/beside.py").exists() and (work / "src/deep/er/x.py").exists()
        # They are the job's own: it may change and remove them.
        (work / "tests/new/test_it.py").write_text("the running check wrote here")
        (work / "tests/new/other").touch()
        return (work / "repro.sh").stat().st_ino

    before = await stage.inside(branch, find)
    await stage.workspace.lay(branch, files, base=base)
    assert await stage.inside(branch, lambda work: (work / "repro.sh").stat().st_ino) == before
    assert (await stage.files(branch))[b"tests/new/test_it.py"] == text("the running check wrote here")


@pytest.mark.spec("B6")
@pytest.mark.parametrize(
    "path",
    [
        "src/app.py",
        "SRC/App.py",
        "readme.MD",
        "src",
        "src/deep/ER",
        "README.md/below",
        "current/x",
        "sub/GIT~1/config",
        "a/.git.../x",
        "git~1",
        "/".join("d" * 300),
    ],
)
async def test_a_reproducer_may_only_add_files(stage: Stage, base: Change, path: str) -> None:
    branch = await stage.workspace.root(base, id="r")
    before = await stage.files(branch)
    with pytest.raises(ExportRefused):
        await stage.workspace.lay(branch, [File(path="fine.txt", text="x"), File(path=path, text="x")], base=base)
    assert await stage.files(branch) == before


async def test_a_reproducer_is_never_written_through_a_link(stage: Stage, base: Change, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    branch = await stage.workspace.root(base, id="r")

    def plant(work: Path) -> None:
        (work / "dir").symlink_to(outside)
        (work / "file").symlink_to(outside / "precious")
        (work / "twin").write_text("precious")
        (work / "hard").hardlink_to(work / "twin")
        os.mkfifo(work / "pipe")

    await stage.inside(branch, plant)
    for path in ("dir/x", "dir/precious", "file", "pipe", "pipe/x"):
        with pytest.raises(ExportRefused):
            await stage.workspace.lay(branch, [File(path=path, text="owned")], base=base)
    await stage.workspace.lay(branch, [File(path="hard", text="owned")], base=base)
    held = await stage.files(branch)
    assert (held[b"hard"], held[b"twin"]) == (text("owned"), text("precious"))
    assert (outside / "precious").read_text() == "precious"
    assert [entry.name for entry in outside.iterdir()] == ["precious"]


async def test_what_is_dropped_is_gone_and_can_be_made_anew(stage: Stage, base: Change, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(branch, lambda work: ((work / "link").symlink_to(outside), (work / "build").mkdir()))
    place = await stage.place(branch)
    await stage.workspace.drop("r")
    assert not place.parent.exists()
    assert (outside / "precious").exists()
    await stage.workspace.drop("r")
    await stage.workspace.drop("never seen")
    again = await stage.workspace.root(base, id="r")
    assert not await stage.inside(again, lambda work: (work / "build").exists())
    assert stage.leftovers() == []


async def test_eight_who_ask_at_once_get_one_whole_branch(stage: Stage, base: Change) -> None:
    parent = await stage.workspace.root(base, id="r")
    branches = await asyncio.gather(*(stage.workspace.fork(parent, id="f") for _ in range(8)))
    assert len(set(map(str, branches))) == 1
    assert await stage.files(branches[0]) == await stage.files(parent)
    assert stage.leftovers() == []


async def test_a_full_disk_leaves_no_half_branch(stage: Stage, base: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = await stage.workspace.root(base, id="r")

    expected = await stage.files(parent)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        patched.setattr(os, "mkdir", full)
        with pytest.raises(StoreBusy) as caught:
            # A copy needs the room at once, a layer when somebody wants to write.
            await stage.entered(await stage.workspace.fork(parent, id="f"))
    assert caught.value.hint
    assert await stage.files(await stage.workspace.fork(parent, id="f")) == expected


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from resolvent.domain.job import Branch, Job
from tests.contract.workspace_stage import ADAPTERS

adapter, state, commit, verb, name, count = sys.argv[1:]
left = int(count)

def dying(event, args):
    global left
    # Paths below a directory that is open are told without it; files are opened by the interpreter too.
    if event == name and (event != "open" or str(state) in str(args)):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    workspace = await ADAPTERS[adapter](Path(state), lambda job: False)
    parent = Branch(id="parent", parent=None, commit=commit)
    sys.addaudithook(dying)
    if verb == "export":
        await workspace.export(parent, message="m", at=1)
    else:
        child = await workspace.fork(parent, id="child")
        await workspace.enter(child, Job(id="j", argv=("true",)), private=f"{state}/private", unsafe=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("stage", "verb", "event", "count"),
    [
        ("copy", "fork", "open", 6),
        ("copy", "fork", "os.mkdir", 3),
        ("copy", "fork", "os.rename", 1),
        ("copy", "export", "subprocess.Popen", 1),
        ("copy", "export", "subprocess.Popen", 2),
        ("overlay", "fork", "os.rename", 1),
        ("overlay", "fork", "os.mkdir", 1),
        ("overlay", "fork", "os.mkdir", 2),
        ("overlay", "fork", "os.mkdir", 3),
        ("overlay", "export", "subprocess.Popen", 1),
        ("overlay", "export", "subprocess.Popen", 2),
    ],
    indirect=["stage"],
)
async def test_a_kill_in_the_middle_loses_nothing_and_leaves_nothing(
    stage: Stage, base: Change, verb: str, event: str, count: int
) -> None:
    parent = await stage.workspace.root(base, id="parent")
    await stage.inside(parent, lambda work: (work / "new.py").write_text("new"))
    expected = await stage.workspace.export(parent, message="m", at=1)
    command = [sys.executable, "-c", KILLED, stage.adapter, str(stage.state), base.commit, verb, event, str(count)]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    reborn = await stage.again()
    child = await reborn.workspace.fork(parent, id="child")
    assert await reborn.files(child) == await reborn.files(parent)
    assert await reborn.workspace.export(child, message="m", at=1) == expected
    assert stage.leftovers() == []
    await reborn.close()


async def test_the_workspace_itself_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    # Only what runs without walls, in a copy, can reach the directory that its branch lies in.
    stage = await staged("copy", tmp_path)
    base = await stage.commit(BASE)
    branch = await stage.workspace.root(base, id="r")
    work = await stage.place(branch)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/secret").write_text("secret")
    work.rename(work.with_name("moved"))
    work.symlink_to(tmp_path / "home")
    with pytest.raises(ExportRefused):
        await stage.workspace.export(branch, message="m", at=1)
    with pytest.raises(StepFailed):
        await stage.workspace.fork(branch, id="f")
    with pytest.raises(StepFailed):
        await stage.workspace.lay(branch, [File(path="x", text="x")], base=base)
    assert [entry.name for entry in (tmp_path / "home").iterdir()] == ["secret"]
