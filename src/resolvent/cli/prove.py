"""`resolvent prove`: the self-test, run by whoever wants to see it."""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell
    from resolvent.testing.escape.suite import Proof
    from resolvent.testing.gates.bench import Result
    from resolvent.testing.gates.lane import Case

app = typer.Typer(help="Self-tests that print a table: what was tried, and what came of it.", no_args_is_help=True)
STYLES = {
    "SAFE": "green",
    "ESCAPED": "bold red",
    "LIMITED": "yellow",
    "FLAGGED": "yellow",
    "NOT TRIED": "cyan",
    "BROKEN": "bold red",
}


@app.command()
def crash(
    directory: Path | None = typer.Option(None, help="Where to work; a temporary directory if not given."),
    jobs: int = typer.Option(2, min=1, max=16, help="How many cases at once."),
    as_json: bool = typer.Option(False, "--json", help="Print the verdicts as JSON."),
) -> None:
    """Kill the engine with SIGKILL at every boundary of every verb, start it again, and compare with a calm run."""
    from resolvent.cli.place import run

    with tempfile.TemporaryDirectory(prefix="resolvent-prove-") as temporary:
        raise typer.Exit(run(_crash(directory or Path(temporary), jobs, as_json)))


async def _crash(directory: Path, jobs: int, as_json: bool) -> int:
    from resolvent.testing import crash as suite

    def told(verdict: suite.Verdict) -> None:
        if not as_json and not verdict.same:
            print(f"✗ {verdict.case.point} {verdict.case.verb}: {', '.join(verdict.differences)}", flush=True)
        elif not as_json and sys.stderr.isatty():
            print(f"\r✓ {verdict.case.point} {verdict.case.name:40.40}", end="", file=sys.stderr, flush=True)

    if not as_json:
        print("killing the engine at every boundary; this takes a few minutes", flush=True)
    verdicts = await suite.prove(directory, at_once=jobs, told=told)
    good = all(verdict.killed and verdict.same for verdict in verdicts)
    if as_json:
        print(json.dumps([asdict(verdict) for verdict in verdicts]))
    else:
        print("\n" + suite.table(verdicts))
    return 0 if good else 1


@app.command()
def sandbox(
    directory: Path | None = typer.Option(None, help="Where to work; the temporary directory if not given."),
    rung: str = typer.Option("auto", metavar="RUNG", help="auto, overlay, memory, copy or landlock."),
    only: str = typer.Option("", metavar="TEXT", help="Only attacks with this text in their names."),
    as_json: bool = typer.Option(False, "--json", help="Print the results as JSON."),
) -> None:
    """Try to get out of a branch, in every way of the threat table, on this machine.

    Exit 1: one succeeded, one that is possible here could not be made, or nothing was tried at all.
    """
    from resolvent.cli.place import run

    if directory is not None and not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", hint=f"mkdir -p {quote(str(directory))}")
    with tempfile.TemporaryDirectory(prefix="resolvent-prove-", dir=directory) as temporary:
        raise typer.Exit(run(_sandbox(Path(temporary), rung, only, as_json)))


async def _sandbox(directory: Path, rung: str, only: str, as_json: bool) -> int:
    from resolvent.cli.terminal import one_line, stderr
    from resolvent.testing.escape import suite

    if rung not in suite.RUNGS:
        raise UsageError(f"there is no rung {rung!a}; there are: {', '.join(suite.RUNGS)}", hint="resolvent doctor")
    if not any(only.lower() in attack.name.lower() for attack in suite.ATTACKS):
        raise UsageError(f"no attack has {only!a} in its name", hint="resolvent prove sandbox  # names them all")
    live = stderr().live and not as_json

    def told(result: suite.Result) -> None:
        if live:
            print(f"\r{result.verdict:9} {one_line(result.attack):60.60}", end="", file=sys.stderr, flush=True)

    if not as_json:
        print("trying to get out of branches; this takes up to a minute", flush=True)
    proof = await suite.prove(directory, rung=rung, only=only, told=told)
    if as_json:
        print(json.dumps(asdict(proof)))
    else:
        print("\r" if live else "", end="")
        _print(proof)
    return 0 if proof.holds else 1


def _print(proof: "Proof") -> None:
    """A row per attack, then what is to be said of those that did not simply fail."""
    from resolvent.cli.terminal import one_line, stdout

    terminal = stdout()
    rows: list[list[Cell]] = [["attack", "defence", "result", "ms"]]
    for result in proof.results:
        rows.append([result.attack, (result.defence, "dim"), (result.verdict, STYLES[result.verdict]), str(result.ms)])
    terminal.say(*terminal.table(rows, align="<=<>", indent=0), "")
    for result in proof.results:
        if result.verdict != "SAFE":
            verdict = terminal.paint(result.verdict, STYLES[result.verdict])
            terminal.say(f"{verdict}  {one_line(result.attack)}: {one_line(result.said)}")
    terminal.say("", f"rung {proof.rung}, jobs run as user {proof.user}", proof.summary)


@app.command()
def gates(
    directory: Path | None = typer.Option(None, help="Where to work; the temporary directory if not given."),
    jobs: int = typer.Option(2, min=1, max=64, help="How many bugs at once."),
    only: str = typer.Option(
        "", metavar="ADVERSARY/BUG", help="Only what has these texts in its names; one may be empty."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="Every adversary on one bug, and the honest author on every bug."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print every case as JSON."),
) -> None:
    """Let agents that cheat, and an honest one, fix a corpus of bugs; the reviewer sees nothing, so only rules count.

    Exit 1: a wrong change was accepted, a right one was not proven, or a rejection names no rule.
    """
    from resolvent.cli.place import run

    if directory is not None and not directory.is_dir():
        raise UsageError(f"{directory} is not a directory", hint=f"mkdir -p {quote(str(directory))}")
    with tempfile.TemporaryDirectory(prefix="resolvent-prove-", dir=directory) as temporary:
        raise typer.Exit(run(_gates(Path(temporary), (only, quick), jobs, as_json)))


async def _gates(directory: Path, wanted: tuple[str, bool], jobs: int, as_json: bool) -> int:
    from resolvent.cli.terminal import stderr
    from resolvent.testing.gates import bench

    planned = bench.quick() if wanted[1] and not wanted[0] else bench.plan(wanted[0])
    if not planned.cases:
        raise UsageError(f"no case is called {wanted[0]!a}", hint="resolvent prove gates --only honest/pages")
    live, done = stderr().live and not as_json, 0

    def told(case: "Case") -> None:
        nonlocal done
        done += 1
        wrong = case.false_accept or case.false_reject
        if wrong and not as_json:
            print(f"✗ {case.adversary}/{case.bug}: {case.outcome} {case.said}", flush=True)
        elif live:
            print(
                f"\r{done} of {planned.cases}: {case.adversary}/{case.bug:40.40}", end="", file=sys.stderr, flush=True
            )

    if not as_json:
        print(f"{planned.cases} cases; the whole bench takes some minutes", flush=True)
    result = await bench.prove(directory, planned, at_once=jobs, told=told)
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        print("\r" if live else "", end="")
        _print_gates(result)
    return 0 if result.holds else 1


def _print_gates(result: "Result") -> None:
    """A row per adversary, then what was wrong, what could not be tried, and the sum."""
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.testing.gates.bench import rows

    terminal = stdout()
    terminal.say(*terminal.table(rows(result), align="<>>=", indent=0), "")
    for kind, cases in (("FALSE ACCEPT", result.false_accepts), ("FALSE REJECT", result.false_rejects)):
        for case in cases:
            told = one_line(f"{case.adversary}/{case.bug}: {case.outcome} {case.said}")
            terminal.say(f"{terminal.paint(kind, 'bold red')}  {told}")
    for case in result.unexplained:
        terminal.say(f"NO RULE  {one_line(f'{case.adversary}/{case.bug}: {case.said}')}")
    for bug, why in result.skipped:
        terminal.say(f"NOT TRIED  {bug}: {why}")
    terminal.say(result.summary)
