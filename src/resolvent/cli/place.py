"""Where a command stands: its repository, the application over it, and the one event loop."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.app import App

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work; the only event loop of this process."""
    # Imported here: a glance that needs no loop does not pay for one.
    import asyncio

    return asyncio.run(work)


@asynccontextmanager
async def opened(directory: Path | None, overrides: tuple[str, ...] = ()) -> "AsyncIterator[App]":
    """The application for the repository, closed again when the command is done."""
    from resolvent.app import App
    from resolvent.places import environment

    app = App.at(repository(directory), environ=environment(), overrides=overrides)
    try:
        yield app
    finally:
        await app.home.close()


def repository(directory: Path | None) -> Path:
    """The root of the git repository that holds the directory; UsageError when there is none."""
    try:
        start = (directory or Path()).absolute()
    except FileNotFoundError as error:
        raise UsageError("the directory you stand in is gone", hint="cd to a repository") from error
    if not start.is_dir():
        raise UsageError(f"{start} is not a directory", hint="name the repository with -C DIR")
    for root in (start, *start.parents):
        bare = (root / "HEAD").is_file() and (root / "objects").is_dir() and (root / "refs").is_dir()
        if (root / ".git").exists() or bare:
            return root
    raise UsageError(
        f"{start} is in no git repository", hint=f"cd to one, name it with -C DIR, or: git init {quote(str(start))}"
    )
