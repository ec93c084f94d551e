"""Options and arguments that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from resolvent.errors import ResolventError

IN_DIRECTORY = typer.Option(
    "-C", metavar="DIR", help="The repository; the one you stand in when not given.", show_default=False
)
Directory = Annotated[Path | None, IN_DIRECTORY]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated.")
]


def _run_names(incomplete: str) -> list[tuple[str, str]]:
    """For the shell: the newest runs of the repository one stands in."""
    from resolvent.cli.place import repository
    from resolvent.glance import runs
    from resolvent.places import environment

    try:
        found = runs(repository(None), environ=environment(), limit=50) or []
    except ResolventError:
        return []
    return [(row["run"], row["title"]) for row in found if row["run"].startswith(incomplete)]


RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run, or the start of its name; the newest when not given.",
        autocompletion=_run_names,
        show_default=False,
    ),
]
# What a run begins with.
Target = Annotated[
    list[str] | None,
    typer.Argument(metavar="TARGET", help="An issue: its number, its link, or a sentence with one of them."),
]
IssueFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Read the issue from a Markdown file instead.")
]
Base = Annotated[str, typer.Option("--base", metavar="BRANCH", help="Start from this branch.", show_default=False)]
Unsafe = Annotated[bool, typer.Option("--unsafe", help="Let agents and checks run as you, without walls.")]
Detach = Annotated[bool, typer.Option("-d", "--detach", help="Return at once; a worker goes on in the background.")]
Follow = Annotated[bool, typer.Option("--follow", help="With --json: also one event per line while it runs.")]


@dataclass(frozen=True)
class Manner:
    """How a run is followed: in the background, for a program, with its events."""

    detach: bool
    json: bool
    events: bool
