"""resolvent doctor: what works here, and the exact fix for what does not."""

from typing import TYPE_CHECKING, Any

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import app

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell

MARKS = {"ok": ("✓", "green"), "note": ("●", "yellow"), "fault": ("✗", "bold red")}


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
    from resolvent.cli.terminal import one_line, stdout

    terminal = stdout()
    rows: list[list[Cell]] = [[MARKS[item["state"]], item["name"], (item["found"], "dim")] for item in probes]
    for item, line in zip(probes, terminal.table(rows, align="<<=", indent=1), strict=True):
        terminal.say(line)
        if item["fix"]:
            terminal.say(f"     next: {one_line(item['fix'])}")
