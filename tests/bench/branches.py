"""Branches beside what people use today, on the same disk in the same run, as somebody who is not root.

`python -m tests.bench.branches DIRECTORY large|small` measures in that empty directory and prints the figures as JSON.
"""

import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resolvent.adapters.git import Git
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.grounds import is_base
from resolvent.adapters.workspace.housekeeping import Housekeeping
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job, JobExit
from resolvent.wiring import PLAIN_PATH, Home
from tests.bench import big_tree
from tests.bench.big_tree import LARGE, MOVED, SMALL, Size, Tree
from tests.bench.figures import Figure, median
from tests.obstacles import PERSON

ROOT = Path(__file__).parents[2]
CREATIONS, RUNS, SNAPSHOTS, EXPORTS, LOOKS = 300, 60, 60, 20, 7
DEEP, MANY = 50, 1_000
EDITS = "for n in 1 2 3 4 5; do echo edit $n >> src/00/part000/file0000$n.py; done; rm -r src/00/part001"
FEW = "mkdir made; for n in 1 2 3 4; do echo $1 $n > made/$n; done; echo $1 >> src/00/part000/file00000.py"


def measured(*, small: bool) -> list[Figure]:
    """All figures, measured by a process of its own that is not root wherever that can be."""
    with tempfile.TemporaryDirectory(prefix="resolvent-bench-") as place, contextlib.ExitStack() as afterwards:
        # What an overlay leaves behind nobody may list: the plain removal would stumble over it.
        afterwards.callback(_emptied, Path(place))
        free = shutil.disk_usage(place).free
        size = SMALL if small or free < LARGE.room_bytes else LARGE
        if size is SMALL and not small:
            tell(f"{place} has {free >> 30} GB left, {LARGE.room_bytes >> 30} are needed: measuring the small tree")
        become, user = somebody(Path(place))
        command = [*become, sys.executable, "-m", "tests.bench.branches", place, size.name]
        environ = {"PATH": os.environ.get("PATH", PLAIN_PATH), "HOME": place, "PYTHONPATH": str(ROOT)}
        said = subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE, **user).stdout
        return [Figure(*row) for row in json.loads(said)]


def _emptied(place: Path) -> None:
    for path in place.iterdir():
        # Neither what git wrote for nobody to change nor the work directory of an overlay can stop it.
        remove_tree(path)


def somebody(place: Path) -> tuple[Sequence[str], dict[str, Any]]:
    """What makes a root caller's command an ordinary user's, who then owns the place: words before it, or options."""
    if os.geteuid() != 0:
        return (), {}
    # With mounts that show the interpreter wherever it lies; or, where root may not mount, as it lies.
    obstacle = (sys.executable, str(ROOT / "tests/obstacles.py"), "person", "--")
    drop: dict[str, Any] = {"user": PERSON, "group": PERSON, "extra_groups": []}
    ways: tuple[tuple[Sequence[str], dict[str, Any]], ...] = ((obstacle, {}), ((), drop))
    for become, user in ways:
        try:
            trial = [*become, sys.executable, "-c", "import resolvent.wiring"]
            subprocess.run(trial, cwd=ROOT, check=True, capture_output=True, **user)
        except (OSError, subprocess.CalledProcessError):
            continue
        os.chown(place, PERSON, PERSON)
        return become, user
    tell("root cannot become another user here: measuring as root, whose boxes drop by themselves")
    return (), {}


def tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@dataclass
class Yard:
    """The product as it is wired for a user, over the tree."""

    tree: Tree
    home: Home
    workspace: OverlayWorkspace
    jobs: SupervisedJobs
    repository: TrustedRepository
    _count: int = 0
    _private: str = field(default="")

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, place: Path, tree: Tree) -> "AsyncIterator[Yard]":
        environ = {"PATH": PLAIN_PATH, "HOME": str(place), "RESOLVENT_HOME": str(place / "state")}
        home = Home.of(tree.directory, environ=environ, overrides=('sandbox.rung="overlay"',))
        workspace, repository = await home.workspace(), await home.git_repository()
        assert isinstance(workspace, OverlayWorkspace)
        try:
            yield cls(tree, home, workspace, home.jobs(), repository, 0, home.private_directory("bench"))
        finally:
            await home.close()

    def name(self) -> str:
        self._count += 1
        return f"bench-{self._count}"

    async def fork(self, parent: Branch) -> Branch:
        return await self.workspace.fork(parent, id=self.name())

    async def entered(self, branch: Branch, command: str, *, reads: tuple[str, ...] = ()) -> Job:
        """A job that stands before its box."""
        id, home = self.name(), f"{self.workspace.inside(self._private)}/home"
        argv = ("/bin/sh", "-euc", command, "sh", id) if command != "true" else ("true",)
        job = Job(id=id, argv=argv, reads=reads, environment={"HOME": home, "PATH": PLAIN_PATH})
        return await self.workspace.enter(branch, job, private=self._private)

    async def run(self, branch: Branch, command: str, *, reads: tuple[str, ...] = ()) -> JobExit:
        """What a command came to in its box."""
        job = await self.entered(branch, command, reads=reads)
        ended = await self.jobs.ensure(job)
        assert (ended.ending, ended.exit) == ("exited", 0), (ended, self.jobs.output(job.id).read_bytes()[-2000:])
        return ended

    async def deep(self, parent: Branch, levels: int) -> Branch:
        """A branch on that many layers, each of which a job wrote to."""
        for _ in range(levels):
            parent = await self.fork(parent)
            await self.run(parent, 'mkdir -p deep; echo "$1" > "deep/$1"')
        return parent


async def main(place: Path, size: Size) -> list[Figure]:
    figures = [Figure("load average before", os.getloadavg()[0], "", None, f"{os.cpu_count()} cores, {_whoami()}")]
    begun = time.perf_counter()
    tree = await asyncio.to_thread(big_tree.make, place / "project", size)
    how = f"{size.files:,} files, {tree.bytes / 1e9:.2f} GB on {_filesystem(place)}, made here"
    figures.append(Figure(f"the {size.name} tree", time.perf_counter() - begun, "s", None, how))
    tell(f"made {how}")
    peers = await asyncio.to_thread(peers_of, tree)
    figures += peers
    figures += yardsticks()
    tell("measured git worktree, git clone and cp")
    async with Yard.open(place, tree) as yard:
        base, imported = await importing(yard)
        figures += imported
        built = await building(yard, base)
        # What the import and the peers left to be written is not ours to wait for in the middle of a millisecond.
        await asyncio.to_thread(os.sync)
        figures += await creating(yard, base, built, worktree=peers[0].value)
        tell("measured creation")
        figures += await at_depth(yard, built)
        figures += await sealing(yard, built)
        tell("measured runs and snapshots")
        figures += await exporting(yard, built)
        figures += await many(yard, built)
    figures.append(Figure("load average after", os.getloadavg()[0], "", None, "ours is in it"))
    return figures


def peers_of(tree: Tree) -> list[Figure]:
    """What people do today for one more copy, each from a warm cache, and how long they wait until it is gone again."""
    source, copy = str(tree.directory), str(tree.directory.with_name("copy"))
    git = ("git", "-C", source)
    ways = {
        "git worktree add": (*git, "worktree", "add", "--quiet", "--detach", copy),
        "git clone --shared": ("git", "clone", "--quiet", "--shared", source, copy),
        "cp -a": ("cp", "-a", source, copy),
    }
    figures = []
    for name, command in ways.items():
        made, gone = [], []
        # Minutes each on the large tree: only the one we are measured against is done more than once.
        rounds = 5 if tree.size is SMALL else 3 if "worktree" in name else 1
        away = (*git, "worktree", "remove", "--force", copy) if "worktree" in name else ("rm", "-rf", copy)
        for _ in range(rounds):
            made.append(_waited(command))
            gone.append(_waited(away))
        has = "with" if name == "cp -a" else "without"
        how = f"{has} build artefacts, median of {rounds}, removed in {statistics.median(gone):.2f} s"
        figures.append(Figure(name, statistics.median(made), "s", None, how))
    return figures


def yardsticks() -> list[Figure]:
    """What this machine takes for two things that every confined run is made of: milliseconds differ, ratios do not."""
    python = (sys.executable, "-I", "-S", "-c", "pass")
    box = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true")
    ways = {"bare `python -I -S`": python} | ({"bare `bwrap true`": box} if shutil.which("bwrap") else {})
    figures = []
    for name, command in ways.items():
        times = []
        for _ in range(RUNS):
            begun = time.perf_counter()
            subprocess.run(command, check=True)
            times.append(time.perf_counter() - begun)
        figures.append(median(name, times, how="to know the machine by"))
    return figures


def _waited(command: Sequence[str]) -> float:
    # What was written before must not be paid for by who comes next.
    os.sync()
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begun


async def importing(yard: Yard) -> tuple[Branch, list[Figure]]:
    """The commit laid out once, and again when the upstream has moved by a few files."""
    git, fetched = Git(yard.repository.path), 0.0
    figures = []
    for name, commit in (("base import, once", yard.tree.head), (f"base import, {MOVED} files moved", yard.tree.moved)):
        begun = time.perf_counter()
        source = str(yard.tree.directory)
        await git("fetch", "--quiet", source, f"+{commit}:refs/heads/{commit}", env={"GIT_ALLOW_PROTOCOL": "file"})
        fetched = time.perf_counter() - begun
        change = await yard.repository.change(commit)
        begun = time.perf_counter()
        branch = await yard.workspace.root(change, id=yard.name())
        taken = time.perf_counter() - begun
        figures.append(Figure(name, taken, "s", None, f"and {fetched:.2f} s to fetch the objects; 1 sample"))
    return branch, figures


async def building(yard: Yard, base: Branch) -> Branch:
    """A branch in which a job has built: it holds the artefacts as well, as a copy would."""
    built = await yard.fork(base)
    source = str(yard.tree.directory / "build")
    await yard.run(
        built, f"cp -a '{source}' . && test $(ls build/* | grep -c [.]o) = {yard.tree.size.artefacts}", reads=(source,)
    )
    await yard.workspace.snapshot(built)
    return built


async def creating(yard: Yard, base: Branch, built: Branch, *, worktree: float) -> list[Figure]:
    change = Change(commit=base.commit, tree=(await yard.repository.change(base.commit)).tree)
    roots, forks = [], []
    for _ in range(CREATIONS):
        begun = time.perf_counter()
        await yard.workspace.root(change, id=yard.name())
        roots.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        await yard.fork(built)
        forks.append(time.perf_counter() - begun)
    slower = max(statistics.median(roots), statistics.median(forks))
    large = yard.tree.size is LARGE
    return [
        median("branch of a commit", roots, bar=1.0),
        median("branch of a branch", forks, bar=1.0, how="with build artefacts"),
        Figure(
            "git worktree add / branch", worktree / slower, "x", 10_000.0 if large else None,
            f"{worktree:.2f} s / {slower * 1e3:.3f} ms", least=True,
        ),
    ]  # fmt: skip


async def at_depth(yard: Yard, built: Branch) -> list[Figure]:
    """Creation and a run on one layer and on many, in turn, so that both meet the same neighbours."""
    places = {1: await yard.deep(built, 1), DEEP: await yard.deep(built, DEEP)}
    os.sync()
    depths = {level: len((await yard.workspace.store.require(one.id)).shown) for level, one in places.items()}
    assert depths[DEEP] - depths[1] == DEEP - 1, depths
    forks: dict[int, list[float]] = {level: [] for level in places}
    runs: dict[int, list[float]] = {level: [] for level in places}
    boxes: list[float] = []
    wholes: list[float] = []
    for number in range(CREATIONS):
        for level, parent in places.items():
            first = time.perf_counter()
            branch = await yard.fork(parent)
            forks[level].append(time.perf_counter() - first)
            if number < RUNS:
                job = await yard.entered(branch, "true")
                begun = time.perf_counter()
                ended = await yard.jobs.ensure(job)
                runs[level].append(time.perf_counter() - begun)
                assert ended.exit == 0, ended
                if level == 1:
                    boxes.append(ended.seconds)
                    wholes.append(time.perf_counter() - first)
    ratios = [statistics.median(times[DEEP]) / statistics.median(times[1]) for times in (forks, runs)]
    return [
        median(f"branch at depth {DEEP}", forks[DEEP], bar=1.0),
        Figure(f"branch, depth {DEEP} / depth 1", ratios[0], "x", 1.5, f"of {CREATIONS} each, taken in turn"),
        median("confined `true`", runs[1], bar=25.0, how="from ensure() to its return"),
        median("  of it, the box alone", boxes, how="as its supervisor has it"),
        median("  with a new branch for it", wholes, how="fork, enter and ensure"),
        median(f"confined `true` at depth {DEEP}", runs[DEEP], bar=25.0),
        Figure(f"confined run, depth {DEEP} / depth 1", ratios[1], "x", 1.5, f"of {RUNS} each, taken in turn"),
    ]


async def sealing(yard: Yard, built: Branch) -> list[Figure]:
    """A snapshot of what a job wrote to a few files; it has reached the disk when it returns."""
    os.sync()
    times = []
    for _ in range(SNAPSHOTS):
        branch = await yard.fork(built)
        await yard.run(branch, FEW)
        begun = time.perf_counter()
        await yard.workspace.snapshot(branch)
        times.append(time.perf_counter() - begun)
    return [median("snapshot", times, bar=2.0, how="5 files written, on the disk")]


async def exporting(yard: Yard, built: Branch) -> list[Figure]:
    exports, looks, whole = [], [], []
    paths: tuple[str, ...] = ()
    for _ in range(EXPORTS):
        branch = await yard.fork(built)
        await yard.run(branch, EDITS)
        begun = time.perf_counter()
        change = await yard.workspace.export(branch, message="bench", at=time.time())
        exports.append(time.perf_counter() - begun)
        assert change is not None
        paths = await yard.repository.changed_paths(await yard.repository.change(branch.commit), change)
    for _ in range(LOOKS):
        branch = await yard.fork(built)
        begun = time.perf_counter()
        looks.append((await yard.run(branch, 'test -z "$(git status --porcelain)"')).seconds)
        whole.append(time.perf_counter() - begun)
    how = f"each in a new branch; {statistics.median(whole) * 1e3:.0f} ms with all around the box"
    return [
        median("export", exports, how=f"5 edits and a removed directory: {len(paths)} paths"),
        median("first `git status` in a branch", looks, how=how),
    ]


async def many(yard: Yard, built: Branch) -> list[Figure]:
    """A thousand, made on many layers and removed, bytes and all: those nobody wrote to, and those with work."""
    deep = await yard.deep(built, DEEP)
    begun = time.perf_counter()
    branches = [await yard.fork(deep) for _ in range(MANY)]
    made = time.perf_counter() - begun
    untouched = await removing(yard, branches)
    tell(f"{MANY} branches made and removed; now as many with work in them")
    branches = [await yard.fork(deep) for _ in range(MANY)]
    slots = asyncio.Semaphore(os.cpu_count() or 1)

    async def work(branch: Branch) -> None:
        async with slots:
            await yard.run(branch, FEW)
            await yard.workspace.snapshot(branch)

    await asyncio.gather(*map(work, branches))
    worked = await removing(yard, branches)
    how = f"written to and snapshotted; the branches in {worked[0]:.2f} s, then all their files"
    return [
        Figure(f"{MANY} branches made", made, "s", 1.5, f"one after the other at depth {DEEP}"),
        Figure(f"{MANY} branches removed", untouched[1], "s", 3.0, "nobody wrote to them; one after the other"),
        Figure(f"{MANY} branches with work removed", worked[1], "s", 3.0, how),
    ]


async def removing(yard: Yard, branches: Sequence[Branch]) -> tuple[float, float]:
    """Seconds until all of them are gone, and until every layer that was theirs is too."""
    os.sync()
    store = yard.workspace.store
    begun = time.perf_counter()
    for branch in branches:
        await yard.workspace.drop(branch.id)
    dropped = time.perf_counter() - begun
    await Housekeeping(yard.workspace).collect()
    collected = time.perf_counter() - begun
    assert not {branch.id for branch in branches} & {kept.branch.id for kept in await yard.workspace.kept()}
    named = {name for here in await store.all() for name in here.shown}
    assert {name for name in store.layers.names() if not is_base(name)} <= named
    assert not os.listdir(store.layers.sandbox / "trash")
    return dropped, collected


def _whoami() -> str:
    return "as root, whose boxes drop to a user" if os.geteuid() == 0 else f"as user {os.geteuid()}"


def _filesystem(place: Path) -> str:
    told = subprocess.run(["stat", "-f", "-c", "%T", str(place)], stdout=subprocess.PIPE, text=True, check=False)
    return told.stdout.strip()


if __name__ == "__main__":
    figures = asyncio.run(main(Path(sys.argv[1]), {size.name: size for size in (LARGE, SMALL)}[sys.argv[2]]))
    sys.stdout.write(json.dumps(figures))
