"""The application that every command hangs on."""

from typing import Any

import typer
from typer.core import TyperCommand

app = typer.Typer(
    name="resolvent",
    # Plain help starts in half the time.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Quick(TyperCommand):
    """A command that takes its values as they were typed: it starts without the library that converts them."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        for parameter in self.params:
            parameter.process_value = _as_typed  # type: ignore[assignment, method-assign]


def _as_typed(_context: Any, value: Any) -> Any:
    return value


def help_when_bare(context: typer.Context) -> None:
    """A group without a command says what there is, which is no error."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
