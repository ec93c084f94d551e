"""resolvent logs: what agents and checks printed."""

from typing import Annotated

import typer

from resolvent.cli.options import Directory, RunName
from resolvent.cli.root import app


@app.command()
def logs(
    name: RunName = "last",
    step: Annotated[str, typer.Argument(metavar="STEP", help="Only this step: review, fix, 'reproducer F1', …")] = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends or waits.")] = False,
    directory: Directory = None,
) -> None:
    """Print what the agents and checks of a run printed."""
    from resolvent.cli.place import run
    from resolvent.cli.printing import print_logs

    run(print_logs(directory, name, step, follow=follow))
