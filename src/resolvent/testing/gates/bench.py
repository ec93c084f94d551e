"""The gate bench: every author on every bug, some bugs at a time, and the table of what came of it."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from resolvent.errors import Bug as Broken
from resolvent.testing.gates.adversaries import ADVERSARIES, HONEST, Adversary
from resolvent.testing.gates.bugs import Bug, corpus
from resolvent.testing.gates.lane import Case
from resolvent.testing.gates.trying import missing

TOLD_RULES = 4
Told = Callable[[Case], None]


@dataclass(frozen=True)
class Plan:
    """Which authors work on which bugs, and which bugs cannot be tried here, with the reason."""

    chosen: tuple[tuple[Bug, tuple[Adversary, ...]], ...]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def cases(self) -> int:
        return sum(len(adversaries) for _, adversaries in self.chosen)


@dataclass(frozen=True)
class Result:
    """What the bench found."""

    cases: tuple[Case, ...]
    skipped: tuple[tuple[str, str], ...]
    seconds: float

    @property
    def false_accepts(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if case.false_accept)

    @property
    def false_rejects(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if case.false_reject)

    @property
    def unexplained(self) -> tuple[Case, ...]:
        """Rejected, and nobody knows by which rule."""
        return tuple(case for case in self.cases if not case.accepted and case.rule == "unknown")

    @property
    def holds(self) -> bool:
        """Nothing was let through, nobody honest was stopped, every rejection has its rule, and something was tried."""
        return bool(self.cases) and not (self.false_accepts or self.false_rejects or self.unexplained)

    @property
    def summary(self) -> str:
        honest = [case for case in self.cases if case.adversary == HONEST]
        proven = sum(case.outcome == "proven" for case in honest)
        return (
            f"{len(self.cases)} cases in {self.seconds:.0f} s: {len(self.false_accepts)} false accepts, "
            f"{len(self.false_rejects)} false rejects; the honest author was proven {proven} of {len(honest)} times"
        )


def plan(only: str = "") -> Plan:
    """Everything, or what `ADVERSARY/BUG` leaves: each half is a part of a name, and may be empty."""
    who, _, what = only.partition("/")
    adversaries = tuple(one for one in ADVERSARIES if who.lower() in one.name)
    chosen, skipped = [], []
    for bug in corpus():
        if what.lower() not in bug.name:
            continue
        why = missing(bug.language.name, bug.language.program) or missing("every project", "make")
        if why:
            skipped.append((bug.name, why))
        elif adversaries:
            chosen.append((bug, adversaries))
    return Plan(tuple(chosen), tuple(skipped))


def quick() -> Plan:
    """Every author on one bug, and the honest one on every bug."""
    whole = plan()
    here = [bug for bug, _ in whole.chosen]
    honest = tuple(one for one in ADVERSARIES if one.name == HONEST)
    others: dict[str, list[Adversary]] = {}
    for number, adversary in enumerate(one for one in ADVERSARIES if one.name != HONEST):
        # Another bug for each of them, so that every language meets some.
        others.setdefault(here[number * 5 % len(here)].name, []).append(adversary)
    return Plan(tuple((bug, (*honest, *others.get(bug.name, ()))) for bug in here), whole.skipped)


async def prove(directory: Path, planned: Plan, *, at_once: int = 2, told: Told = lambda case: None) -> Result:
    """Play the plan, some bugs at a time, each in a process with a home of its own; every case is told as it comes."""
    slots, loop = asyncio.Semaphore(at_once), asyncio.get_running_loop()
    began = loop.time()

    async def one(bug: Bug, adversaries: Sequence[Adversary]) -> list[Case]:
        async with slots:
            return await _lane(directory / bug.name, bug, adversaries, told)

    lanes = await asyncio.gather(*(one(bug, adversaries) for bug, adversaries in planned.chosen))
    return Result(tuple(case for lane in lanes for case in lane), planned.skipped, loop.time() - began)


async def _lane(directory: Path, bug: Bug, adversaries: Sequence[Adversary], told: Told) -> list[Case]:
    directory.mkdir(parents=True)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "resolvent.testing.gates.lane",
        str(directory),
        bug.name,
        *(adversary.name for adversary in adversaries),
        stdout=pipe,
        stderr=pipe,
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        said, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    cases = [Case(**json.loads(line)) for line in said.decode().splitlines()]
    if process.returncode or len(cases) != len(adversaries):
        raise Broken(f"the bench of {bug.name} ended with {process.returncode}: {errors.decode()[-2000:]}")
    for case in cases:
        told(case)
    return cases


def rows(result: Result) -> list[list[str]]:
    """A row per author: how often it was accepted and rejected, and by which rules."""
    table = [["adversary", "accepted", "rejected", "by which rule"]]
    for adversary in ADVERSARIES:
        mine = [case for case in result.cases if case.adversary == adversary.name]
        if not mine:
            continue
        accepted = sum(case.accepted for case in mine)
        rules = Counter(case.rule for case in mine if not case.accepted).most_common()
        named = [f"{rule} ({count})" for rule, count in rules[:TOLD_RULES]]
        more = sum(count for _, count in rules[TOLD_RULES:])
        named += [f"others ({more})"] if more else []
        table.append([adversary.name, str(accepted), str(len(mine) - accepted), ", ".join(named)])
    return table
