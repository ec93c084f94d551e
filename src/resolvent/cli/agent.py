"""resolvent agent ls and try: the agents there are, and one of them at work in a throw-away branch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resolvent.cli.options import Directory, Json, Sets
from resolvent.cli.root import help_when_bare
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.agent_probing import AgentSeen
    from resolvent.cli.terminal import Cell, Terminal

app = typer.Typer(
    help="Agents: which there are, and one of them tried.",
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=help_when_bare,
)
HEADINGS = ("", "agent", "plays", "version", "model", "key", "can")
# What stands before the words in a block: the indent, the longest heading, the gap.
BLOCK_ROOM = 13


@app.command("ls")
def ls(json: Json = False, directory: Directory = None) -> None:
    """List every agent: its role, version, model, key, and what its program can do by itself."""
    from resolvent.cli.place import run
    from resolvent.cli.words import emit

    seen = run(_seen(directory))
    if json:
        emit([one.model_dump(mode="json") for one in seen])
    else:
        _print(seen)


async def _seen(directory: Path | None) -> "list[AgentSeen]":
    from resolvent.cli.agent_probing import agents_seen
    from resolvent.cli.place import opened

    async with opened(directory) as application:
        return await agents_seen(application.home)


def _print(seen: "list[AgentSeen]") -> None:
    from resolvent.cli.agent_probing import part_of
    from resolvent.cli.terminal import one_line, stdout, wrapped

    terminal = stdout()
    rows: list[list[Cell]] = [[(word, "dim") for word in HEADINGS]]
    for one in seen:
        mark = ("✓", "green") if one.ready else ("✗", "bold red") if one.used else ("●", "yellow")
        key = f"${one.key.variable}{'' if one.key.set else ' not set'}" if one.key else ""
        rows.append(
            [mark, one.name, part_of(one), one.version or one.use, one.model, (key, "dim"), ", ".join(one.abilities)]
        )
    heading, *lines = terminal.table(rows, align="<" * len(HEADINGS), indent=1)
    fits = terminal.spans(rows, indent=1) <= terminal.width
    terminal.say(*([heading] if fits else []))
    for one, line, row in zip(seen, lines, rows[1:], strict=True):
        terminal.say(*([line] if fits else _block(terminal, row)))
        if not one.ready:
            why = wrapped(one_line(one.missing), terminal.width - 4)
            terminal.say(*(terminal.paint(f"    {words}", "dim") for words in why), f"    next: {one_line(one.fix)}")


def _block(terminal: "Terminal", row: "list[Cell]") -> list[str]:
    """An agent on lines of its own, where its row would be wider than the screen."""
    from resolvent.cli.terminal import one_line, wrapped

    (head,) = terminal.table([row[:3]], align="<<<", indent=1)
    about: list[list[Cell]] = []
    for word, cell in zip(HEADINGS[3:], row[3:], strict=True):
        text = one_line(cell if isinstance(cell, str) else cell[0])
        more = wrapped(text, terminal.width - BLOCK_ROOM) if text else []
        about += [[(word if not at else "", "dim"), said] for at, said in enumerate(more)]
    return [head, *terminal.table(about, align="<<", indent=4)]


@app.command("try")
def try_agent(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An agent, or NAME:MODEL.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to ask it; - reads standard input.")],
    model: Annotated[str, typer.Option(metavar="M", help="Another model than the configured one.")] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the branch, to look at what it did.")] = False,
    of: Annotated[
        str, typer.Option("--of", metavar="WHAT", help="A branch to fork, a commit or a ref; else the default branch.")
    ] = "",
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Without walls: it runs as you, with its key.")] = False,
    settings: Sets = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Run one agent on one prompt in a throw-away branch and show what it does.

    Nothing of it touches your checkout, and nothing is published. Ctrl-C ends it with all that it started.
    """
    from resolvent.cli.agent_trying import Trial, tried
    from resolvent.cli.place import run

    if model and ":" in name:
        raise UsageError(f"{name} names a model already", hint="resolvent agent try NAME PROMPT --model M")
    asked = _read() if prompt == "-" else prompt
    if not asked.strip():
        raise UsageError("the prompt is empty", hint=f"resolvent agent try {name} 'what does this project do?'")
    named, sets = f"{name}:{model}" if model else name, tuple(settings or ())
    trial = Trial(named, prompt=asked, of=of, keep=keep, json=json, settings=sets)
    raise typer.Exit(run(tried(directory, trial, unsafe=unsafe)))


def _read() -> str:
    from resolvent.cli.branch_running import given

    # Read before there is an event loop: that would keep Ctrl-C from whoever waits here.
    return given().decode("utf-8", "replace")
