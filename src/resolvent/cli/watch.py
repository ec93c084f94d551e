"""resolvent watch: come back to a run."""

from pathlib import Path

import typer

from resolvent.cli.options import Directory, Follow, Json, RunName
from resolvent.cli.root import app


@app.command()
def watch(name: RunName = "last", json: Json = False, follow: Follow = False, directory: Directory = None) -> None:
    """Follow a run until it ends or asks a person.

    Works on it when nobody else does, and goes on where a killed process stopped.
    """
    from resolvent.cli.place import run

    raise typer.Exit(run(_watch(directory, name, json, follow)))


async def _watch(directory: Path | None, name: str, json: bool, events: bool) -> int:
    from resolvent.cli.following import follow
    from resolvent.cli.place import opened

    async with opened(directory) as app:
        return await follow(app, await app.run(name), json=json, events=events)
