"""resolvent branch log, diff, cat and commit: what a branch holds, and what was printed in it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resolvent.cli.branch_options import Name, Unsafe, app, branching, pour, tell
from resolvent.cli.options import Directory, Json

if TYPE_CHECKING:
    from resolvent.branch_commands import Command


@app.command("log")
def log(name: Name, unsafe: Unsafe = False, json: Json = False, directory: Directory = None) -> None:
    """Print what the commands in a branch have printed."""
    from resolvent.cli.place import run

    run(_log(directory, name, unsafe=unsafe, json=json))


async def _log(directory: Path | None, name: str, *, unsafe: bool, json: bool) -> None:
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit

    async with branching(directory, unsafe=unsafe) as branches:
        kept = await branches.find(name)
        commands = branches.commands(kept)
        if json:
            emit([_document(command) for command in commands])
            return
        terminal, whole = stdout(), True
        for command in commands:
            words = one_line(shlex.join(command.argv)) or "a command that was not written down"
            head = f"── {words} · {_ended(command)} ──"
            terminal.say(*([] if whole else [""]), terminal.paint(head, "bold"))
            printed = _printed(command)
            whole = not printed or printed.endswith(b"\n")
            pour(printed)
        if not commands:
            next_one = f"next: resolvent branch run {shlex.quote(kept.branch.id)} -- COMMAND"
            terminal.say(f"nothing was run in {one_line(kept.branch.id)} yet", next_one)


def _ended(command: "Command") -> str:
    from resolvent.cli.words import seconds

    if command.exit is None:
        return "started"
    why = "" if command.exit.ended else f"{command.exit.ending}, "
    return f"{why}exit {command.exit.exit} after {seconds(command.exit.seconds)}"


def _printed(command: "Command") -> bytes:
    return command.output.read_bytes() if command.output.exists() else b""


def _document(command: "Command") -> dict[str, object]:
    exit = command.exit.model_dump(mode="json") if command.exit else {"ending": None, "exit": None, "seconds": None}
    return {"job": command.job, "command": command.argv, **exit, "output": _printed(command).decode("utf-8", "replace")}


@app.command("diff")
def diff(name: Name, unsafe: Unsafe = False, json: Json = False, directory: Directory = None) -> None:
    """Show what a branch holds against the commit it was made of."""
    from resolvent.cli.place import run
    from resolvent.cli.words import emit

    id, patch = run(_diff(directory, name, unsafe=unsafe))
    if json:
        emit({"branch": id, "patch": patch})
    else:
        pour(patch.encode())


async def _diff(directory: Path | None, name: str, *, unsafe: bool) -> tuple[str, str]:
    async with branching(directory, unsafe=unsafe) as branches:
        branch = (await branches.find(name)).branch
        return branch.id, await branches.diff(branch)


@app.command("cat")
def cat(
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file, from the top of the branch.")],
    unsafe: Unsafe = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Print a file of a branch."""
    from resolvent.cli.place import run
    from resolvent.cli.words import emit

    id, content = run(_cat(directory, name, path, unsafe=unsafe))
    if json:
        # What is no text cannot be told in JSON as it is; without --json every byte is.
        emit({"branch": id, "path": path, "text": content.decode("utf-8", "replace")})
    else:
        pour(content)


async def _cat(directory: Path | None, name: str, path: str, *, unsafe: bool) -> tuple[str, bytes]:
    from resolvent.errors import NotFound

    async with branching(directory, unsafe=unsafe) as branches:
        branch = (await branches.find(name)).branch
        try:
            return branch.id, await (await branches.home.workspace()).read(branch, path)
        except NotFound as error:
            error.hint = error.hint or f"resolvent branch run {shlex.quote(branch.id)} -- ls -a"
            raise


@app.command("commit")
def commit(
    name: Name,
    message: Annotated[str, typer.Option("-m", metavar="TEXT", help="What the commit says.")] = "What the branch holds",
    own: Annotated[bool, typer.Option("--own", help="The agent's own commits instead, as it made them.")] = False,
    unsafe: Unsafe = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Export a branch as one commit into our repository, and say how to fetch it."""
    from resolvent.cli.place import run

    run(_commit(directory, name, None if own else message, unsafe=unsafe, json=json))


async def _commit(directory: Path | None, name: str, message: str | None, *, unsafe: bool, json: bool) -> None:
    async with branching(directory, unsafe=unsafe) as branches:
        branch = (await branches.find(name)).branch
        source = str((await branches.home.git_repository()).path)
        if message is not None:
            change = await branches.commit(branch, message=message)
            made = change.commit if change else None
        else:
            made = await branches.take_commits(branch)
        said = f"git fetch {shlex.quote(source)} {made}" if made else "nothing differs from its commit"
        tell({"repository": source, "revision": made}, said, json=json)
