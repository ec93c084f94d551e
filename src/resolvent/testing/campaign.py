"""The random SIGKILL campaign on branches: kill whoever works on a store at any moment, then look whether all is there.

    python -m resolvent.testing.campaign --kills 10000

A worker makes, forks, enters, snapshots, exports and removes branches. It is killed again and again, now and then with
the supervisor of its job; after each kill another process opens the store and checks what the worker was promised.
"""

import argparse
import asyncio
import json
import os
import pickle
import random
import select
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from resolvent.adapters.git import Git
from resolvent.adapters.jobs.launch import KILL, SET_PDEATHSIG, native
from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.rungs import find
from resolvent.domain.job import Limits
from resolvent.errors import NoSandbox
from resolvent.testing.campaign_check import Check, Finding, Interrupted
from resolvent.testing.campaign_work import VERBS, Files, Ledger, Place, Step, Worker, blob

# What may be wrong, in the words of the table.
KINDS = {
    "lost": "acknowledged and lost",
    "stray": "branches nobody should see",
    "unusable": "branches that cannot be entered",
    "job": "jobs that did not outlive their caller",
    "mount": "mounts leaked",
    "alive": "processes of a box left alive",
    "litter": "layers and trash left by a collection",
    "git": "faults in the repository",
    "worker": "errors of the worker or the check itself",
}
PATIENCE_S = 30.0
# How many commits a worker remembers to make branches of.
REMEMBERED = 6
THOROUGH = 20
TREE = {"README.md": "read me\n", "src/app.py": "print('app')\n", "src/deep/er.py": "1\n", "docs/guide.md": "guide\n"}
MOVED = (TREE, TREE | {"README.md": "read this\n"}, TREE | {"src/app.py": "print('better')\n", "docs/new.md": "new\n"})


@dataclass
class Tally:
    """What came of all kills."""

    kills: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)
    snapshots: int = 0
    entered: int = 0
    # Seconds from the kill of a supervisor until nothing of its box was left.
    deaths: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: "Tally") -> None:
        self.kills += other.kills
        self.done += other.done
        self.faults += other.faults
        self.snapshots += other.snapshots
        self.entered += other.entered
        self.deaths += other.deaths
        self.seconds = max(self.seconds, other.seconds)


class Struck(NamedTuple):
    """One kill: what was going on, and what the worker had been promised before."""

    interrupted: Interrupted | None
    fault: str = ""
    supervisor: bool = False


class Lane:
    """One store and its kills, one after the other."""

    def __init__(self, place: Place, ledger: Ledger, *, seed: str) -> None:
        self._place = place
        self._ledger = ledger
        self._seed = seed
        self._chance = random.Random(seed)
        self._typical: dict[str, deque[float]] = {verb: deque([0.005], maxlen=25) for verb in VERBS}
        self._mounts = mounts(place.state)
        self.tally = Tally()

    def strike(self, number: int, *, last: bool) -> None:
        """Let a worker work, kill it, and look."""
        struck = self._killed(number)
        begun = time.monotonic()
        if struck.fault:
            self.tally.faults.append(("worker", struck.fault))
        interrupted = self._settled(struck, begun)
        finding = called(lambda: self._looked(number, interrupted, thorough=last or number % THOROUGH == 0))
        self._note(finding, interrupted, supervisor=struck.supervisor)
        for name in [*os.listdir(self._place.state / "private"), *_jobs(self._place)]:
            remove_tree(self._place.state / "private" / name)
            remove_tree(self._place.state / "jobs" / name)

    def _killed(self, number: int) -> Struck:
        """Fork a worker and kill it at some moment of some step."""
        announced, telling = os.pipe()
        book = self._place.state / "acknowledged"
        book.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            os.close(announced)
            self._work(number, telling, book)
        os.close(telling)
        hunt = self._chance.random() < 0.3
        steps = self._followed(announced, until="run" if hunt else "", count=self._chance.randint(1, 2 if hunt else 7))
        if steps:
            time.sleep(self._chance.uniform(0, 1.2 * statistics.median(self._typical[steps[-1].verb])))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        supervisor = hunt and self._chance.random() < 0.6 and bool(steps) and self._kill_supervisor(steps[-1])
        with os.fdopen(announced, "rb") as rest:
            steps += [Step(*json.loads(line)) for line in rest.read().splitlines()]
        answered = self._answered(book)
        pending = [step for step in steps if step.number not in answered]
        fault = "" if status == signal.SIGKILL else f"the worker ended by itself: {status}, at {pending}"
        return Struck(Interrupted(pending[-1], torn=supervisor) if pending else None, fault, supervisor)

    def _work(self, number: int, telling: int, book: Path) -> NoReturn:
        acknowledged = os.open(book, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        worker = Worker(self._place, self._ledger, number=number * 1000, seed=f"{self._seed}/{number}")
        end_with(lambda: asyncio.run(worker.work(telling, acknowledged)))

    def _followed(self, announced: int, *, until: str, count: int) -> list[Step]:
        """The steps that were announced, up to the one that is wanted; the time each took is remembered."""
        steps: list[Step] = []
        rest, seen = b"", time.monotonic()
        while sum(step.verb == until or not until for step in steps) < count:
            chunk = os.read(announced, 1 << 16)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            now = time.monotonic()
            if steps and lines:
                self._typical[steps[-1].verb].append((now - seen) / len(lines))
            steps += [Step(*json.loads(line)) for line in lines]
            seen = now
        return steps

    def _answered(self, book: Path) -> set[int]:
        """Take what was acknowledged into the ledger; the numbers of those steps."""
        numbers = set()
        lines = book.read_bytes().split(b"\n")[:-1] if book.exists() else []
        for line in lines:
            words, answer = json.loads(line)
            step = Step(*words)
            self._ledger.note(step, answer)
            numbers.add(step.number)
            self.tally.snapshots += step.verb == "snapshot"
        return numbers

    def _kill_supervisor(self, step: Step) -> bool:
        """Kill the process that keeps the job, if there is one by now."""
        with suppress(FileNotFoundError, ProcessLookupError, json.JSONDecodeError):
            directory = self._place.state / "jobs" / step.job
            pid = int(json.loads((directory / "started").read_bytes())["pid"])
            handle = os.pidfd_open(pid)
            try:
                # The handle keeps the number from meaning somebody else.
                if os.fsencode(directory) in Path(f"/proc/{pid}/cmdline").read_bytes():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return True
            finally:
                os.close(handle)
        return False

    def _settled(self, struck: Struck, begun: float) -> Interrupted | None:
        """Wait until no job runs any more and nothing of a box is left; what was interrupted, as it is known then."""
        jobs = [self._place.state / "jobs" / name for name in _jobs(self._place)]
        for directory in jobs:
            if not free(directory / "lock", PATIENCE_S):
                self.tally.faults.append(("alive", f"{directory.name} runs for ever"))
        left = outlived(os.fsencode(self._place.state), PATIENCE_S)
        self.tally.faults += [("alive", one) for one in left]
        if struck.supervisor:
            self.tally.deaths.append(time.monotonic() - begun)
        self.tally.faults += [("mount", line) for line in sorted(mounts(self._place.state) - self._mounts)]
        if struck.interrupted is None or struck.interrupted.step.verb != "run":
            return struck.interrupted
        directory = self._place.state / "jobs" / struck.interrupted.step.job
        begun_at = (directory / "started").exists()
        if begun_at and not struck.supervisor and not _ended_well(directory):
            self.tally.faults.append(("job", f"{directory.name} died with its caller"))
        # A supervisor that was killed after it had told the end has not torn anything.
        torn = struck.supervisor and not _ended_well(directory)
        return Interrupted(struck.interrupted.step, torn=torn, begun=begun_at)

    def _looked(self, number: int, interrupted: Interrupted | None, *, thorough: bool) -> Finding:
        check = Check(self._place, self._ledger, interrupted=interrupted, number=number)
        return asyncio.run(check.look(thorough=thorough))

    def _note(self, finding: Finding, interrupted: Interrupted | None, *, supervisor: bool) -> None:
        verb = interrupted.step.verb if interrupted else "between two steps"
        verb = f"{verb} and its supervisor" if supervisor else verb
        self.tally.kills[verb] += 1
        self.tally.done[verb] += finding.done
        self.tally.faults += finding.faults
        self.tally.entered += finding.entered
        ledger = self._ledger
        ledger.branches, ledger.kept = finding.branches, {}
        used = {held.branch.commit for held in ledger.branches.values()}
        first, later = list(ledger.commits)[: len(MOVED)], list(ledger.commits)[len(MOVED) :]
        kept = {*first, *later[-REMEMBERED:], *used}
        ledger.commits = {commit: files for commit, files in ledger.commits.items() if commit in kept}


def _jobs(place: Place) -> list[str]:
    jobs = place.state / "jobs"
    return [name for name in os.listdir(jobs) if (jobs / name / "lock").exists()] if jobs.is_dir() else []


def _ended_well(directory: Path) -> bool:
    with suppress(FileNotFoundError):
        return bool(json.loads((directory / "exit.json").read_bytes())["exit"] == 0)
    return False


async def _prepared(state: Path) -> tuple[Place, Ledger]:
    """A store with a few commits; NoSandbox where no branch can be entered."""
    rung = await find(state, wanted="overlay", path=os.environ.get("PATH", ""))
    walls = rung.walls(limits=Limits(disk_bytes=1 << 30))
    assert walls is not None
    git = await Git.init_bare(state / "repo.git")
    ledger = Ledger({}, {})
    for number, texts in enumerate(MOVED, 1):
        files = "".join(f"M 644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in texts.items())
        after = f"from refs/heads/moved-{number - 1}^0\n" if number > 1 else ""
        head = f"commit refs/heads/moved-{number}\ncommitter C <c@localhost> {number} +0000\ndata 4\nmade\n{after}"
        await git("fast-import", "--quiet", input=f"{head}deleteall\n{files}".encode())
        commit, tree = (await git("log", "-1", "--format=%H %T", f"refs/heads/moved-{number}")).decode().split()
        ledger.commits[commit] = {path: blob(text.encode()) for path, text in texts.items()}
        ledger.trees[commit] = tree
    (state / "private").mkdir()
    return Place(state, walls), ledger


def _lane(directory: Path, kills: int, *, seed: str, told: Callable[[int, Tally], None]) -> Tally:
    """So many kills on a store of their own."""
    state = directory / "state"
    state.mkdir(parents=True, mode=0o700)
    # By another process: who forks the workers never had the store open, nor a thread.
    place, ledger = called(lambda: asyncio.run(_prepared(state)))
    lane, begun = Lane(place, ledger, seed=seed), time.monotonic()
    for number in range(1, kills + 1):
        try:
            lane.strike(number, last=number == kills)
        except RuntimeError as error:
            lane.tally.faults.append(("worker", f"kill {number}: {error}"))
            break
        told(number, lane.tally)
    lane.tally.seconds = time.monotonic() - begun
    return lane.tally


def campaign(directory: Path, *, kills: int, seed: str, lanes: int = 2, told: Callable[[str], None]) -> Tally:
    """All kills, on several stores at once; what came of them."""
    shares = [kills // lanes + (number < kills % lanes) for number in range(lanes)]
    children = []
    for number, share in enumerate(shares):

        def progress(done: int, tally: Tally, number: int = number, share: int = share) -> None:
            if done % 50 == 0 or tally.faults:
                told(f"lane {number}: {done} of {share} kills, {len(tally.faults)} faults {tally.faults[-1:]}")

        def work(number: int = number, share: int = share, progress: Callable[[int, Tally], None] = progress) -> None:
            place = directory / f"lane-{number}"
            tally = _lane(place, share, seed=f"{seed}/{number}", told=progress)
            place.with_suffix(".tally").write_bytes(pickle.dumps(tally))

        children.append(os.fork())
        if children[-1] == 0:
            end_with(work)
    whole = Tally()
    for number, child in enumerate(children):
        status = os.waitpid(child, 0)[1]
        if status:
            whole.faults.append(("worker", f"lane {number} ended with {status}"))
        else:
            whole.add(pickle.loads((directory / f"lane-{number}.tally").read_bytes()))
    return whole
