"""resolvent branch new, run, stop and ls: branches made and used."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from resolvent.cli.branch_options import Name, Unsafe, app, branching, tell
from resolvent.cli.options import Directory, Json
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell
    from resolvent.domain.job import Branch, Job, Kept

HEADINGS = ("branch", "", "commit", "parent", "used")


@app.command("new")
def new(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name; one is made up when not given.")] = None,
    of: Annotated[
        str, typer.Option(metavar="WHAT", help="A branch to fork, a commit or a ref; else the default branch.")
    ] = "",
    unsafe: Unsafe = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Make a branch."""
    from resolvent.cli.place import run

    branch = run(_new(directory, name, of, unsafe=unsafe))
    tell(branch.model_dump(mode="json"), f"{branch.id}  of {branch.parent or branch.commit[:10]}", json=json)


async def _new(directory: Path | None, name: str | None, of: str, *, unsafe: bool) -> "Branch":
    async with branching(directory, unsafe=unsafe) as branches:
        return await branches.new(of, name=name)


class OptionsAnywhere(TyperCommand):
    """Takes our own options on both sides of the branch's name; from the first word of the command on all is its."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        valued = {word for one in self.params if not getattr(one, "is_flag", True) for word in one.opts}
        options: list[str] = []
        names: list[str] = []
        rest = list(args)
        while rest and rest[0] != "--" and (rest[0].startswith("-") or not names):
            word = rest.pop(0)
            (options if word.startswith("-") else names).append(word)
            if word in valued and rest:
                options.append(rest.pop(0))
        return super().parse_args(ctx, [*options, *names, *rest])


@app.command("run", cls=OptionsAnywhere, context_settings={"allow_interspersed_args": False})
def run_command(
    name: Name,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="What to run.")],
    wall: Annotated[float, typer.Option(metavar="SECONDS", help="How long it may take.")] = 7200.0,
    unsafe: Unsafe = False,
    directory: Directory = None,
) -> None:
    """Run a command in a branch and show what it prints; its exit code is ours.

    Standard input is passed on when it is a pipe or a file, whole and at most 64 MiB of it. There is no terminal in a
    branch: a program that wants one, such as an editor or a shell with a prompt, gets none. Exit code 124: it took
    longer than --wall; 130: it was stopped with Ctrl-C.
    """
    from resolvent.cli.branch_running import given
    from resolvent.cli.place import run
    from resolvent.domain.job import Job, Limits

    words = tuple(command[1:] if command[0] == "--" else command)
    if not words or not words[0]:
        raise UsageError("there is no command to run", hint=f"resolvent branch run {shlex.quote(name)} -- make test")
    if not 0 < wall < float("inf"):
        raise UsageError(f"--wall takes a number of seconds, not {wall}", hint="resolvent branch run --help")
    # Read before there is an event loop: that would keep Ctrl-C from whoever waits here.
    job = Job(id="", argv=words, stdin=given(), limits=Limits(wall_s=wall))
    raise typer.Exit(run(_run(directory, name, job, unsafe=unsafe)))


async def _run(directory: Path | None, name: str, job: "Job", *, unsafe: bool) -> int:
    from resolvent.cli.branch_running import run_in

    async with branching(directory, unsafe=unsafe) as branches:
        branch = (await branches.find(name)).branch
        entered = await branches.job(branch, job.argv, wall_s=job.limits.wall_s, stdin=job.stdin)
        return await run_in(branches, entered, branch=branch)


@app.command("stop")
def stop(name: Name, unsafe: Unsafe = False, json: Json = False, directory: Directory = None) -> None:
    """End the command that runs in a branch, with all that it started."""
    from resolvent.cli.place import run

    id, stopped = run(_stop(directory, name, unsafe=unsafe))
    tell({"branch": id, "stopped": stopped}, f"stopped {id}" if stopped else f"nothing runs in {id}", json=json)


async def _stop(directory: Path | None, name: str, *, unsafe: bool) -> tuple[str, bool]:
    async with branching(directory, unsafe=unsafe) as branches:
        kept = await branches.find(name)
        return kept.branch.id, await branches.stop(kept)


@app.command("ls")
def ls(unsafe: Unsafe = False, json: Json = False, directory: Directory = None) -> None:
    """List the branches, newest first."""
    from resolvent.cli.place import run
    from resolvent.cli.terminal import one_line, stdout
    from resolvent.cli.words import emit

    kept, elsewhere = run(_kept(directory, unsafe=unsafe))
    if json:
        emit([one.model_dump(mode="json") for one in kept])
        return
    now, terminal = time.time(), stdout()
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
    headings: list[Cell] = [(word, "dim") for word in HEADINGS]
    if rows:
        terminal.say(*terminal.table([headings, *rows], align="<<<<>", indent=0))
    else:
        terminal.say("no branches", "next: resolvent branch new")
    for rung, ids in elsewhere.items():
        terminal.say(terminal.paint(f"{len(ids)} more on rung {rung}", "dim"))


async def _kept(directory: Path | None, *, unsafe: bool) -> "tuple[list[Kept], dict[str, tuple[str, ...]]]":
    async with branching(directory, unsafe=unsafe) as branches:
        kept = await (await branches.home.workspace()).kept()
        return list(kept[::-1]), await branches.elsewhere()


def _ago(seconds: float) -> str:
    from resolvent.cli.words import seconds as written

    return f"{written(max(0.0, seconds))} ago"
