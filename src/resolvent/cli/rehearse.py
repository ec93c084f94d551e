"""resolvent rehearse: a run on a copy of a repository, and what it would have done to the real one."""

import re
from typing import Annotated, Literal

import typer

from resolvent.cli.options import Directory, Json, Sets
from resolvent.cli.root import app
from resolvent.errors import UsageError

_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_LINK = re.compile(r"https://(?P<host>[^/\s]+)/(?P<repo>[\w.-]+/[\w.-]+)/(?:issues|pull)/\d+\S*", re.ASCII)
EXAMPLE = "resolvent rehearse acme/widgets 42, or: resolvent rehearse --here 42"


@app.command()
def rehearse(
    target: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OWNER/REPO] TARGET", help="The repository, and an issue or pull request of it."),
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="An issue of the forge on this machine instead.")] = False,
    origin: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="Take the commits from this path or URL.", show_default=False)
    ] = "",
    ci: Annotated[
        Literal["passed", "failed", "none"], typer.Option(help="What the required checks say; none: none is required.")
    ] = "passed",
    go_on: Annotated[
        str, typer.Option("--go-on", metavar="ID", help="Take up a rehearsal that ended early.", show_default=False)
    ] = "",
    decide: Annotated[
        str, typer.Option(metavar="CHOICE", help="With --go-on: answer what it asks first.", show_default=False)
    ] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep it; else only the newest few are kept.")] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Let agents and checks run as you, without walls.")] = False,
    settings: Sets = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Run a policy on a copy of a repository; nothing reaches the real one.

    Copies the issue or pull request with its comments into a forge on this machine, resolves it there with the
    repository's own settings and agents, and says what would have happened. The real forge is only read.
    """
    from resolvent.cli.place import run
    from resolvent.cli.rehearsing import Asked, go_on_with, rehearsed

    asked = Asked(tuple(settings or ()), ci, origin, keep=keep, unsafe=unsafe, json=json, directory=directory)
    if not go_on:
        raise typer.Exit(run(rehearsed(asked, *_named(target or [], here=here))))
    if target or here or origin:
        raise UsageError("--go-on names all there is to say", hint=f"resolvent rehearse --go-on {go_on}")
    raise typer.Exit(run(go_on_with(asked, go_on, decide)))


def _named(words: list[str], *, here: bool) -> tuple[str, str]:
    """The repository, which may be in the link to the issue, and what names the issue in it."""
    text = " ".join(words)
    if here and text:
        return "", text
    if (link := _LINK.fullmatch(text)) and not here:
        return link["repo"], text
    if len(words) < 2 or not _REPO.fullmatch(words[0]):
        raise UsageError("a repository and an issue or pull request of it are rehearsed", hint=EXAMPLE)
    return words[0], " ".join(words[1:])
