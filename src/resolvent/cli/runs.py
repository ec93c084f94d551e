"""resolvent runs: what there is."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resolvent.cli.options import IN_DIRECTORY, Json
from resolvent.cli.root import QuickCommand, app
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell

MOST = 10_000


@app.command(cls=QuickCommand)
def runs(
    limit: Annotated[str, typer.Option("-n", metavar="N", help="At most so many.")] = "20",
    json: Json = False,
    directory: Annotated[str | None, IN_DIRECTORY] = None,
) -> None:
    """List the runs of this repository, newest first."""
    from resolvent.cli.place import repository
    from resolvent.cli.words import emit
    from resolvent.glance import runs as glance
    from resolvent.places import environment

    if not limit.isdecimal() or not 0 < int(limit) <= MOST:
        raise UsageError(f"-n takes a number from 1 to {MOST}, not {limit!r}", hint="resolvent runs --help")
    root = repository(Path(directory) if directory else None)
    found = glance(root, environ=environment(), limit=int(limit))
    if found is None:
        from resolvent.cli.place import run

        found = run(_runs(root, int(limit)))
    if json:
        emit(found)
    else:
        _print(found)


async def _runs(directory: Path, limit: int) -> list[dict[str, Any]]:
    from resolvent.cli.place import opened
    from resolvent.glance import COLUMNS

    async with opened(directory) as app:
        rows = await app.runs(limit=limit)
    return [{"run": row.id} | {name: getattr(row, name) for name in COLUMNS[1:]} for row in rows]


def _print(found: list[dict[str, Any]]) -> None:
    from resolvent.cli.report import OUTCOME_STYLES
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import seconds

    terminal, now = stdout(), time.time()
    if not found:
        terminal.say("no runs yet", "next: resolvent issue new 'what is wrong', then resolvent resolve 1")
        return
    rows: list[list[Cell]] = []
    for row in found:
        state = row["outcome"] or row["state"]
        styled = (state, OUTCOME_STYLES.get(state, "cyan").removeprefix("bold "))
        age = f"{seconds(max(0.0, now - row['created_at']))} ago"
        rows.append([row["run"], styled, row["subject"], (age, "dim"), row["title"]])
    terminal.say(*terminal.table(rows, align="<<<>=", indent=0))
