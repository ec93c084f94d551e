"""`make bench`: each figure beside its bar. Real processes, real store, real forks; nothing easier is measured."""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from resolvent.domain.entry import Entry
from resolvent.domain.outcome import Declined, Outcome
from resolvent.domain.verdicts import Analysis, Fix
from resolvent.engine.run import Run
from resolvent.testing import demo_story
from resolvent.testing.demo import make_sample, sample_issue
from resolvent.testing.stage import FILES, Stage, scene
from resolvent.working import PLAYBOOKS, Session
from tests.bench import branches, calls
from tests.bench.figures import Figure, table

HANDOVERS = 60
ONCE = ("policy.reproduce_runs=1", "policy.prove_runs=1", "policy.variants=0", "policy.minimise=off")
PROMPT = "---\nrole: writer\n---\nNumber {{ n }} about\n{{ issue.body | quoted }}\n"


async def main(rounds: int) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory(prefix="resolvent-bench-") as place:
        figures += await handovers(Path(place) / "handover")
        figures += await resolves(Path(place) / "as-found", "full resolve, PATH as found", rounds=rounds)
        # The sample's checks are calls of python3; a version manager's shim before it is not ours to be quick.
        os.environ["PATH"] = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
        figures += await resolves(Path(place) / "direct", "full resolve, no python3 shim", rounds=rounds)
        # How often each is run besides, varied, or tried without parts of the change, is policy.
        once = "full resolve, each check once"
        figures += await resolves(Path(place) / "once", once, rounds=rounds, bar=2.5, overrides=ONCE)
    figures += cold_starts(rounds=max(5, rounds))
    return figures


async def handovers(directory: Path) -> list[Figure]:
    """A chain of agents, each on the branch the last one left: parse, record, fork and spawn in between."""

    async def asking(run: Run) -> Outcome:
        branch = run.at(run.inputs.base)
        for n in range(HANDOVERS + 1):
            branch = (await run.ask("analyze", Analysis, on=branch, issue=run.inputs.issue, n=n)).branch
        return Declined(reason="measured")

    async def editing(run: Run) -> Outcome:
        branch = run.at(run.inputs.base)
        for n in range(HANDOVERS + 1):
            edited = await run.edit("improve", Fix, on=branch, subject=f"edit {n}", issue=run.inputs.issue, n=n)
            branch = edited.branch
        return Declined(reason="measured")

    figures = []
    for name, playbook, bar in (("ask", asking, 40.0), ("edit", editing, None)):
        prompts = {f".resolvent/prompts/{step}.md": PROMPT for step in ("analyze", "improve")}
        stage = await Stage.set_up(directory / name, files=FILES | prompts)
        PLAYBOOKS["bench"] = playbook
        scenes = [scene("analyze", "VERDICT=INVALID"), scene("improve", "FIX_SUCCESS", append={"value.txt": "more\n"})]
        played = await stage.play(scenes, playbook="bench")
        assert played.outcome == "declined", played.document
        gaps = await gaps_between_jobs(stage, played.document["run"])
        assert len(gaps) >= 50, len(gaps)
        how = f"p50 of {len(gaps)}, p95 {statistics.quantiles(gaps, n=20)[-1]:.1f} ms"
        figures.append(Figure(f"hand-over after {name}", statistics.median(gaps), "ms", bar, how))
        await stage.close()
    return figures


async def gaps_between_jobs(stage: Stage, run: str) -> list[float]:
    """Milliseconds from the rename of one job's exit.json to the next job's `started`."""
    jobs = await (await stage.app.home.journal()).jobs(run)
    places = [stage.app.home.state / "jobs" / job.id for job in jobs]
    times = sorted(
        ((place / "started").stat().st_mtime_ns, (place / "exit.json").stat().st_ctime_ns) for place in places
    )
    return [(started - ended) / 1e6 for (_, ended), (started, _) in pairwise(times)]


async def resolves(
    place: Path, name: str, *, rounds: int, bar: float | None = None, overrides: Sequence[str] = ()
) -> list[Figure]:
    """The demo's whole story with agents that answer at once, and a replay of it."""
    place.mkdir()
    full, replays, verbs = [], [], 0
    for n in range(rounds):
        directory = place / f"resolve-{n}"
        directory.mkdir()
        project = await make_sample(directory)
        stage = Stage(directory, project=project, overrides=overrides)
        demo_story.write_story(directory / "story.json", demo_story.true_story())
        issue = await stage.issue(*sample_issue())
        begun = time.perf_counter()
        run = await stage.submit(Entry(kind="issue", reference=str(issue.number)))
        played = await stage.go_on(run)
        full.append(await first_to_last(stage, run))
        assert played.outcome == "proven", played.document["reason"]
        assert time.perf_counter() - begun > full[-1]
        verbs = len(played.steps)
        replays.append(await replay(stage, run))
        await stage.close()
    return [
        Figure(name, statistics.median(full), "s", bar, f"{verbs} verbs, instant agents, median of {rounds}"),
        Figure("replay of a finished run", statistics.median(replays), "s", 0.25, f"{verbs} verbs, median of {rounds}"),
    ]


async def first_to_last(stage: Stage, run: str) -> float:
    """Seconds from the submit to the recorded end."""
    row = await stage.app.run(run)
    return row.updated_at - row.created_at


async def replay(stage: Stage, run: str) -> float:
    """Play an ended run once more: every verb answers from the record."""
    journal = await stage.app.home.journal()
    row = await stage.app.run(run)
    before = len(await journal.jobs(run))
    await journal.reopen(run, subjects=(row.subject,))
    await Session(stage.app.home).follow(run)
    events = await journal.events(run)
    ended = [recorded.at for recorded in events if recorded.event.event == "run_ended"]
    resumed = [recorded.at for recorded in events if recorded.event.event == "run_resumed"]
    assert len(await journal.jobs(run)) == before
    return ended[-1] - resumed[-1]


def cold_starts(*, rounds: int) -> list[Figure]:
    """The command line from nothing to its answer."""
    with tempfile.TemporaryDirectory(prefix="resolvent-bench-") as place:
        subprocess.run(["git", "init", "-q", place], check=True)
        figures = []
        for words, bar in ((("--help",), 0.2), (("runs",), 0.25)):
            times = []
            for _ in range(rounds):
                begun = time.perf_counter()
                subprocess.run(
                    [str(Path(sys.executable).with_name("resolvent")), *words],
                    cwd=place,
                    env={"PATH": "/usr/bin:/bin", "HOME": place, "RESOLVENT_HOME": f"{place}/state"},
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                times.append(time.perf_counter() - begun)
            name = f"cold start of `resolvent {words[0]}`"
            figures.append(Figure(name, statistics.median(times), "s", bar, f"median of {rounds}"))
    return figures


SECTIONS = ("engine", "branches", "calls")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=SECTIONS, help="one part of it")
    small = bool(os.environ.get("CI"))
    words = "branches on a tree of 2,000 files instead of 100,000; so too where CI is set, or the disk is too small"
    parser.add_argument("--small", action="store_true", default=small, help=words)
    asked = parser.parse_args()
    wanted = (asked.only,) if asked.only else SECTIONS
    measured = branches.measured(small=asked.small) if "branches" in wanted else []
    measured += asyncio.run(main(asked.rounds)) if "engine" in wanted else []
    measured += calls.measured(issues=5 if asked.small else calls.ISSUES) if "calls" in wanted else []
    sys.stdout.write((json.dumps([one._asdict() for one in measured]) if asked.json else table(measured)) + "\n")
    sys.exit(any(one.over for one in measured))
