"""One line of doctor: what was looked at, what was found, and how to mend it."""

from typing import Any, Literal

from resolvent.errors import ResolventError

Probe = dict[str, Any]


def found(name: str, what: str, *, state: Literal["ok", "note", "fault"] = "ok", fix: str = "") -> Probe:
    """What was found; a fix is the next command to type."""
    return {"name": name, "state": state, "found": what, "fix": fix}


def fault(name: str, error: ResolventError) -> Probe:
    """What an error says that stands in the way of a run."""
    return found(name, error.message, state="fault", fix=error.hint)
