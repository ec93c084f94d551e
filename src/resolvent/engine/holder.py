"""The name under which a subject is claimed on the forge: which machine, which store, which run, since when. Pure."""

import re
from datetime import UTC, datetime

_SECOND = "%Y%m%dT%H%M%S"
_HOLDER = re.compile(
    r"(?P<host>[\w-]+)\.(?P<store>[0-9a-f]{8})\.(?P<run>[\w-]+)\.(?P<since>\d{8}T\d{6})(?:\d{6})?Z", re.ASCII
)


def holder_name(host: str, run: str, *, at: float) -> str:
    """`machine.store.run.since`, where `host` is the first two: others can tell whom to ask, and since when.

    To the microsecond: a run that claims anew at once has another name, and who gives the old one back leaves it alone.
    """
    return f"{host}.{run}.{datetime.fromtimestamp(at, UTC):{_SECOND}%fZ}"


def holder_said(holder: str) -> str:
    """A holder as people read it."""
    found = _HOLDER.fullmatch(holder)
    if not found:
        return holder
    try:
        since = datetime.strptime(found["since"], _SECOND)
    except ValueError:
        return holder
    return f"run {found['run']} on {found['host']} (store {found['store']}) since {since:%Y-%m-%d %H:%M} UTC"


def holder_run(holder: str) -> str:
    """The run that is in a holder's name; empty when it is no name of ours."""
    found = _HOLDER.fullmatch(holder)
    return found["run"] if found else ""
