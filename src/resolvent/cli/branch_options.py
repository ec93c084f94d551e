"""What the commands of `resolvent branch` share: the branch they speak of, and how they open its store."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resolvent.cli.root import help_when_bare

if TYPE_CHECKING:
    from resolvent.branching import Branching

app = typer.Typer(
    help="Branches: copy-on-write sandboxes, on their own.",
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=help_when_bare,
)
Name = Annotated[str, typer.Argument(metavar="BRANCH", help="A branch, or the beginning of its name.")]
Unsafe = Annotated[
    bool, typer.Option("--unsafe", help="The branches without walls, which are others: commands run as you.")
]


@asynccontextmanager
async def branching(
    directory: Path | None, *, unsafe: bool, settings: tuple[str, ...] = ()
) -> "AsyncIterator[Branching]":
    """The branches of a repository, on its own rung or without walls."""
    from resolvent.branching import Branching
    from resolvent.cli.place import opened

    async with opened(directory, (*settings, *(("sandbox.rung=plain",) if unsafe else ()))) as application:
        yield Branching(application.home, unsafe=unsafe)


def tell(value: Any, said: str, *, json: bool) -> None:
    """A result, for a program or for a person."""
    from resolvent.cli.terminal import clean, stdout
    from resolvent.cli.words import emit

    if json:
        emit(value)
    else:
        stdout().say(clean(said))


def pour(content: bytes) -> None:
    """Print foreign bytes: as they are for programs, made harmless where a person looks at them."""
    from resolvent.cli.terminal import clean

    if sys.stdout.isatty():
        print(clean(content.decode("utf-8", "replace")), end="", flush=True)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
