"""resolvent schema: the published shapes."""

from typing import Annotated, Any

import typer

from resolvent.cli.options import Json
from resolvent.cli.root import app
from resolvent.errors import NotFound

NAMES = (
    "outcome", "events", "error", "runs", "analysis", "implementation", "fix", "review", "verification", "reproducer",
    "design", "design_review", "design_revision",
)  # fmt: skip


@app.command()
def schema(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(NAMES)}.")] = "",
    json: Json = False,
) -> None:
    """Print the JSON schema of what programs read.

    And of what agents answer; without a name, the names.
    """
    from resolvent.cli.words import emit

    if name and name not in NAMES:
        raise NotFound(f"no schema is called {name!r}", hint=f"one of: {', '.join(NAMES)}")
    if name:
        emit(_schema(name))
    elif json:
        emit(list(NAMES))
    else:
        print("\n".join(NAMES))


def _schema(name: str) -> dict[str, Any]:
    from resolvent.domain import change, design, events, verdicts
    from resolvent.domain.model import Value
    from resolvent.engine.report import OutcomeDocument

    models: dict[str, type[Value]] = {
        "outcome": OutcomeDocument,
        "events": events.Recorded,
        "analysis": verdicts.Analysis,
        "implementation": verdicts.Implementation,
        "fix": verdicts.Fix,
        "review": verdicts.Review,
        "verification": verdicts.Verification,
        "reproducer": change.Reproducer,
        "design": design.DesignDraft,
        "design_review": design.DesignReview,
        "design_revision": design.DesignRevision,
    }
    if name in models:
        return models[name].model_json_schema()
    return _ERROR if name == "error" else _RUNS


_TEXT = {"type": "string"}
_ERROR = {
    "title": "Error",
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"class": _TEXT, "message": _TEXT, "hint": _TEXT},
            "required": ["class", "message", "hint"],
        }
    },
    "required": ["error"],
}
_RUN = dict.fromkeys(("run", "playbook", "subject", "title", "state", "outcome", "reason", "forked_from"), _TEXT)
_RUNS = {
    "title": "Runs",
    "type": "array",
    "items": {
        "type": "object",
        "properties": _RUN | {name: {"type": "number"} for name in ("created_at", "updated_at")},
        "required": [*_RUN, "created_at", "updated_at"],
    },
}
