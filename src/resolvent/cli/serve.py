"""resolvent serve: the worker in the foreground, and what comes from the forge by itself."""

from typing import Annotated

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import app
from resolvent.errors import UsageError


@app.command()
def serve(
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is queued or running.")] = False,
    intake: Annotated[
        bool, typer.Option("--intake", help="Take up labels and mentions on the local forge as well.")
    ] = False,
    no_intake: Annotated[bool, typer.Option("--no-intake", help="Take up nothing by itself.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated.")
    ] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Work on the runs of this repository until told to stop.

    On GitHub, labelled issues and mentions by those who may are taken up as [intake] says; with --until-idle the forge
    is asked once. The first Ctrl-C (or SIGTERM) starts nothing new and waits for the agents at work; the second stops
    them.
    """
    from resolvent.cli.place import run
    from resolvent.cli.serving import Manner, serve_runs

    if intake and no_intake:
        raise UsageError("intake is on or off, not both", hint="resolvent serve --help")
    wanted = True if intake else False if no_intake else None
    run(serve_runs(directory, tuple(settings or ()), Manner(until_idle=until_idle, intake=wanted, json=json)))
