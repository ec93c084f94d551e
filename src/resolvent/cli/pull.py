"""resolvent pr: the pull requests of the local forge."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import help_when_bare
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell
    from resolvent.domain.subject import Listed, PullRequest, RequiredCheck
    from resolvent.ports import Forge

app = typer.Typer(
    help="Pull requests of the local forge.",
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=help_when_bare,
)
Reference = Annotated[str, typer.Argument(metavar="N", help="Its number.")]
PullState = Literal["open", "closed", "merged", "all"]
STYLES = {"open": "green", "merged": "cyan", "closed": "dim", "passed": "green", "failed": "red", "pending": "yellow"}


@app.command("ls")
def ls(
    state: Annotated[PullState, typer.Option(help="Which ones.")] = "open",
    json: Json = False,
    directory: Directory = None,
) -> None:
    """List pull requests, newest first."""
    from resolvent.cli.place import run

    run(_ls(directory, state, json=json))


async def _ls(directory: Path | None, state: PullState, *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit, short

    async with opened(directory) as opened_app:
        listed: Listed = "closed" if state == "merged" else state
        found = await (await opened_app.home.forge()).pull_requests(state=listed)
        pulls = [pull for pull in found if state in ("all", pull.state)]
    if json:
        emit([pull.model_dump(mode="json") for pull in pulls])
        return
    rows: list[list[Cell]] = [
        [f"#{pull.number}", (pull.state, STYLES[pull.state]), pull.title, (short(pull.head_commit), "dim"), pull.head]
        for pull in pulls
    ]
    none = [f"no {'' if state == 'all' else f'{state} '}pull requests"]
    stdout().say(*(stdout().table(rows, align="><=<<", indent=0) or none))


@app.command("show")
def show(reference: Reference, json: Json = False, directory: Directory = None) -> None:
    """Show a pull request, its required checks and comments, and the line that fetches it."""
    from resolvent.cli.place import run

    run(_show(directory, reference, json=json))


async def _show(directory: Path | None, reference: str, *, json: bool) -> None:
    from resolvent.cli.issue import comment_lines
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import clean, stdout
    from resolvent.cli.words import emit
    from resolvent.domain.subject import HIDDEN

    async with opened(directory) as opened_app:
        forge = await opened_app.home.forge()
        pull = await forge.pull_request(reference)
        comments, checks = await forge.comments(pull.key), await forge.required_checks(pull.head_commit)
    if json:
        emit(
            _document(forge, pull)
            | {"checks": [check.model_dump(mode="json") for check in checks]}
            | {"comments": [item.model_dump(mode="json") for item in comments]}
        )
        return
    terminal = stdout()
    terminal.say(*_head_lines(pull), *_check_lines(checks), "", f"  {forge.fetch_line(pull)}")
    if pull.body:
        terminal.say("", clean(HIDDEN.sub("", pull.body)).strip())
    terminal.say(*comment_lines(comments))


def _document(forge: "Forge", pull: "PullRequest") -> dict[str, Any]:
    return pull.model_dump(mode="json") | {"fetch": forge.fetch_line(pull)}


def _head_lines(pull: "PullRequest") -> list[str]:
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import short

    terminal = stdout()
    state = terminal.paint(pull.state, STYLES[pull.state])
    merged = f" · merged as {short(pull.merge_commit)}" if pull.merge_commit else ""
    where = f"{one_line(pull.head)} at {short(pull.head_commit)} onto {one_line(pull.base)}{merged}"
    return [terminal.paint(f"#{pull.number}  {one_line(pull.title)}", "bold"), f"{state} · {where}"]


def _check_lines(checks: "tuple[RequiredCheck, ...]") -> list[str]:
    from resolvent.cli.terminal import stdout

    rows: list[list[Cell]] = [[check.name, (check.state, STYLES[check.state])] for check in checks]
    return stdout().table(rows, align="=<")


@app.command("merge")
def merge(
    reference: Reference,
    commit: Annotated[
        str, typer.Option("--commit", metavar="SHA", help="Only if this is its head.", show_default=False)
    ] = "",
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Merge exactly the head that a pull request has now."""
    from resolvent.cli.place import run

    run(_merge(directory, reference, commit, json=json))


async def _merge(directory: Path | None, reference: str, commit: str, *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit, short

    async with opened(directory) as opened_app:
        pull = await opened_app.merge(reference, expect=commit)
        forge = await opened_app.home.forge()
    if json:
        emit(_document(forge, pull))
        return
    said = f"#{pull.number} is merged into {pull.base} as {short(pull.merge_commit)}"
    stdout().say(said, f"next: {forge.fetch_line(pull)}")


@app.command("check")
def check(
    reference: Reference,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The check, as in ci/build.")],
    state: Annotated[
        Literal["passed", "failed", "pending"] | None, typer.Option(help="What it says of the head as it is now.")
    ] = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help="Its output, quoted to the next fix.")] = None,
    required: Annotated[
        bool | None, typer.Option("--required/--not-required", help="From now on every commit needs it, or does not.")
    ] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Play CI: report what a check says of a pull request, or make it a required one."""
    from resolvent.cli.place import run

    if state is None and required is None:
        raise UsageError("nothing was said of the check", hint="add --state passed|failed|pending, or --required")
    if log and state is None:
        raise UsageError("a log belongs to a result", hint="add --state failed")
    run(_check(directory, (reference, name), (state, _text(log), required), json=json))


def _text(log: Path | None) -> str:
    if log is None:
        return ""
    try:
        return log.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{log} cannot be read: {error.strerror}", hint="name a file with --log") from error


async def _check(
    directory: Path | None, named: tuple[str, str], said: tuple[Any, str, bool | None], *, json: bool
) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit

    reference, name = named
    state, log, required = said
    async with opened(directory) as opened_app:
        forge = await opened_app.home.local_forge()
        pull = await forge.pull_request(reference)
        if required is not None:
            await (forge.require_check(name) if required else forge.unrequire_check(name))
        if state is not None:
            await forge.report_check(pull.head_commit, name, state=state, log=log)
        checks = await forge.required_checks(pull.head_commit)
    if json:
        emit([check.model_dump(mode="json") for check in checks])
    else:
        stdout().say(*(_check_lines(checks) or ["no check is required"]))
