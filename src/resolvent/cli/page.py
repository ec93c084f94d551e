"""resolvent report: a run as one HTML page that needs nothing else."""

from pathlib import Path
from typing import Annotated

import typer

from resolvent.cli.options import Directory, Json, RunName
from resolvent.cli.root import app
from resolvent.errors import UsageError


@app.command("report")
def report(
    name: RunName = "last",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; resolvent-RUN.html when not given."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Write a run as one HTML page: evidence with logs, findings, diff, cost, decisions.

    The page holds everything itself: it loads nothing and runs no script.
    """
    from resolvent.cli.place import run

    run(_report(directory, name, output, show=show, json=json))


async def _report(directory: Path | None, name: str, output: Path | None, *, show: bool, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit
    from resolvent.receipts.page import page
    from resolvent.receipts.story import told

    async with opened(directory) as application:
        row = await application.run(name)
        text = page(await told(application, row))
    place = (output or Path(f"resolvent-{row.id}.html")).absolute()
    try:
        place.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{place} cannot be written: {why}", hint=f"resolvent report {row.id} -o FILE") from error
    if json:
        emit({"run": row.id, "file": str(place), "bytes": place.stat().st_size})
    else:
        stdout().say(str(place))
    if show:
        typer.launch(str(place))
