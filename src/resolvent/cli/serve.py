"""resolvent serve: the worker in the foreground."""

from typing import Annotated

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import app


@app.command()
def serve(
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is queued or running.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated.")
    ] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Work on the runs of this repository until told to stop.

    The first Ctrl-C (or SIGTERM) starts nothing new and waits for the agents at work; the second stops them.
    """
    from resolvent.cli.place import run
    from resolvent.cli.serving import serve_runs

    run(serve_runs(directory, tuple(settings or ()), until_idle=until_idle, json=json))
