"""Numbers, names and JSON the way every command writes them."""

import json
import sys
from datetime import datetime
from typing import Any


def seconds(value: float) -> str:
    """`0.3s`, `42s`, `3m07s`, `2h05m`."""
    if value < 10:
        return f"{value:.1f}s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def count(value: int) -> str:
    """`812`, `5.2k`, `1.3M`."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    return str(value)


def money(usd: float) -> str:
    """Dollars, to the cent unless that would be nothing."""
    return f"${usd:.2f}" if usd >= 0.005 or not usd else f"${usd:.4f}"


def clock_time(at: float) -> str:
    """The time of day of a moment, with the date when that is another day than today."""
    then = datetime.fromtimestamp(at)
    return then.strftime("%H:%M:%S" if then.date() == datetime.now().date() else "%Y-%m-%d %H:%M")


def short(commit: str) -> str:
    """A commit as people name it."""
    return commit[:10]


def emit(value: Any, *, lines: bool = False) -> None:
    """One JSON value on standard output: on one line for programs, indented when a person looks at it."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() and not lines else None), flush=True)


def person() -> str:
    """Who types here."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "someone"
