"""resolvent issue: the issues of the local forge."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import help_when_bare
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell
    from resolvent.domain.subject import Comment, Issue

app = typer.Typer(
    help="Issues of the local forge.", rich_markup_mode=None, invoke_without_command=True, callback=help_when_bare
)
Reference = Annotated[str, typer.Argument(metavar="N", help="Its number.")]


@app.command("new")
def new(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="One line that says what is wrong.")] = "",
    body: Annotated[str, typer.Option("--body", metavar="TEXT", help="The rest.", show_default=False)] = "",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read both from a Markdown file instead.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A label; may be repeated.")] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Open an issue."""
    from resolvent.cli.place import run

    if bool(title) == bool(file):
        raise UsageError("an issue has one title", hint="resolvent issue new 'what is wrong', or --file bug.md")
    if file:
        from resolvent.adapters.forges.markdown import issue_from_markdown

        read = issue_from_markdown(file)
        title, body = read.title, read.body
    run(_new(directory, (title, body), label or [], json=json))


async def _new(directory: Path | None, text: tuple[str, str], labels: list[str], *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit, person

    async with opened(directory) as opened_app:
        forge = await opened_app.home.forge_as(person())
        issue = await forge.open_issue(title=text[0], body=text[1], labels=labels)
    if json:
        emit(issue.model_dump(mode="json"))
    else:
        stdout().say(f"#{issue.number}  {one_line(issue.title)}", f"next: resolvent resolve {issue.number}")


@app.command("ls")
def ls(
    state: Annotated[Literal["open", "closed", "all"], typer.Option(help="Which ones.")] = "open",
    json: Json = False,
    directory: Directory = None,
) -> None:
    """List issues, oldest first."""
    from resolvent.cli.place import run

    run(_ls(directory, state, json=json))


async def _ls(directory: Path | None, state: Literal["open", "closed", "all"], *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit

    async with opened(directory) as opened_app:
        issues = await (await opened_app.home.forge()).issues(state=state)
    if json:
        emit([issue.model_dump(mode="json") for issue in issues])
        return
    terminal = stdout()
    styles = {"open": "green", "closed": "dim"}
    rows: list[list[Cell]] = [
        [f"#{issue.number}", (issue.state, styles[issue.state]), issue.title, (", ".join(issue.labels), "cyan")]
        for issue in issues
    ]
    none = [f"no {'' if state == 'all' else f'{state} '}issues", "next: resolvent issue new 'what is wrong'"]
    terminal.say(*(terminal.table(rows, align="><=<", indent=0) or none))


@app.command("show")
def show(reference: Reference, json: Json = False, directory: Directory = None) -> None:
    """Show an issue with its comments."""
    from resolvent.cli.place import run

    run(_show(directory, reference, json=json))


async def _show(directory: Path | None, reference: str, *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import clean, one_line, stdout
    from resolvent.cli.words import emit

    async with opened(directory) as opened_app:
        forge = await opened_app.home.forge()
        issue = await forge.issue(reference)
        comments = await forge.comments(issue.key)
    if json:
        emit(issue.model_dump(mode="json") | {"comments": [item.model_dump(mode="json") for item in comments]})
        return
    terminal = stdout()
    terminal.say(f"{terminal.paint(f'#{issue.number}', 'bold')}  {terminal.paint(one_line(issue.title), 'bold')}")
    terminal.say(terminal.paint(f"{issue.state} · {one_line(issue.author)} · {issue.url}", "dim"))
    if issue.body:
        terminal.say("", clean(issue.body))
    terminal.say(*comment_lines(comments))


def comment_lines(comments: "tuple[Comment, ...]") -> list[str]:
    """Comments for people: who, where, and the text without our markers."""
    from resolvent.cli.terminal import clean, one_line, stdout
    from resolvent.domain.subject import HIDDEN

    terminal, lines = stdout(), []
    for comment in comments:
        lines += ["", terminal.paint(f"── {one_line(comment.author)} · {comment.url}", "dim")]
        lines.append(clean(HIDDEN.sub("", comment.body)).strip())
    return lines


@app.command("comment")
def comment(
    reference: Reference,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Comment on an issue.

    The link it prints can be given to `resolvent resolve --design-comment`.
    """
    from resolvent.cli.place import run

    run(_comment(directory, reference, text, json=json))


async def _comment(directory: Path | None, reference: str, text: str, *, json: bool) -> None:
    from resolvent.cli.place import opened
    from resolvent.cli.words import emit, person

    async with opened(directory) as opened_app:
        forge = await opened_app.home.forge_as(person())
        issue = await forge.issue(reference)
        said = await forge.comment(issue.key, text)
    if json:
        emit(said.model_dump(mode="json"))
    else:
        print(said.url)


@app.command("close")
def close(reference: Reference, json: Json = False, directory: Directory = None) -> None:
    """Close an issue."""
    from resolvent.cli.place import run

    issue = run(_close(directory, reference))
    if json:
        from resolvent.cli.words import emit

        emit(issue.model_dump(mode="json"))
    else:
        print(f"#{issue.number} is closed")


async def _close(directory: Path | None, reference: str) -> "Issue":
    from resolvent.cli.place import opened

    async with opened(directory) as opened_app:
        forge = await opened_app.home.forge()
        issue = await forge.issue(reference)
        await forge.set_state(issue.key, "closed")
        return await forge.issue(reference)
