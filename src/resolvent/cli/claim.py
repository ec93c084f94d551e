"""resolvent claim: who works on what, across hosts, and how to end a claim whose host is gone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import help_when_bare
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell

app = typer.Typer(
    help="Claims on the forge: one run per subject, whichever host it is on.",
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=help_when_bare,
)


@app.command("ls")
def ls(json: Json = False, directory: Directory = None) -> None:
    """List the claims of this store, and those of other hosts that kept it from a run."""
    from resolvent.cli.place import run

    run(_ls(directory, json=json))


async def _ls(directory: Path | None, *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit
    from resolvent.intake.claims import claims

    async with opened(directory) as opened_app:
        found = await claims(opened_app.home)
    if json:
        emit([one._asdict() for one in found])
        return
    terminal = stdout()
    rows: list[list[Cell]] = [[one.subject, "ours" if one.ours else "another's", one.said] for one in found]
    terminal.say(*(terminal.table(rows, align="<<<", indent=0) or ["nothing is claimed"]))


@app.command("release")
def release(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="issue-7, pr-8, or the number of an issue.")],
    force: Annotated[bool, typer.Option("--force", help="Also when its run may still be at work.")] = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """End the claim on a subject, so that any host may take it up.

    Says who holds it, and since when; a claim is ended only with --force, unless its run is over here.
    """
    from resolvent.cli.place import run

    run(_release(directory, _subject(subject), force=force, json=json))


async def _release(directory: Path | None, subject: str, *, force: bool, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit
    from resolvent.intake.claims import end_claim

    async with opened(directory) as opened_app:
        ended = await end_claim(opened_app.home, subject, force=force)
    if json:
        emit({"subject": subject, "holder": ended.holder if ended else None})
        return
    said: list[Any] = [f"{subject} was held by {one_line(ended.said)}, and is free now"] if ended else []
    stdout().say(*(said or [f"nobody holds {subject}"]))


def _subject(text: str) -> str:
    """The subject a person means."""
    word = text.strip().removeprefix("#")
    if word.isascii() and word.isdigit():
        return f"issue-{word}"
    kind, _, number = word.partition("-")
    if kind in ("issue", "pr") and number.isascii() and number.isdigit():
        return word
    raise UsageError(f"{text[:80]!a} is no subject", hint="resolvent claim release issue-7")
