"""resolvent retry and fork: an ended run once more, as itself or as a new one."""

from pathlib import Path
from typing import Annotated

import typer

from resolvent.cli.options import Detach, Directory, Follow, Json, Manner, RunName
from resolvent.cli.root import app


@app.command()
def retry(
    name: RunName = "last",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read the issue, the settings and the prompts again.")
    ] = False,
    detach: Detach = False,
    json: Json = False,
    follow: Follow = False,
    directory: Directory = None,
) -> None:
    """Try the failed steps of an ended run once more.

    What was done stays done.
    """
    from resolvent.cli.place import run

    raise typer.Exit(run(_retry(directory, name, refresh, Manner(detach, json, follow))))


async def _retry(directory: Path | None, name: str, refresh: bool, manner: Manner) -> int:
    from resolvent.cli.following import start_or_follow
    from resolvent.cli.place import opened

    async with opened(directory) as app:
        return await start_or_follow(app, await app.retry(name, refresh=refresh), manner)


@app.command()
def fork(
    name: RunName = "last",
    *,
    step: Annotated[str, typer.Option("--from", metavar="STEP", help="The first step to do anew: review, edit:fix, …")],
    detach: Detach = False,
    json: Json = False,
    follow: Follow = False,
    directory: Directory = None,
) -> None:
    """Start a new run from a step of an ended one.

    It keeps the answers, edits and checks up to that step.
    """
    from resolvent.cli.place import run

    raise typer.Exit(run(_fork(directory, name, step, Manner(detach, json, follow))))


async def _fork(directory: Path | None, name: str, step: str, manner: Manner) -> int:
    from resolvent.cli.following import start_or_follow
    from resolvent.cli.place import opened

    async with opened(directory) as app:
        return await start_or_follow(app, await app.fork(name, from_step=step), manner)
