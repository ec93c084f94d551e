"""resolvent logs: what agents did and checks printed."""

from typing import Annotated

import typer

from resolvent.cli.options import Directory, Json, RunName
from resolvent.cli.root import app
from resolvent.errors import UsageError


@app.command()
def logs(
    name: RunName = "last",
    step: Annotated[str, typer.Argument(metavar="STEP", help="Only this step: review, fix, 'reproducer F1', …")] = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends or waits.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Every byte as it was printed.")] = False,
    last: Annotated[
        int | None, typer.Option(metavar="N", help="At most the last N moments of each agent; 500 when not given.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Only the last N jobs.")] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Show what the agents of a run did, and what its checks printed."""
    from resolvent.cli.place import run
    from resolvent.cli.printing import Asked, emit_logs, print_logs

    if json and (follow or raw):
        said = "-f prints what comes" if follow else "--raw prints the bytes themselves"
        raise UsageError(f"{said}, --json what there is", hint="resolvent logs --json")
    for word, number in (("--last", last), ("--jobs", jobs)):
        if number is not None and number < 1:
            raise UsageError(f"{word} takes a number from 1 on, not {number}", hint="resolvent logs --help")
    asked = Asked(step, jobs=jobs, last=last, raw=raw)
    run(emit_logs(directory, name, asked) if json else print_logs(directory, name, asked, follow=follow))
