"""resolvent logs: what agents and checks printed."""

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
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Print what the agents and checks of a run printed."""
    from resolvent.cli.place import run
    from resolvent.cli.printing import emit_logs, print_logs

    if follow and json:
        raise UsageError("-f prints what comes, --json what there is", hint="resolvent logs --json")
    run(emit_logs(directory, name, step) if json else print_logs(directory, name, step, follow=follow))
