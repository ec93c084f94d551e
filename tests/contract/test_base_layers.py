"""Base layers: mounted over each other they are the commit, to the byte, and git finds nothing to do in them."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from tests.contract.boxed import MEMORY, boxed, emptied_later, trouble
from tests.contract.test_export_oracle import TREES
from tests.contract.workspace_stage import (
    WHO,
    Name,
    Node,
    Stage,
    link,
    script,
    snapshot,
    staged,
    submodule,
    text,
)

from resolvent.adapters.workspace import grounds
from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.grounds import Grounds, is_base, is_repository, shows
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.domain.change import Change
from resolvent.domain.job import Files
from resolvent.errors import ExportRefused, NotFound, ResolventError, StoreBusy

pytestmark = pytest.mark.skipif(bool(trouble()), reason=trouble())

T = TypeVar("T")

JOBS_USER = jobs_user(Path("/tests"))


def tells(lowers: Sequence[str]) -> str | None:
    """The commit that the topmost repository among these layers is at."""
    return next((name.split("-")[1] for name in lowers if is_repository(name)), None)


FILES: dict[Name, Node] = {
    "README.md": text("hello\n"),
    "src/app.py": text("print('app')\n"),
    "src/deep/er/x.py": text("x = 1\n"),
    "src/deep/er/y.py": text("y = 1\n"),
    "run.sh": script("#!/bin/sh\n"),
    "current": link("src/app.py"),
    "dangling": link("/nowhere"),
    "empty": text(""),
    b"n\xff\n\"q\\'\t": text("odd name\n"),
    ".gitattributes": text("* text eol=crlf\n*.utf16 working-tree-encoding=UTF-16\n"),
    "mixed.txt": ("100644", b"one\r\ntwo\n\x00\xff"),
    "crlf.txt": text("one\r\ntwo\r\n"),
    "a.utf16": text("no such thing\n"),
    "vendor/lib": submodule("1" * 40),
}


@dataclass
class Ground:
    """A repository, and the base layers of its commits in a sandbox of their own."""

    stage: Stage
    sandbox: Path
    base: Grounds

    def again(self) -> Grounds:
        """As another process has it."""
        return Grounds(self.stage.git, self.sandbox, owner=JOBS_USER)

    def layers(self) -> set[str]:
        return set(os.listdir(self.sandbox / "layers"))

    async def commit(self, files: dict[Name, Node], *, parent: Change | None = None) -> Change:
        return await self.stage.commit(files, parent=parent)

    async def mounted(self, lowers: tuple[str, ...], function: Callable[[Path], T]) -> T:
        """What a function finds in a branch of these layers."""
        upper = Path(tempfile.mkdtemp(dir=self.sandbox / "layers"))
        for place in (upper, upper / "up", upper / "wk"):
            place.mkdir(exist_ok=True)
            if JOBS_USER is not None:
                os.chown(place, JOBS_USER, JOBS_USER)
        shown = Files(layers=str(self.sandbox / "layers"), upper=upper.name, lowers=lowers)
        objects = self.stage.repository.upstream / "objects"
        try:
            return boxed(shown, function, user=JOBS_USER, objects=objects, outside=self.stage.canary.parent)
        finally:
            remove_tree(upper)


async def prepared(directory: Path) -> Ground:
    stage = await staged("copy", directory)
    sandbox = directory / "state/sand box"
    return Ground(stage, sandbox, Grounds(stage.git, sandbox, owner=JOBS_USER))


@pytest.fixture
async def ground(tmp_path: Path) -> Ground:
    return await prepared(tmp_path)


def held(files: dict[Name, Node]) -> dict[bytes, Node]:
    return {os.fsencode(name): node for name, node in files.items() if node[0] != "160000"}


def clean(work: Path) -> str:
    """What git has to say; nothing, and without opening a single file, when all is well."""
    said = ""
    for command in (["diff-files", "--name-status"], ["status", "--porcelain"], ["diff-index", "--cached", "HEAD"]):
        said += git(work, "--no-optional-locks", *command)
    return said


def git(work: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=work, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def seen(work: Path) -> tuple[dict[bytes, Node], str, str]:
    return snapshot(work), clean(work), git(work, "rev-parse", "HEAD").strip()


async def test_the_layers_of_a_commit_show_exactly_its_tree_and_git_finds_it_clean(ground: Ground) -> None:
    change = await ground.commit(FILES)
    lowers = await ground.base.of(change.commit)
    assert [is_repository(name) for name in lowers] == [True, False]
    assert all(map(is_base, lowers)) and tells(lowers) == shows(lowers) == change.commit
    assert await ground.mounted(lowers, seen) == (held(FILES), "", change.commit)
    empty = await ground.mounted(lowers, lambda work: os.listdir(work / "vendor/lib"))
    assert empty == []


async def test_asking_again_gives_the_same_layers_to_everybody(ground: Ground) -> None:
    change = await ground.commit(FILES)
    first = await ground.base.of(change.commit)
    assert await ground.base.of(change.commit) == await ground.again().of(change.commit) == first
    assert await ground.base.repository(change.commit, over=first) == first[0]


async def test_everything_has_one_owner_and_one_group_and_lies_in_the_past(ground: Ground) -> None:
    change = await ground.commit(FILES)
    moved = await ground.commit(FILES | {"new/file": text("new")}, parent=change)
    owner = (JOBS_USER, JOBS_USER) if JOBS_USER is not None else (os.geteuid(), os.getegid())
    for lowers in (await ground.base.of(change.commit), await ground.base.of(moved.commit)):
        for layer in lowers:
            for directory, _, names in os.walk(ground.sandbox / "layers" / layer):
                for name in (".", *names):
                    about = os.lstat(os.path.join(directory, name))
                    assert (about.st_uid, about.st_gid) == owner
                    if not is_repository(layer) and directory.partition("/up")[1]:
                        assert about.st_mtime == 1_700_000_000


@pytest.mark.parametrize(("date", "expected"), [(0, 315_619_200), (4_000_000_000, None)])
async def test_a_commit_of_a_strange_date_is_still_clean(ground: Ground, date: int, expected: int | None) -> None:
    when = {f"GIT_{role}_DATE": f"@{date} +0000" for role in ("AUTHOR", "COMMITTER")}
    tree = (await ground.commit(FILES)).tree
    commit = (await ground.stage.git("commit-tree", tree, "-m", "m", env=WHO | when)).decode().strip()
    lowers = await ground.base.of(commit)
    at = (ground.sandbox / "layers" / lowers[-1] / "up/README.md").stat().st_mtime
    assert at == expected if expected else at < time.time() - 30
    assert await ground.mounted(lowers, clean) == ""


MOVES: dict[str, Callable[[dict[Name, Node]], dict[Name, Node]]] = {
    "nothing": lambda files: files,
    "an edit": lambda files: files | {"src/app.py": text("more\n")},
    "a new mode": lambda files: files | {"src/app.py": script("print('app')\n")},
    "a file for a link": lambda files: files | {"current": text("no link\n")},
    "a link for a file": lambda files: files | {"empty": link("src")},
    "a deletion": lambda files: without(files, "src/deep/er/x.py"),
    "a directory deleted": lambda files: without(files, "src/deep"),
    "a directory for a file": lambda files: without(files, "README.md") | {"README.md/a/b": text("below")},
    "a file for a directory": lambda files: without(files, "src") | {"src": text("a file")},
    "a directory made anew": lambda files: without(files, "src/deep") | {"src/deep/z": text("only me")},
    "new directories": lambda files: files | {"x/y/z/1": text("1"), "x/y/2": text("2"), "src/x/3": text("3")},
    "a submodule moved on": lambda files: files | {"vendor/lib": submodule("2" * 40)},
    "a submodule deleted": lambda files: without(files, "vendor"),
    "a submodule new": lambda files: files | {"vendor/other": submodule("2" * 40)},
    "a file for a submodule": lambda files: files | {"vendor/lib": text("file")},
    "files for a submodule": lambda files: without(files, "vendor/lib") | {"vendor/lib/a": text("a")},
    "a submodule for a file": lambda files: files | {"empty": submodule("2" * 40)},
    "a submodule for a directory": lambda files: without(files, "src") | {"src": submodule("2" * 40)},
    "an odd name gone": lambda files: without(files, b"n\xff\n\"q\\'\t") | {b"\xfe\n": text("other")},
    "all at once": lambda files: {"one": text("1")},
}


def without(files: dict[Name, Node], top: Name) -> dict[Name, Node]:
    gone = os.fsencode(top)
    return {name: node for name, node in files.items() if not (os.fsencode(name) + b"/").startswith(gone + b"/")}


@pytest.fixture
def any_difference(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However much differs, it is laid over what is there."""
    with monkeypatch.context() as patched:
        patched.setattr(grounds, "SHARE", 0)
        yield


@pytest.mark.usefixtures("any_difference")
@pytest.mark.parametrize("move", MOVES)
async def test_a_near_commit_is_a_difference_that_shows_exactly_the_new_tree(ground: Ground, move: str) -> None:
    old = await ground.commit(FILES)
    below = await ground.base.of(old.commit)
    moved = MOVES[move](FILES)
    new = await ground.commit(moved, parent=old)
    lowers = await ground.base.of(new.commit)
    assert lowers[1].startswith("diff-") and lowers[2:] == below[1:] and shows(lowers) == new.commit
    assert await ground.mounted(lowers, seen) == (held(moved), "", new.commit)
    # And back again, over both.
    back = await ground.stage.commit_of(old.tree, parent=new)
    stack = await ground.base.of(back.commit)
    assert await ground.mounted(stack, seen) == (held(FILES), "", back.commit)


@settings(max_examples=15, deadline=None)
@given(steps=TREES.flatmap(lambda first: TREES.map(lambda second: (first, second))), last=TREES)
def test_any_way_from_tree_to_tree_ends_at_the_last(
    steps: tuple[dict[Name, Node], dict[Name, Node]], last: dict[Name, Node]
) -> None:
    async def walked(directory: Path) -> None:
        ground = await prepared(directory)
        parent: Change | None = None
        for files in (*steps, last):
            parent = await ground.commit(files, parent=parent)
            lowers = await ground.base.of(parent.commit)
            assert await ground.mounted(lowers, seen) == (held(files), "", parent.commit)

    with emptied_later(MEMORY) as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(grounds, "SHARE", 0)
        asyncio.run(walked(directory))


async def test_a_commit_that_differs_in_much_is_laid_out_on_its_own(ground: Ground) -> None:
    old = await ground.commit(FILES)
    await ground.base.of(old.commit)
    other = {f"other/{number}": text(str(number)) for number in range(20)}
    new = await ground.commit(dict(other), parent=old)
    lowers = await ground.base.of(new.commit)
    assert len(lowers) == 2 and lowers[1].startswith("tree-")
    assert await ground.mounted(lowers, seen) == (held(dict(other)), "", new.commit)


async def test_differences_pile_up_only_so_high(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grounds, "MAX_CHAIN", 3)
    monkeypatch.setattr(grounds, "SHARE", 1)
    change = await ground.commit(FILES)
    heights = [len(await ground.base.of(change.commit))]
    for number in range(6):
        files = FILES | {f"new/{number}": text(str(number))}
        change = await ground.commit(files, parent=change)
        lowers = await ground.base.of(change.commit)
        heights.append(len(lowers))
        assert await ground.mounted(lowers, seen) == (held(files), "", change.commit)
    assert heights == [2, 3, 4, 5, 3, 4, 5]
    assert len([name for name in ground.layers() if name.startswith("tree-")]) == 1


async def test_a_fork_s_repository_knows_the_files_below_it(ground: Ground) -> None:
    base = await ground.commit(FILES)
    below = await ground.base.of(base.commit)
    edited = await ground.commit(FILES | {"src/app.py": text("edited\n")}, parent=base)
    top = await ground.base.repository(edited.commit, over=below)
    assert tells((top, *below)) == edited.commit and shows((top, *below)) == base.commit
    lowers = (top, *(name for name in below if not is_repository(name)))

    def edit(work: Path) -> tuple[str, str]:
        (work / "src/app.py").write_text("edited\n")
        return git(work, "diff-files", "--name-only"), git(work, "status", "--porcelain")

    assert await ground.mounted(lowers, edit) == ("src/app.py\n", "")
    assert await ground.base.repository(edited.commit, over=lowers) == top
    assert await ground.again().repository(edited.commit, over=below) == top


async def test_a_repository_for_another_ground_is_another_one(ground: Ground) -> None:
    base = await ground.commit(FILES)
    below = await ground.base.of(base.commit)
    far = await ground.commit({f"other/{number}": text(str(number)) for number in range(30)})
    elsewhere = await ground.base.of(far.commit)
    assert elsewhere[-1] != below[-1]
    top = await ground.base.repository(base.commit, over=elsewhere)
    assert top != below[0]
    assert tells((top,)) == base.commit


async def test_whatever_an_agent_made_of_its_repository_a_layer_above_hides_it(ground: Ground) -> None:
    change = await ground.commit(FILES)
    below = await ground.base.of(change.commit)
    planted = ground.sandbox / "layers" / "planted"
    (planted / "up/.git/hooks").mkdir(parents=True)
    (planted / "up/.git/hooks/post-index-change").write_text("#!/bin/sh\n")
    (planted / "up/.git/config").write_text("[core]\n\tfsmonitor = evil\n")
    top = await ground.base.repository(change.commit, over=below)
    lowers = (top, "planted", *(name for name in below if not is_repository(name)))
    listed = await ground.mounted(lowers, lambda work: sorted(os.listdir(work / ".git")))
    assert listed == ["HEAD", "config", "index", "objects", "packed-refs", "refs"]
    assert await ground.mounted(lowers, clean) == ""


async def test_a_commit_we_do_not_hold_is_not_found_and_leaves_nothing(ground: Ground) -> None:
    await ground.commit(FILES)
    for commit in ("0" * 39 + "1", "../../etc", "", "HEAD", "-h"):
        with pytest.raises(NotFound):
            await ground.base.of(commit)
        with pytest.raises(NotFound):
            await ground.base.repository(commit)
    assert not ground.sandbox.exists() or not any(map(is_base, ground.layers()))


async def crafted(ground: Ground, rows: str, *, parent: Change) -> str:
    tree = (await ground.stage.git("mktree", "--missing", input=rows.encode())).decode().strip()
    return (await ground.stage.commit_of(tree, parent=parent)).commit


@pytest.mark.usefixtures("any_difference")
@pytest.mark.parametrize("name", ["..", ".git", ".GIT", "git~1", "."])
async def test_a_difference_never_leaves_its_directory(ground: Ground, name: str) -> None:
    old = await ground.commit({"a": text("a"), "b": text("b")})
    await ground.base.of(old.commit)
    before = ground.layers()
    blob = (await ground.stage.git("hash-object", "-w", "--stdin", input=b"owned")).decode().strip()
    inner = (await ground.stage.git("mktree", input=f"100644 blob {blob}\towned\n".encode())).decode().strip()
    with pytest.raises(ExportRefused):
        await ground.base.of(await crafted(ground, f"040000 tree {inner}\t{name}\n", parent=old))
    assert ground.layers() == before
    assert not list(ground.sandbox.rglob("owned"))
    assert os.listdir(ground.sandbox / "scratch") == []


@pytest.mark.usefixtures("any_difference")
async def test_a_link_and_a_directory_of_one_name_are_refused(ground: Ground, tmp_path: Path) -> None:
    old = await ground.commit({"z": text("z")})
    await ground.base.of(old.commit)
    outside = tmp_path / "outside"
    outside.mkdir()
    target = (await ground.stage.git("hash-object", "-w", "--stdin", input=str(outside).encode())).decode().strip()
    inner = (await ground.stage.git("mktree", input=f"100644 blob {target}\towned\n".encode())).decode().strip()
    commit = await crafted(ground, f"120000 blob {target}\ta\n040000 tree {inner}\ta\n", parent=old)
    with pytest.raises(ResolventError):
        await ground.base.of(commit)
    assert list(outside.iterdir()) == []


async def test_many_who_ask_at_once_get_one_stack(ground: Ground) -> None:
    change = await ground.commit(FILES)
    others = [ground.again() for _ in range(3)]
    stacks = await asyncio.gather(*(base.of(change.commit) for base in (ground.base, *others) for _ in range(3)))
    assert len(set(stacks)) == 1 and ground.layers() == set(stacks[0])
    assert os.listdir(ground.sandbox / "scratch") == []


async def test_what_nobody_uses_is_forgotten_and_what_is_used_stays(ground: Ground) -> None:
    first = await ground.commit(FILES)
    second = await ground.commit(FILES | {"second": text("2")}, parent=first)
    third = await ground.commit({f"third/{number}": text("3") for number in range(40)})
    one, two, three = [await ground.base.of(change.commit) for change in (first, second, third)]
    fork = await ground.base.repository(third.commit, over=one)
    now = time.time() + 1
    assert await ground.base.forget(ground.layers(), before=now) == ()
    # Asked for lately: not forgotten.
    assert await ground.base.forget((), before=now - 3600) == ()
    # The last one asked for is where the next begins.
    assert await ground.base.forget(two, before=now) == (fork,)
    assert (await ground.base.of(first.commit), await ground.base.of(second.commit)) == (one, two)
    assert await ground.base.of(third.commit) == three
    assert set(await ground.base.forget((), before=now)) == {fork, *one, *two}
    assert await ground.base.of(third.commit) == three


async def test_a_record_of_layers_that_are_gone_is_none(ground: Ground) -> None:
    change = await ground.commit(FILES)
    first = await ground.base.of(change.commit)
    shutil.rmtree(ground.sandbox / "layers" / first[-1])
    second = await ground.base.of(change.commit)
    assert not set(first) & set(second)
    (ground.sandbox / "bases" / change.commit).write_text("")
    third = await ground.base.of(change.commit)
    assert await ground.mounted(third, seen) == (held(FILES), "", change.commit)


async def test_a_recorded_commit_that_the_repository_lost_stops_no_other(ground: Ground) -> None:
    base = await ground.commit(FILES)
    await ground.base.of(base.commit)
    records = ground.sandbox / "bases"
    shutil.copy(records / base.commit, records / ("0" * 39 + "1"))
    os.utime(records / base.commit, (1, 1))
    near = await ground.commit(FILES | {"new": text("new")})
    layers = await ground.base.of(near.commit)
    assert [name.split("-")[0] for name in layers] == ["git", "diff", "tree"]


async def test_the_names_of_layers_are_on_the_disk_before_a_record_names_them(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasting: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") == str(ground.sandbox / "layers"):
            assert [record for record in os.listdir(ground.sandbox / "bases") if record != ".lock"] == []
            lasting.extend(os.listdir(fd))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    layers = await ground.base.of((await ground.commit(FILES)).commit)
    assert sorted(lasting) == sorted(layers)


async def test_a_link_that_no_disk_can_hold_is_refused(ground: Ground) -> None:
    for length in (4096, 5 << 20):
        change = await ground.commit(FILES | {"long": link("x" * length)})
        with pytest.raises(ExportRefused, match="long"):
            await ground.base.of(change.commit)
    assert await ground.base.of((await ground.commit(FILES | {"long": link("x" * 4095)})).commit)


async def test_a_full_disk_leaves_no_half_layer(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    change = await ground.commit(FILES)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("symlink", "utime", "mkdir", "setxattr"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, full)
            with pytest.raises(StoreBusy) as caught:
                await ground.base.of(change.commit)
            assert caught.value.hint
        assert not any(map(is_base, ground.layers()))
    assert await ground.mounted(await ground.base.of(change.commit), clean) == ""


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from resolvent.adapters.git import Git
from resolvent.adapters.workspace.grounds import Grounds

git, sandbox, owner, commit, name, count = sys.argv[1:]
left = int(count)

def dying(event, args):
    global left
    if event == name and sandbox in str(args):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    await Grounds(Git(Path(git)), Path(sandbox), owner=int(owner) if owner else None).of(commit)

sys.addaudithook(dying)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("event", "count"),
    [("open", 3), ("os.mkdir", 5), ("os.utime", 4), ("os.setxattr", 1), *(("os.rename", count) for count in (1, 2, 3))],
)
async def test_a_kill_in_the_middle_leaves_no_half_layer(ground: Ground, event: str, count: int) -> None:
    change = await ground.commit(FILES)
    owner = "" if JOBS_USER is None else str(JOBS_USER)
    paths = (str(ground.stage.repository.path), str(ground.sandbox))
    command = [sys.executable, "-c", KILLED, *paths, owner, change.commit, event, str(count)]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    lowers = await ground.again().of(change.commit)
    assert await ground.mounted(lowers, seen) == (held(FILES), "", change.commit)
    assert os.listdir(ground.sandbox / "scratch") == []
    stray = await ground.base.forget(lowers, before=time.time() + 1)
    assert set(stray) == ground.layers() - set(lowers)


async def test_a_repository_with_longer_hashes_works_the_same(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "--object-format=sha256", tmp_path / "state/repo.git"], check=True)
    ground = await prepared(tmp_path)
    files = without(FILES, "vendor")
    old = await ground.commit(files)
    new = await ground.commit(files | {"README.md": text("more")}, parent=old)
    assert len(old.commit) == 64
    assert await ground.mounted(await ground.base.of(old.commit), seen) == (held(files), "", old.commit)
    lowers = await ground.base.of(new.commit)
    assert len(lowers) == 3
    assert await ground.mounted(lowers, seen) == (held(files | {"README.md": text("more")}), "", new.commit)


async def test_layers_in_memory_work_the_same(tmp_path: Path) -> None:
    ground = await prepared(tmp_path)
    with emptied_later(MEMORY) as memory:
        ground.sandbox = memory / "sandbox"
        ground.base = ground.again()
        old = await ground.commit(FILES)
        new = await ground.commit(MOVES["a directory made anew"](FILES), parent=old)
        assert await ground.mounted(await ground.base.of(old.commit), clean) == ""
        assert await ground.mounted(await ground.base.of(new.commit), clean) == ""


async def test_a_state_directory_of_any_name_will_do(tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a 'b' \"c\"\n\xff,d:e\\"))
    directory.mkdir()
    ground = await prepared(directory)
    change = await ground.commit(FILES)
    lowers = await ground.base.of(change.commit)
    assert await ground.mounted(lowers, seen) == (held(FILES), "", change.commit)
