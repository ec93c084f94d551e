"""The whole life of a branch wherever people work: as root and as a person, on disk and in memory, under any name."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.boxed import MEMORY, emptied_later, trouble
from tests.contract.workspace_stage import Node, Stage, script, text
from tests.obstacles import PERSON

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace.grounds import is_base
from resolvent.adapters.workspace.housekeeping import Housekeeping
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.adapters.workspace.rungs import find
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job
from resolvent.errors import NotFound

ROOT = Path(__file__).parents[2]
CALLERS = ("root", "person") if os.geteuid() == 0 else ("person",)
# What a person may call the directory above the state, the state itself, and files.
PLACES = {"plain": b"state", "odd": b"my \"own\" 'state' $(x)\n\\ \xff\xfe"}
NAMES = (b"plain.txt", b"a space", b"quote ' \" `x` $(x)", b"new\nline", b"\xff\xfe not text", b"tab\t\\back", b"-rf *")
PLAYED = "and so it was"


def written(name: bytes, number: int) -> bytes:
    return b"%d of %s" % (number, name)


def tree() -> dict[str | bytes, Node]:
    """Files of every name, in a directory of every name."""
    files: dict[str | bytes, Node] = {b"kept/" + name: ("100644", written(name, 0)) for name in NAMES}
    files |= {name + b"/deep/" + name: script(f"{number}") for number, name in enumerate(NAMES)}
    return files | {".gitignore": text("*.o\n")}


# What a job does in its branch: one file of each name changed, one added, one removed with its directory.
WORK = """
for name in "$@"; do
    printf '1 of %s' "$name" > "kept/$name"
    printf '2 of %s' "$name" > "./new $name"
    rm -r -- "./$name"
    printf ignored > "./$name.o"
done
printf '%s\\n' *
"""


def after() -> dict[bytes, Node]:
    """What a commit of it holds."""
    changed = {b"kept/" + name: ("100644", written(name, 1)) for name in NAMES}
    added = {b"new " + name: ("100644", written(name, 2)) for name in NAMES}
    return changed | added | {b".gitignore": text("*.o\n")}


async def play(state: Path) -> None:
    """A branch is made, worked in, sealed, forked, exported, read, and removed; nothing stays."""
    rung = await find(state, wanted="overlay", path=os.environ["PATH"])
    assert (rung.user is not None) == (os.geteuid() == 0)
    jobs = SupervisedJobs(state / "jobs")
    repository = await TrustedRepository.open(state / "repo.git")
    workspace = await OverlayWorkspace.open(state, sandbox=Path(rung.sandbox), walls=rung.walls(), running=jobs.running)
    stage = Stage("overlay", state, workspace, repository, state / "canary")
    base = await stage.commit(tree())
    mounts = Path("/proc/self/mountinfo").read_text()

    parent = await workspace.root(base, id="parent \udcff\n'")
    said = await ran(jobs, workspace, parent, WORK)
    assert all(b"new " + name in said and name + b".o" in said for name in NAMES)
    await workspace.snapshot(parent)
    child = await workspace.fork(parent, id="child")
    owner = await ran(jobs, workspace, child, "id -u; git status --porcelain --ignored=no | wc -l", name="look")
    assert owner.split() == [str(rung.user or os.geteuid()).encode(), str(3 * len(NAMES)).encode()]

    change = await workspace.export(child, message=PLAYED, at=1_767_603_600.0)
    assert change is not None and await stage.tree(change) == after()
    assert len(workspace.ignored(child)) == len(NAMES)
    await read_back(workspace, child, change)
    refs = [await workspace.delete(branch.id) for branch in (child, parent)]
    kept = [await repository.change(ref) for ref in refs if ref is not None and ref.startswith("refs/rescue/")]
    assert kept[0] == change and [one.tree for one in kept] == [change.tree] * 2
    await nothing_is_left(workspace)
    assert Path("/proc/self/mountinfo").read_text() == mounts
    await workspace.close()


async def ran(
    jobs: SupervisedJobs, workspace: OverlayWorkspace, branch: Branch, program: str, name: str = "work"
) -> bytes:
    """What a program in a box prints that gets every name as an argument."""
    private = jobs.output(name).parents[2] / "private" / name
    for inner in ("home", "tmp"):
        (private / inner).mkdir(parents=True)
    argv = ("/bin/sh", "-euc", program, "sh", *map(os.fsdecode, NAMES))
    home = {"HOME": f"{workspace.inside(str(private))}/home", "PATH": os.defpath}
    job = await workspace.enter(branch, Job(id=name, argv=argv, environment=home), private=str(private))
    ended = await jobs.ensure(job)
    output = jobs.output(name).read_bytes()
    assert (ended.ending, ended.exit) == ("exited", 0), (ended, output)
    return output


async def read_back(workspace: OverlayWorkspace, branch: Branch, change: Change) -> None:
    """The same bytes from the branch, and from a branch of the commit it became."""
    fresh = await workspace.root(change, id="fresh")
    for name in NAMES:
        for one in (branch, fresh):
            assert await workspace.read(one, os.fsdecode(b"kept/" + name)) == written(name, 1)
            assert await workspace.read(one, os.fsdecode(b"new " + name)) == written(name, 2)
            with pytest.raises(NotFound):
                await workspace.read(one, os.fsdecode(name + b"/deep/" + name))
        assert await workspace.read(branch, os.fsdecode(name + b".o")) == b"ignored"
    await workspace.drop("fresh")


async def nothing_is_left(workspace: OverlayWorkspace) -> None:
    """No branch, and on the disk only what the commits hold."""
    assert await workspace.kept() == ()
    await Housekeeping(workspace).collect()
    assert [name for name in workspace.store.layers.names() if not is_base(name)] == []
    sandbox = workspace.store.layers.sandbox
    assert [left for place in ("trash", "scratch") for left in (sandbox / place).iterdir()] == []


@pytest.fixture(params=["disk", "memory"])
def ground(request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty directory on a file system of that kind, which everybody can reach."""
    if request.param == "memory" and MEMORY is None:
        pytest.skip("no /dev/shm on this machine")
    with emptied_later(MEMORY if request.param == "memory" else None) as directory:
        yield directory


@pytest.mark.skipif(bool(trouble()), reason=trouble())
@pytest.mark.parametrize("called", PLACES)
@pytest.mark.parametrize("caller", CALLERS)
def test_a_branch_lives_its_whole_life(ground: Path, caller: str, called: str) -> None:
    state = Path(os.fsdecode(os.fsencode(ground) + b"/" + PLACES[called]))
    state.mkdir(mode=0o700)
    if caller == "person" and os.geteuid() == 0:
        for place in (ground, state):
            os.chown(place, PERSON, PERSON)
    become = (sys.executable, ROOT / "tests/obstacles.py", "person", "--") if caller == "person" else ()
    told = subprocess.run(
        [*become, sys.executable, "-m", __name__, state],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.returncode) == (PLAYED, 0), told.stderr


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1])))
    sys.stdout.write(PLAYED)
