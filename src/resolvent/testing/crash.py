"""The crash-point proof: kill the engine at every boundary of every verb, start it again, and compare."""

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from resolvent.adapters.clock import FrozenClock
from resolvent.domain.entry import Entry
from resolvent.engine.world import Backoff, World
from resolvent.testing.crash_story import FILES, story
from resolvent.testing.demo_story import write_story
from resolvent.testing.rehearsal import Rehearsal
from resolvent.testing.stage import Stage, make_project
from resolvent.working import Session

RUN = "rcrash"
AT = 1_767_603_600.0


@dataclass(frozen=True)
class Case:
    """One kill: at which point of which verb."""

    point: str
    verb: str

    @property
    def name(self) -> str:
        return self.verb.partition("/")[2].partition("@")[0]


@dataclass(frozen=True)
class Verdict:
    """What a killed run came to, against the run that was never killed."""

    case: Case
    killed: bool
    same: bool
    differences: tuple[str, ...]


async def reference(directory: Path, *, rehearsal: Rehearsal | None = None) -> tuple[dict[str, Any], tuple[Case, ...]]:
    """The story undisturbed, on the local forge or a rehearsed one: what it comes to, and every boundary it passed."""
    _begin(directory, rehearsal)
    log = directory / "boundaries"
    await _spawn(directory, "--log", str(log))
    seen = [Case(*line.split(" ", 1)) for line in log.read_text(encoding="utf-8").splitlines()]
    agents = [Case("while it runs", case.verb) for case in seen if case.name.startswith(("ask:", "edit:"))]
    return await fingerprint(directory), tuple(dict.fromkeys([*seen, *agents]))


async def killed(case: Case, *, directory: Path, expected: dict[str, Any]) -> Verdict:
    """Kill once at that point, in a process of its own; then start again, with another hash seed, and compare."""
    directory.mkdir(parents=True)
    ended = await _spawn(directory, "--kill", f"{case.point} {case.verb}")
    again = await _spawn(directory)
    found = await fingerprint(directory)
    differences = [key for key in expected if found.get(key) != expected[key]]
    if again != 0:
        differences.append(f"exit {again}")
    return Verdict(case, killed=ended == -signal.SIGKILL, same=not differences, differences=tuple(differences))


async def killed_on_and_on(
    cases: Sequence[Case], *, directory: Path, expected: dict[str, Any], rehearsal: Rehearsal | None = None
) -> tuple[list[Verdict], tuple[Case, ...]]:
    """One run, killed at each of these boundaries as it comes to them, and started again each time.

    Also those it never came to, for what runs beside a killed verb may have been over by then.
    """
    _begin(directory, rehearsal)
    left = list(cases)
    reached: list[Case] = []
    while True:
        wanted = directory / "wanted-points"
        wanted.write_text("".join(f"{case.point} {case.verb}\n" for case in left), encoding="utf-8")
        ended = await _spawn(directory, "--kill-at-any-of", str(wanted))
        if ended != -signal.SIGKILL:
            break
        case = Case(*(directory / "killed-at").read_text(encoding="utf-8").split(" ", 1))
        reached.append(case)
        left.remove(case)
    found = await fingerprint(directory)
    differences = tuple(key for key in expected if found.get(key) != expected[key])
    if ended != 0:
        differences += (f"exit {ended}",)
    return [Verdict(case, True, not differences, differences) for case in reached], tuple(left)


async def fingerprint(directory: Path) -> dict[str, Any]:
    """Everything that must not differ: the commit, the effects, the forge as people see it, and who was started."""
    stage = _stage(directory)
    try:
        document, forge = await stage.app.document(RUN), await stage.hub()
        issues, pulls = await forge.issues(state="all"), await forge.pull_requests()
        targets = [*(issue.key for issue in issues), *(pull.key for pull in pulls)]
        comments = [(target, item.author, item.body) for target in targets for item in await forge.comments(target)]
        starts = (stage.hooks / "log").read_text(encoding="utf-8").splitlines()
        return {
            "outcome": document["outcome"],
            "change": document["change"],
            "gate": document["gate"],
            "effects": document["effects"],
            "findings": document["findings"],
            "evidence": sorted((item["check"], item["on"], item["exit"]) for item in document["evidence"]),
            "issues": [issue.model_dump(mode="json") for issue in issues],
            "pulls": [pull.model_dump(mode="json") for pull in pulls],
            "comments": comments,
            "agent starts": sorted(starts),
        }
    finally:
        await stage.close()


def _begin(directory: Path, rehearsal: Rehearsal | None) -> None:
    directory.mkdir(parents=True)
    if rehearsal:
        rehearsal.save(directory / "rehearsal.json")


async def prove(
    directory: Path, *, at_once: int = 2, share: tuple[int, int] = (0, 1), told: Callable[[Verdict], None] = print
) -> list[Verdict]:
    """Every case, or the given share of them (`1, 3` is the second third), some at a time, each told as it comes."""
    expected, cases = await reference(directory / "reference")
    slots = asyncio.Semaphore(at_once)

    async def one(number: int, case: Case) -> Verdict:
        async with slots:
            verdict = await killed(case, directory=directory / f"case-{number}", expected=expected)
        told(verdict)
        return verdict

    mine = [(number, case) for number, case in enumerate(cases) if number % share[1] == share[0]]
    return list(await asyncio.gather(*(one(number, case) for number, case in mine)))


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as people read them: a row per verb, a mark per point."""
    points = list(dict.fromkeys(verdict.case.point for verdict in verdicts))
    rows: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        mark = "same" if verdict.killed and verdict.same else "DIFFERS" if verdict.killed else "NOT KILLED"
        rows.setdefault(verdict.case.verb.partition("/")[2], {})[verdict.case.point] = mark
    width = max(len(row) for row in rows)
    lines = ["  ".join([f"{'verb':{width}}", *(f"{point:13}" for point in points)])]
    lines += [
        "  ".join([f"{row:{width}}", *(f"{marks.get(p, '-'):13}" for p in points)]) for row, marks in rows.items()
    ]
    good = sum(verdict.killed and verdict.same for verdict in verdicts)
    return "\n".join(
        [*lines, "", f"{good} of {len(verdicts)} kills at {len(rows)} verbs ended the same, to the commit"]
    )


def _stage(directory: Path) -> Stage:
    # Repeats are the same verb again: one of each is enough to be killed at.
    once = ("policy.reproduce_runs=1", "policy.prove_runs=1", "policy.minimise=off", "policy.variants=1")
    overrides = ("policy.status_comments=false", "policy.merge=auto", *once)
    rehearsal = Rehearsal.load(directory / "rehearsal.json")
    return Stage(directory, overrides=overrides, clock=FrozenClock(AT), rehearsal=rehearsal)


async def _spawn(directory: Path, *words: str) -> int:
    """A new process with a hash seed of its own."""
    environ = dict(os.environ) | {"PYTHONHASHSEED": str(random.randrange(1, 4_000_000_000))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "resolvent.testing.crash", str(directory), *words, env=environ
    )
    return await process.wait()


async def _play(directory: Path, words: Sequence[str]) -> None:
    """Submit the one run if it is not there yet, and work until it ended."""
    if words[:1] == ["--kill"] and words[1].startswith("while it runs "):
        part = sha256(words[1].removeprefix("while it runs ").encode()).hexdigest()[:12]
        _die_at_the_alarm(_stage(directory).hooks, part)
    boundary = _boundary(words)
    if not (directory / "project").exists():
        await make_project(directory / "project", FILES)
    stage = _stage(directory)
    journal, forge = await stage.app.home.journal(), await stage.hub()
    if not await journal.runs():
        write_story(directory / "story.json", story())
        await forge.sync(stage.project)
        issue = await stage.issue("Thousands are bad", "They should be good.")
        await stage.submit(Entry(kind="issue", reference=str(issue.number)), run=RUN)

    def adjust(world: World) -> World:
        backoff = Backoff(first_s=0.01) if stage.rehearsal else world.backoff
        return replace(world, boundary=boundary, backoff=backoff)

    await Session(stage.app.home, adjust=adjust).follow(RUN)


def _die_at_the_alarm(hooks: Path, part: str) -> None:
    """End this process without notice when the wanted job says that it runs: from its box it cannot do that itself."""
    os.mkfifo(hooks / "alarm")
    (hooks / "alarm").chmod(0o666)
    (hooks / "wanted").write_text(part, encoding="utf-8")

    def listen() -> None:
        (hooks / "alarm").read_bytes()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=listen, daemon=True).start()


def _boundary(words: Sequence[str]) -> Callable[[str, str], None]:
    option, value = (*words, "", "")[:2]

    wanted = Path(value).read_text(encoding="utf-8").splitlines() if option == "--kill-at-any-of" else [value]

    def reached(point: str, verb: str) -> None:
        if option.startswith("--kill") and f"{point} {verb}" in wanted:
            if option == "--kill-at-any-of":
                Path(value).with_name("killed-at").write_text(f"{point} {verb}", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        if option == "--log":
            with open(value, "a", encoding="utf-8") as log:
                log.write(f"{point} {verb}\n")

    return reached


def main() -> None:
    """`python -m resolvent.testing.crash DIRECTORY [--kill "POINT VERB" | --kill-at-any-of FILE | --log FILE]`."""
    asyncio.run(_play(Path(sys.argv[1]), sys.argv[2:]))
    sys.stdout.flush()
    # Crash-only: there is nothing to tidy that the next process would not find.
    os._exit(0)


if __name__ == "__main__":
    main()
