"""One store and its kills: a worker is let loose on it and killed, what is left settles, and somebody else looks."""

import asyncio
import json
import os
import random
import signal
import statistics
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.adapters.workspace.rungs import find
from resolvent.domain.job import Limits
from resolvent.testing.campaign.check import Check, Finding, Interrupted
from resolvent.testing.campaign.outside import called, end_with, free, mounts, outlived
from resolvent.testing.campaign.worker import VERBS, Ledger, Place, Step, Worker, blob

PATIENCE_S = 30.0
# How many of its own commits a worker makes branches of.
REMEMBERED = 6
# The repository is read whole, and the base forgotten, after as many kills.
THOROUGH = 20
BETWEEN = "between two steps"
TREE = {"README.md": "read me\n", "src/app.py": "print('app')\n", "src/deep/er.py": "1\n", "docs/guide.md": "guide\n"}
MOVED = (TREE, TREE | {"README.md": "read this\n"}, TREE | {"src/app.py": "print('better')\n", "docs/new.md": "new\n"})


@dataclass
class Tally:
    """What came of many kills."""

    # By what the worker was about.
    kills: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    # Kind and words of what was wrong.
    faults: list[tuple[str, str]] = field(default_factory=list)
    snapshots: int = 0
    entered: int = 0
    # Seconds from the kill of a supervisor until nothing of its box was left.
    deaths: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def fault(self, kind: str, what: str) -> None:
        self.faults.append((kind, what))

    def add(self, other: "Tally") -> None:
        """Count the other's too; both went on at the same time."""
        self.kills.update(other.kills)
        self.done.update(other.done)
        self.faults += other.faults
        self.snapshots += other.snapshots
        self.entered += other.entered
        self.deaths += other.deaths
        self.seconds = max(self.seconds, other.seconds)


class Struck(NamedTuple):
    """One kill: what was announced and not acknowledged, and whether a supervisor was killed with it."""

    step: Step | None
    supervisor: bool


async def prepared(state: Path) -> tuple[Place, Ledger]:
    """A store with a few commits; NoSandbox where no branch can be entered."""
    rung = await find(state, wanted="overlay", path=os.environ.get("PATH", ""))
    walls = rung.walls(limits=Limits(disk_bytes=1 << 30))
    assert walls is not None
    git = Git((await TrustedRepository.open(state / "repo.git")).path)
    ledger = Ledger({}, {})
    for number, texts in enumerate(MOVED, 1):
        files = "".join(f"M 644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in texts.items())
        after = f"from refs/heads/moved-{number - 1}^0\n" if number > 1 else ""
        head = f"commit refs/heads/moved-{number}\ncommitter C <c@localhost> {number} +0000\ndata 4\nmade\n{after}"
        await git("fast-import", "--quiet", input=f"{head}deleteall\n{files}".encode())
        commit, tree = (await git("log", "-1", "--format=%H %T", f"refs/heads/moved-{number}")).decode().split()
        ledger.commits[commit] = {path: blob(text.encode()) for path, text in texts.items()}
        ledger.trees[commit] = tree
    for name in ("private", "jobs"):
        (state / name).mkdir(exist_ok=True)
    return Place(state, walls), ledger


class Lane:
    """Kills on one store, one after the other."""

    def __init__(self, place: Place, ledger: Ledger, *, seed: str) -> None:
        self._place = place
        self._ledger = ledger
        self._seed = seed
        self._chance = random.Random(seed)
        self._typical = {verb: deque([0.005], maxlen=25) for verb in VERBS}
        self._mounts = mounts(place.state)
        self.tally = Tally()

    def strike(self, number: int, *, last: bool) -> None:
        """Let a worker work, kill it, and look. RuntimeError when the look itself failed."""
        struck = self._struck(number)
        interrupted = self._settled(struck, time.monotonic())
        finding = called(lambda: self._looked(number, interrupted, thorough=last or number % THOROUGH == 0))
        self._note(finding, struck)
        for name in self._jobs():
            remove_tree(self._place.state / "private" / name)
            remove_tree(self._place.state / "jobs" / name)

    def _struck(self, number: int) -> Struck:
        """Fork a worker and kill it at some moment of some step."""
        announced, telling = os.pipe()
        book = self._place.state / "acknowledged"
        book.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            os.close(announced)
            self._work(number, telling, book)
        os.close(telling)
        os.setpgid(child, child)
        # A share of the kills waits for a job, so that its supervisor can be hit as well.
        hunting, chance = self._chance.random() < 0.35, self._chance.random()
        steps = self._followed(announced, until="run" if hunting else "", count=1 if hunting else int(1 + 7 * chance))
        if steps:
            time.sleep(self._chance.uniform(0, 1.2 * statistics.median(self._typical[steps[-1].verb])))
        # Alone, or with every git it has started; supervisors are in no group of its.
        (os.killpg if self._chance.random() < 0.5 else os.kill)(child, signal.SIGKILL)
        supervisor = hunting and chance < 0.7 and bool(steps) and self._kill_supervisor(steps[-1])
        status = os.waitpid(child, 0)[1]
        with os.fdopen(announced, "rb") as rest:
            steps += [Step(*json.loads(line)) for line in rest.read().splitlines()]
        answered = self._answered(book)
        pending = next((step for step in steps if step.number not in answered), None)
        if status != signal.SIGKILL:
            self.tally.fault("worker", f"it ended with {status}, at {pending}")
        return Struck(pending, supervisor)

    def _work(self, number: int, telling: int, book: Path) -> NoReturn:
        os.setpgid(0, 0)
        acknowledged = os.open(book, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        worker = Worker(self._place, self._ledger, number=number * 1000, seed=f"{self._seed}/{number}")
        end_with(lambda: asyncio.run(worker.work(telling, acknowledged)))

    def _followed(self, announced: int, *, until: str, count: int) -> list[Step]:
        """The steps that were announced, up to the one that is wanted; what each takes is remembered."""
        steps: list[Step] = []
        seen = time.monotonic()
        # A pipe takes and gives short lines whole.
        while sum(until in ("", step.verb) for step in steps) < count and (chunk := os.read(announced, 1 << 16)):
            now = time.monotonic()
            if steps:
                self._typical[steps[-1].verb].append(now - seen)
            steps += [Step(*json.loads(line)) for line in chunk.splitlines()]
            seen = now
        return steps

    def _answered(self, book: Path) -> set[int]:
        """Take what was acknowledged into the ledger; the numbers of those steps."""
        numbers = set()
        for line in book.read_bytes().split(b"\n")[:-1] if book.exists() else ():
            words, answer = json.loads(line)
            step = Step(*words)
            self._ledger.note(step, answer)
            numbers.add(step.number)
            self.tally.snapshots += step.verb == "snapshot"
        return numbers

    def _kill_supervisor(self, step: Step) -> bool:
        """Kill the process that keeps the job, if there is one by now."""
        directory = self._place.state / "jobs" / step.job
        with suppress(FileNotFoundError, ProcessLookupError, json.JSONDecodeError):
            pid = int(json.loads((directory / "started").read_bytes())["pid"])
            handle = os.pidfd_open(pid)
            try:
                # The handle keeps the number from meaning somebody else meanwhile.
                if os.fsencode(directory) in Path(f"/proc/{pid}/cmdline").read_bytes():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return True
            finally:
                os.close(handle)
        return False

    def _settled(self, struck: Struck, begun: float) -> Interrupted | None:
        """Wait until no job runs any more and nothing of a box is left; what was interrupted, as is known then."""
        for name in self._jobs():
            if not free(self._place.state / "jobs" / name / "lock", PATIENCE_S):
                self.tally.fault("alive", f"{name} runs for ever")
        for left in outlived(os.fsencode(self._place.state), PATIENCE_S):
            self.tally.fault("alive", left)
        if struck.supervisor:
            self.tally.deaths.append(time.monotonic() - begun)
        for line in sorted(mounts(self._place.state) - self._mounts):
            self.tally.fault("mount", line)
        if struck.step is None or struck.step.verb != "run":
            return Interrupted(struck.step) if struck.step else None
        directory = self._place.state / "jobs" / struck.step.job
        started, well = (directory / "started").exists(), _ended_well(directory)
        if started and not struck.supervisor and not well:
            self.tally.fault("job", f"{directory.name} died with its caller: {_told(directory)}")
        # A supervisor that had told the end before it was killed tore nothing.
        return Interrupted(struck.step, begun=started, torn=struck.supervisor and not well)

    def _looked(self, number: int, interrupted: Interrupted | None, *, thorough: bool) -> Finding:
        check = Check(self._place, self._ledger, interrupted=interrupted, number=number)
        return asyncio.run(check.look(thorough=thorough))

    def _note(self, finding: Finding, struck: Struck) -> None:
        verb = struck.step.verb if struck.step else BETWEEN
        verb = f"{verb} and its supervisor" if struck.supervisor else verb
        self.tally.kills[verb] += 1
        self.tally.done[verb] += finding.done
        self.tally.faults += finding.faults
        self.tally.entered += finding.entered
        ledger = self._ledger
        ledger.branches, ledger.kept = finding.branches, {}
        used = {held.branch.commit for held in ledger.branches.values()}
        known = list(ledger.commits)
        kept = {*known[: len(MOVED)], *known[len(MOVED) :][-REMEMBERED:], *used}
        ledger.commits = {commit: files for commit, files in ledger.commits.items() if commit in kept}

    def _jobs(self) -> list[str]:
        jobs = self._place.state / "jobs"
        return [name for name in os.listdir(jobs) if (jobs / name / "lock").exists()]


def _told(directory: Path) -> str:
    """What is known of a job."""
    names = ("started", "exit.json", "supervisor.log", "output")
    return " ".join(
        f"{name}: {(directory / name).read_text()[-500:]!r}" for name in names if (directory / name).exists()
    )


def _ended_well(directory: Path) -> bool:
    with suppress(FileNotFoundError):
        return bool(json.loads((directory / "exit.json").read_bytes())["exit"] == 0)
    return False
