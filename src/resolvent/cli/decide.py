"""resolvent decide and cancel: what a person says to a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resolvent.cli.options import Directory, Json, RunName
from resolvent.cli.root import app
from resolvent.errors import NotFound, UsageError

if TYPE_CHECKING:
    from resolvent.app import App


@app.command()
def decide(
    words: Annotated[
        list[str], typer.Argument(metavar="[RUN] CHOICE…", help="The run (the newest when not given) and the choice.")
    ],
    reason: Annotated[str, typer.Option(help="Why, for the record.", show_default=False)] = "",
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Answer the question a run has put to a person."""
    from resolvent.cli.place import run

    run(_decide(directory, words, reason=reason, json=json))


async def _meant(app: "App", words: list[str]) -> tuple[str, str]:
    """The run and the choice, which may be of several words: a choice of the newest run, else a run and its choice."""
    whole = " ".join(words)
    if len(words) == 1:
        return "last", whole
    newest = await app.run("last")
    try:
        choices = (await app.question(newest)).choices
    except UsageError:
        choices = ()
    if whole in choices:
        return newest.id, whole
    try:
        return (await app.run(words[0])).id, " ".join(words[1:])
    except NotFound:
        # Half a choice is no name of a run: then it is said which choices there are.
        if not any(choice.split()[:1] == words[:1] for choice in choices):
            raise
        return newest.id, whole


async def _decide(directory: Path | None, words: list[str], *, reason: str, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit, person
    from resolvent.working import Session

    async with opened(directory) as app:
        name, choice = await _meant(app, words)
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
