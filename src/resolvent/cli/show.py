"""resolvent show, diff and evidence: what the record says of a run."""

from pathlib import Path

import typer

from resolvent.cli.options import Directory, Json, RunName
from resolvent.cli.root import app


@app.command()
def show(name: RunName = "last", json: Json = False, directory: Directory = None) -> None:
    """Show a run: outcome, evidence, findings, pull request."""
    from resolvent.cli.place import run

    run(_show(directory, name, json))


async def _show(directory: Path | None, name: str, json: bool) -> None:
    from resolvent.cli.following import facts_of
    from resolvent.cli.place import opened
    from resolvent.cli.report import report
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit

    async with opened(directory) as app:
        document = await app.document(name)
        if json:
            emit(document)
            return
        terminal = stdout()
        terminal.say(*report(terminal, await facts_of(app, document)))


@app.command()
def diff(name: RunName = "last", json: Json = False, directory: Directory = None) -> None:
    """Print the patch from the base to the newest change of a run."""
    from resolvent.cli.place import run

    run(_diff(directory, name, json))


async def _diff(directory: Path | None, name: str, json: bool) -> None:
    from resolvent import reading
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import clean, stderr, stdout
    from resolvent.cli.words import emit

    async with opened(directory) as app:
        row = await app.run(name)
        patch = await reading.diff(app, row)
    if json:
        emit({"run": row.id, "patch": patch})
        return
    if not patch:
        stderr().say(f"{row.id} has changed nothing")
    terminal = stdout()
    if not terminal.live:
        typer.echo(patch, nl=False)
        return
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in clean(patch).splitlines():
        heading = line.startswith(("+++ ", "--- ", "diff "))
        terminal.say(terminal.paint(line, "bold" if heading else styles.get(line[:1], "")))


@app.command()
def evidence(name: RunName = "last", json: Json = False, directory: Directory = None) -> None:
    """List what the checks said of which commit.

    Below the table are the commands, to run them again by hand.
    """
    from resolvent.cli.place import run

    run(_evidence(directory, name, json))


async def _evidence(directory: Path | None, name: str, json: bool) -> None:
    from resolvent.cli import report
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit

    async with opened(directory) as app:
        document = await app.document(name)
    if json:
        emit(document["evidence"])
        return
    terminal = stdout()
    if not document["evidence"]:
        terminal.say(f"{document['run']} has run no check yet")
        return
    terminal.say(*report.evidence(terminal, document), "")
    for item in {item["check"]: item for item in document["evidence"]}.values():
        terminal.say(terminal.paint(f"  {one_line(item['check'])}: ", "dim") + one_line(item["command"]))
