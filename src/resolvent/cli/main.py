"""The command `resolvent`: its commands, and how every error ends."""

import json
import os
import sys
import traceback
from importlib import import_module
from types import TracebackType
from typing import Annotated

import typer

from resolvent.cli.root import app, help_when_bare
from resolvent.errors import ResolventError
from resolvent.places import environment, skip_plugins

BROKEN = 70
# In the order of the help; each module hangs its commands on the application.
COMMANDS = (
    "demo", "init", "doctor", "agent", "resolve", "design", "rehearse", "runs", "show", "page", "cost", "watch", "logs",
    "decide", "again", "branch", "serve", "claim", "mcp", "issue", "pull", "forge", "schema", "prove",
)  # fmt: skip
GROUPS = {
    "agent": "agent", "branch": "branch", "claim": "claim", "forge": "forge", "issue": "issue", "pull": "pr",
    "prove": "prove",
}  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        from resolvent import __version__

        print(f"resolvent {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Issues in, proven pull requests out: agents write and review, every claim is executed, nothing is lost."""
    help_when_bare(context)


def assembled() -> typer.Typer:
    """Every command on one application."""
    for name in COMMANDS:
        module = import_module(f"resolvent.cli.{name}")
        if name in GROUPS:
            app.add_typer(module.app, name=GROUPS[name])
    return app


def main() -> None:
    """Run the command line; never a traceback for an error of ours."""
    sys.excepthook = _apologise
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a stand-in, not a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    skip_plugins()
    try:
        code = typer.main.get_command(assembled()).main(prog_name="resolvent", standalone_mode=False)
    except ResolventError as error:
        code = _fail(type(error).__name__, error.message, hint=error.hint, code=error.exit_code)
    except typer.TyperException as error:
        code = _fail("UsageError", error.format_message(), hint=_help_of(error), code=error.exit_code)
    except typer.Abort:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _help_of(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'resolvent'} --help"


def _fail(kind: str, message: str, *, hint: str, code: int) -> int:
    from resolvent.cli.terminal import clean, one_line, stderr

    if "--json" in sys.argv[1:]:
        print(json.dumps({"error": {"class": kind, "message": message, "hint": hint}}))
        return code
    terminal = stderr()
    terminal.say(f"{terminal.paint('error:', 'bold red')} {clean(message)}")
    if hint:
        terminal.say(f"{terminal.paint('next:', 'bold')} {one_line(hint)}")
    return code


def _apologise(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Something nobody thought of: say so briefly, with how to show it to us, and end."""
    if environment().get("RESOLVENT_DEBUG") == "1":
        traceback.print_exception(kind, error, trace)
    _fail(
        kind.__name__,
        f"this is a bug of resolvent, sorry: {kind.__name__}: {error}",
        hint="report it with the output of the same command after: export RESOLVENT_DEBUG=1",
        code=BROKEN,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(BROKEN)


if __name__ == "__main__":
    main()
