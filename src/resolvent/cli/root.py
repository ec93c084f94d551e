"""The application that every command hangs on, and what keeps it quick to start."""

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    _Command = TyperCommand
else:
    _Command = object


class Flags(_Command):
    """Flags that were not given are false.

    Left to be None they would be converted, and the library that converts takes as long to load as everything else.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = list(super().get_params(ctx))
        for parameter in parameters:
            if parameter.default is None and getattr(parameter, "is_flag", False):
                parameter.default = False
        return parameters


class QuickGroup(Flags, TyperGroup):
    """A group whose own options are flags."""


class QuickCommand(Flags, TyperCommand):
    """A command that takes its values as they were typed, so that nothing has to be loaded to convert them."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        for parameter in self.params:
            parameter.process_value = _as_typed  # type: ignore[assignment, method-assign]


def _as_typed(_context: Any, value: Any) -> Any:
    return value


app = typer.Typer(
    name="resolvent",
    cls=QuickGroup,
    # Plain help starts in half the time.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def help_when_bare(context: typer.Context) -> None:
    """A group without a command says what there is, which is no error."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
