"""resolvent branch: the sandbox on its own."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import help_when_bare
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.branching import Branching
    from resolvent.cli.terminal import Cell
    from resolvent.domain.job import Branch, Kept

app = typer.Typer(
    help="Branches: copy-on-write sandboxes, on their own.",
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=help_when_bare,
)
Name = Annotated[str, typer.Argument(metavar="BRANCH", help="A branch, or the beginning of its name.")]
Unsafe = Annotated[bool, typer.Option("--unsafe", help="Run as you, without walls.")]


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name; one is made up when not given.")] = "",
    of: Annotated[
        str, typer.Option(metavar="WHAT", help="A branch to fork, or a commit; else the default branch.")
    ] = "",
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Make a branch."""
    from resolvent.cli.place import run

    branch = run(_new(directory, name, of))
    _tell(branch.model_dump(mode="json"), f"{branch.id}  of {branch.parent or branch.commit[:10]}", json=json)


async def _new(directory: Path | None, name: str, of: str) -> "Branch":
    async with _branching(directory) as branching:
        return await branching.new(of, name=name)


@app.command("run", context_settings={"allow_interspersed_args": False})
def run_command(
    name: Name,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="What to run.")],
    wall: Annotated[float, typer.Option(metavar="SECONDS", help="How long it may take.")] = 7200.0,
    unsafe: Unsafe = False,
    directory: Directory = None,
) -> None:
    """Run a command in a branch and show what it prints; its exit code is ours."""
    from resolvent.cli.place import run

    words = tuple(command[1:] if command[0] == "--" else command)
    if not words:
        raise UsageError("there is no command to run", hint=f"resolvent branch run {name} -- make test")
    raise typer.Exit(run(_run(directory, name, words, wall=wall, unsafe=unsafe)))


async def _run(directory: Path | None, name: str, command: tuple[str, ...], *, wall: float, unsafe: bool) -> int:
    from resolvent.cli.branch_running import run_in

    async with _branching(directory, unsafe=unsafe) as branching:
        return await run_in(branching, await branching.find(name), command, wall_s=wall)


@app.command("ls")
def ls(json: Json = False, directory: Directory = None) -> None:
    """List the branches, newest first."""
    from resolvent.cli.place import run

    kept = run(_kept(directory))[::-1]
    if json:
        from resolvent.cli.words import emit

        emit([one.model_dump(mode="json") for one in kept])
        return
    from resolvent.cli.terminal import one_line, stdout

    now = time.time()
    rows: list[list[Cell]] = [
        [
            one_line(one.branch.id),
            ("running", "yellow") if one.busy else ("", ""),
            (one.branch.commit[:10], "dim"),
            one_line(one.branch.parent or ""),
            (_ago(now - one.updated_at), "dim"),
        ]
        for one in kept
    ]
    stdout().say(*(stdout().table(rows, align="<<<<>", indent=0) or ["no branches", "next: resolvent branch new"]))


async def _kept(directory: Path | None) -> "tuple[Kept, ...]":
    async with _branching(directory) as branching:
        return await (await branching.home.workspace()).kept()


def _ago(seconds: float) -> str:
    from resolvent.cli.words import seconds as written

    return f"{written(max(0.0, seconds))} ago"


@app.command("log")
def log(name: Name, directory: Directory = None) -> None:
    """Print what the commands in a branch have printed."""
    from resolvent.cli.place import run

    run(_log(directory, name))


async def _log(directory: Path | None, name: str) -> None:
    from resolvent.cli.terminal import clean

    async with _branching(directory) as branching:
        for path in branching.logs(await branching.find(name)):
            content = path.read_bytes() if path.exists() else b""
            if sys.stdout.isatty():
                print(clean(content.decode("utf-8", "replace")), end="")
            else:
                sys.stdout.flush()
                sys.stdout.buffer.write(content)


@app.command("diff")
def diff(name: Name, directory: Directory = None) -> None:
    """Show what a branch holds against the commit it was made of."""
    from resolvent.cli.place import run
    from resolvent.cli.terminal import clean

    patch = run(_diff(directory, name))
    print(clean(patch) if sys.stdout.isatty() else patch, end="")


async def _diff(directory: Path | None, name: str) -> str:
    async with _branching(directory) as branching:
        return await branching.diff(await branching.find(name))


@app.command("cat")
def cat(
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file, from the top of the branch.")],
    directory: Directory = None,
) -> None:
    """Print a file of a branch."""
    from resolvent.cli.place import run
    from resolvent.cli.terminal import clean

    content = run(_cat(directory, name, path))
    if sys.stdout.isatty():
        print(clean(content.decode("utf-8", "replace")), end="")
    else:
        sys.stdout.buffer.write(content)


async def _cat(directory: Path | None, name: str, path: str) -> bytes:
    async with _branching(directory) as branching:
        return await (await branching.home.workspace()).read(await branching.find(name), path)


@app.command("commit")
def commit(
    name: Name,
    message: Annotated[str, typer.Option("-m", metavar="TEXT", help="What the commit says.")] = "What the branch holds",
    history: Annotated[bool, typer.Option("--own", help="The agent's own commits instead, as it made them.")] = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Export a branch as one commit into our repository, and say how to fetch it."""
    from resolvent.cli.place import run

    source, made = run(_commit(directory, name, message, history=history))
    said = f"git fetch '{source}' {made}" if made else "nothing differs from its commit"
    _tell({"repository": source, "revision": made}, said, json=json)


async def _commit(directory: Path | None, name: str, message: str, *, history: bool) -> tuple[str, str | None]:
    async with _branching(directory) as branching:
        branch = await branching.find(name)
        source = str((await branching.home.git_repository()).path)
        if history:
            return source, await branching.take_commits(branch)
        change = await branching.commit(branch, message=message)
        return source, change.commit if change else None


@app.command("rm")
def rm(
    names: Annotated[list[str], typer.Argument(metavar="BRANCH…", help="Branches.")],
    discard: Annotated[bool, typer.Option("--discard", help="Keep nothing of them, also what no commit can.")] = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Remove branches; work in them that nobody published is kept under a rescue ref first."""
    from resolvent.cli.place import run

    for id, rescued in run(_rm(directory, names, discard=discard)):
        said = f"removed {id}" + (f"; its work is kept as {rescued}" if rescued else "")
        _tell({"branch": id, "rescued": rescued}, said, json=json)


async def _rm(directory: Path | None, names: list[str], *, discard: bool) -> list[tuple[str, str | None]]:
    from resolvent.errors import ExportRefused

    async with _branching(directory) as branching:
        workspace = await branching.home.workspace()
        ids = dict.fromkeys([(await branching.find(name)).id for name in names])
        if discard:
            for id in ids:
                await workspace.drop(id)
            return [(id, None) for id in ids]
        try:
            return [(id, await workspace.delete(id)) for id in ids]
        except ExportRefused as error:
            error.hint = error.hint or f"resolvent branch rm --discard {' '.join(names)}"
            raise


@app.command("gc")
def gc(json: Json = False, directory: Directory = None) -> None:
    """Remove what no branch needs, and the branches of ended runs that are older than sandbox.keep."""
    from resolvent.cli.place import run

    cleaned = run(_gc(directory))
    freed = f"freed {cleaned['freed'] / 1e6:.1f} MB" if cleaned["freed"] else "nothing to free"
    said = f"{freed}; {len(cleaned['removed'])} branches removed, {len(cleaned['rescued'])} of them kept under a ref"
    said += "".join(f"\n{id} stays: {why}" for id, why in cleaned["refused"].items())
    _tell(cleaned, said, json=json)


async def _gc(directory: Path | None) -> dict[str, Any]:
    async with _branching(directory) as branching:
        return await branching.clean()


@asynccontextmanager
async def _branching(directory: Path | None, *, unsafe: bool = False) -> "AsyncIterator[Branching]":
    from resolvent.branching import Branching
    from resolvent.cli.place import opened

    async with opened(directory, ("sandbox.rung=plain",) if unsafe else ()) as application:
        yield Branching(application.home, unsafe=unsafe)


def _tell(value: dict[str, Any], said: str, *, json: bool) -> None:
    from resolvent.cli.terminal import clean, stdout
    from resolvent.cli.words import emit

    if json:
        emit(value)
    else:
        stdout().say(clean(said))
