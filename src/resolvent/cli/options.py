"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Directory = Annotated[
    Path | None,
    typer.Option("-C", metavar="DIR", help="The repository; the one you stand in when not given.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
RunName = Annotated[
    str, typer.Argument(metavar="[RUN]", help="A run, or the start of its name; the newest when not given.")
]
Detach = Annotated[bool, typer.Option("-d", "--detach", help="Return at once; a worker goes on in the background.")]
Follow = Annotated[bool, typer.Option("--follow", help="With --json: also one event per line while it runs.")]
