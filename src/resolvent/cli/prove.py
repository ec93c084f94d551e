"""`resolvent prove`: the self-test, run by whoever wants to see it."""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import typer

app = typer.Typer(help="Self-tests that print a table: what was tried, and what came of it.", no_args_is_help=True)


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
