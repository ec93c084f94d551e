"""resolvent rehearse: a run on a copy of a repository, and what it would have done to the real one."""

import re
from shlex import quote
from typing import Annotated, Literal

import typer

from resolvent.cli.options import Directory, Json, Sets
from resolvent.cli.root import app
from resolvent.errors import UsageError

_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_LINK = re.compile(
    r"https?://(?:www\.(?=github\.com/))?(?P<host>[\w.-]+(?::\d+)?)/(?P<repo>[\w.-]+/[\w.-]+)/(?:issues|pull)/\d+\S*",
    re.ASCII,
)
EXAMPLE = "resolvent rehearse acme/widgets 42, or: resolvent rehearse --here 42"


Target = Annotated[
    list[str] | None,
    typer.Argument(metavar="[OWNER/REPO] TARGET", help="The repository, and an issue or pull request of it."),
]
GoOn = Annotated[
    str, typer.Option("--go-on", metavar="PLACE", help="Take up a rehearsal that ended early.", show_default=False)
]
Decide = Annotated[
    str, typer.Option(metavar="CHOICE", help="With --go-on: answer what it asks first.", show_default=False)
]


@app.command()
def rehearse(
    target: Target = None,
    here: Annotated[bool, typer.Option("--here", help="An issue of the forge on this machine instead.")] = False,
    origin: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="Take the commits from this path or URL.", show_default=False)
    ] = "",
    ci: Annotated[
        Literal["passed", "failed", "none"] | None,
        typer.Option(help="What the required checks say: passed unless said; none: none is required."),
    ] = None,
    go_on: GoOn = "",
    decide: Decide = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep it; else only the newest few are kept.")] = False,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Let agents and checks run as you, without walls: they reach all that you do."),
    ] = False,
    settings: Sets = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Run a policy on a copy of a repository; the real one is only read.

    Copies the issue or pull request with its comments into a forge on this machine, resolves it there with the
    settings of the checkout you stand in, and says what would have happened. Of a repository that you did not check
    out only [checks] and [policy] are obeyed. With --unsafe nothing keeps agents and checks from the real forge.
    """
    from resolvent.cli.place import run
    from resolvent.cli.rehearsing import Asked, go_on_with, rehearsed

    if go_on:
        said = {"a target": target, "--here": here, "--from": origin, "--ci": ci, "--keep": keep, "--unsafe": unsafe}
        _alone(go_on, [name for name, value in {**said, "--set": settings}.items() if value])
        raise typer.Exit(run(go_on_with(go_on, decide, json=json, directory=directory)))
    if decide:
        hint = f"resolvent rehearse --go-on PLACE --decide {quote(decide)}"
        raise UsageError("--decide answers a rehearsal that asks: name it with --go-on", hint=hint)
    named = _named(target or [], here=here)
    asked = Asked(tuple(settings or ()), ci or "passed", origin, keep=keep, unsafe=unsafe, json=json)
    raise typer.Exit(run(rehearsed(asked, *named, directory=directory)))


def _alone(go_on: str, besides: list[str]) -> None:
    """UsageError when anything is said that was settled when the rehearsal began."""
    if besides:
        line = f"resolvent rehearse --go-on {quote(go_on)}"
        raise UsageError(f"--go-on names all there is to say: leave out {', '.join(besides)}", hint=line)


def _named(words: list[str], *, here: bool) -> tuple[str, str, str]:
    """The repository, which may be in the link to the issue, what names the issue in it, and the host of the link."""
    links = [_LINK.fullmatch(word) for word in " ".join(words).split() if "://" in word]
    places = {(link["host"].lower(), link["repo"]) if link else ("", "") for link in links}
    repo = words[0] if words and _REPO.fullmatch(words[0]) else ""
    if here and words and not links:
        return "", " ".join(words), ""
    if not here and repo and len(words) > 1 and not links:
        return repo, " ".join(words[1:]), ""
    host, linked = next(iter(places), ("", ""))
    # What a link says beside a number is not to be overheard: it may lead to quite another repository.
    if here or len(places) != 1 or not linked or (repo or linked).casefold() != linked.casefold():
        raise UsageError("a repository and an issue or pull request of it are rehearsed", hint=EXAMPLE)
    return linked, " ".join(words[1:] if repo else words), host
