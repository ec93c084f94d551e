"""resolvent decide and cancel: what a person says to a run."""

from pathlib import Path
from typing import Annotated

import typer

from resolvent.cli.options import Directory, Json, RunName
from resolvent.cli.root import app
from resolvent.errors import UsageError


@app.command()
def decide(
    words: Annotated[
        list[str], typer.Argument(metavar="[RUN] CHOICE", help="The run (the newest when not given) and the choice.")
    ],
    reason: Annotated[str, typer.Option(help="Why, for the record.", show_default=False)] = "",
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Answer the question a run has put to a person."""
    from resolvent.cli.place import run

    if len(words) > 2:
        raise UsageError("one run and one choice", hint="resolvent decide RUN CHOICE")
    name, choice = words if len(words) == 2 else ("last", words[0])
    run(_decide(directory, name, choice, reason=reason, json=json))


async def _decide(directory: Path | None, name: str, choice: str, *, reason: str, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit, person
    from resolvent.working import Session

    async with opened(directory) as app:
        decision = await app.decide(name, choice, by=person(), reason=reason)
        worker = await Session(app.home).worker()
        if json:
            emit(decision.model_dump(mode="json") | {"worker": worker})
            return
        stdout().say(f"{decision.run}: {one_line(decision.question.text)} → {one_line(choice)}")
        if worker:
            stdout().say(f"process {worker} goes on with it", f"next: resolvent watch {decision.run}")
        else:
            stdout().say("no worker is running", f"next: resolvent watch {decision.run}")


@app.command()
def cancel(name: RunName = "last", json: Json = False, directory: Directory = None) -> None:
    """End a run; returns when no process of it is left."""
    from resolvent.cli.place import run

    run(_cancel(directory, name, json))


async def _cancel(directory: Path | None, name: str, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit
    from resolvent.working import Session

    async with opened(directory) as app:
        row = await app.run(name)
        if row.state == "ended" and row.outcome != "cancelled":
            raise UsageError(f"{row.id} has ended: {row.outcome}", hint=f"resolvent show {row.id}")
        await Session(app.home).cancel(row.id)
        document = await app.document(row.id)
        if json:
            emit(document)
        elif document["outcome"] == "cancelled":
            stdout().say(f"{row.id} is cancelled, none of its processes is left", f"next: resolvent retry {row.id}")
        else:
            stdout().say(f"{row.id} had ended by then: {document['outcome']}", f"next: resolvent show {row.id}")
