"""resolvent doctor: what works here, and the exact fix for what does not."""

from typing import TYPE_CHECKING, Any

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import app

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell

MARKS = {"ok": ("✓", "green"), "note": ("●", "yellow"), "fault": ("✗", "bold red")}
NARROWEST = 20


@app.command()
def doctor(json: Json = False, directory: Directory = None) -> None:
    """Say what works here, and how to mend what does not.

    Looks at git, the configuration, the state, the store, the sandbox and every agent.
    """
    from resolvent.cli.place import run
    from resolvent.cli.probing import probe

    probes, agents = run(probe(directory))
    sound = all(item["state"] != "fault" for item in probes)
    if json:
        from resolvent.cli.words import emit

        emit({"sound": sound, "probes": probes, "agents": agents})
    else:
        _print(probes)
    raise typer.Exit(0 if sound else 2)


def _print(probes: list[dict[str, Any]]) -> None:
    from resolvent.cli.terminal import cells, one_line, stdout, wrapped

    terminal = stdout()
    # What is wrong often stands at the end of a line: it is wrapped, never cut.
    room = max(NARROWEST, terminal.width - 6 - max((cells(one_line(item["name"])) for item in probes), default=0))
    said = [wrapped(one_line(item["found"]), room) for item in probes]
    rows: list[list[Cell]] = []
    for item, (first, *more) in zip(probes, said, strict=True):
        rows.append([MARKS[item["state"]], item["name"], (first, "dim")])
        rows.extend(["", "", (line, "dim")] for line in more)
    lines = iter(terminal.table(rows, align="<<<", indent=1))
    for item, shown in zip(probes, said, strict=True):
        terminal.say(*(next(lines) for _ in shown))
        if item["fix"]:
            terminal.say(f"     next: {one_line(item['fix'])}")
