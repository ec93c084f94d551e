"""How an agent's process ended, in words, and when its model's server said to come back."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from resolvent.adapters.agents.lines import end_of, last_lines
from resolvent.domain.job import JobExit
from resolvent.errors import AgentFailed, AgentTimedOut

LIMITS = {"wall": "took too long", "idle": "was silent for too long", "output": "printed too much"}
# Nobody waits longer for a quota: months are not what a server means by a reset.
FURTHEST = timedelta(days=40)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SPAN = (
    r"(\d{1,9}(?:\.\d{1,6})?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b"
)
_WAIT = re.compile(
    rf"(?:\bin|after|wait(?:ing)?(?: for)?|retry[ _-]after[:=]?)\s+(?:about\s+)?((?:{_SPAN}[\s,]*(?:and\s+)?){{1,4}})",
    re.I,
)
_SECONDS = re.compile(r"retry[ _-]after\W{1,4}(\d{1,9})(?![\d.:T-])(?!\s*[a-z])", re.I)
_EPOCH = re.compile(r"(?:\||resets?(?:[ _]?at)?\W{1,4}|until\s)(\d{10})(?!\d)", re.I)
# As the gateway of a job notes it: the status, at what time, and the value of Retry-After.
_NOTE = re.compile(r"away \S+ (\d{3}) (\d{1,12}\.\d{3}) (.+)")
_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = rf"({'|'.join(_MONTHS)})[a-z]*\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(\d{{4}}))?,?\s*(?:at\s+)?"
_CLOCK = re.compile(
    rf"(?:resets?|try again|available again|back)\s*(?:at|on|until)?\s*(?:{_DAY})?"
    r"(\d{1,2})(?::(\d\d))?\s*([ap]\.?m\b\.?)?\s*(?:\(([A-Za-z_/+-]{2,40})\))?",
    re.I,
)


def require_no_limit(name: str, exit: JobExit, output: Path) -> None:
    """AgentTimedOut or AgentFailed unless the process ended by itself, started, and all it printed was kept."""
    if exit.ending in LIMITS:
        raise AgentTimedOut(
            f"agent {name} {LIMITS[exit.ending]} and was stopped after {exit.seconds:.0f} s{told(output)}",
            ending=exit.ending,
        )
    if not exit.ended or exit.message:
        how = exit.message or ("was cancelled" if exit.ending == "cancelled" else f"ran into its {exit.ending} limit")
        raise AgentFailed(f"agent {name}: {how}{told(output)}", ending=exit.ending, exit=exit.exit)


def told(output: Path) -> str:
    """The last lines of standard error, else of the output, to put below an error."""
    said = last_lines(output.with_name("errors")) or last_lines(output)
    return f"\n{said[-4000:]}" if said else ""


def reset_time(text: str, *, now: float) -> float | None:
    """When a refusal says that one may ask again, in seconds since the epoch; None when it does not say so."""
    text = text[-20_000:]
    for read in (_epoch, _seconds, _span, _date, _clock):
        found = read(text, now)
        if found is not None and now - 60 <= found <= now + FURTHEST.total_seconds():
            return max(found, now)
    return None


def noted_reset(output: Path, *, now: float, status: int = 0) -> float | None:
    """When a server said to a job's gateway, last and with that status, that one may ask again; None if that is over.

    Programs give up without a word of it when that is far away.
    """
    notes = filter(None, map(_NOTE.fullmatch, end_of(output.with_name("network"), 1 << 16).splitlines()))
    said = [(float(note[2]), note[3]) for note in notes if status in (0, int(note[1]))]
    if not said:
        return None
    at, when = said[-1]
    try:
        until = at + float(when) if _AMOUNT.fullmatch(when) else parsedate_to_datetime(when).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return until if now < until <= now + FURTHEST.total_seconds() else None


def _epoch(text: str, now: float) -> float | None:
    found = _EPOCH.search(text)
    return float(found[1]) if found else None


def _seconds(text: str, now: float) -> float | None:
    found = _SECONDS.search(text)
    return now + float(found[1]) if found else None


def _span(text: str, now: float) -> float | None:
    found = _WAIT.search(text)
    if found is None:
        return None
    return now + sum(float(amount) * _unit(unit.lower()) for amount, unit in re.findall(_SPAN, found[1], re.I))


def _unit(name: str) -> float:
    return _UNITS["ms" if name.startswith(("ms", "milli")) else name[0]]


def _date(text: str, now: float) -> float | None:
    found = _DATE.search(text)
    if found is None:
        return None
    try:
        when = datetime.fromisoformat(found[0])
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _clock(text: str, now: float) -> float | None:
    """`3am`, `3:05 PM (Europe/Berlin)`, `Oct 9, 2:30 pm`: the next such moment, by our own clock unless told."""
    found = _CLOCK.search(text)
    if found is None or not (found[5] or found[6]):
        return None
    month, day, year, hour, minute, half, zone = found.groups()
    try:
        here = datetime.fromtimestamp(now, ZoneInfo(zone)) if zone else datetime.fromtimestamp(now).astimezone()
        hours = int(hour) % 12 + (12 if half.lower().startswith("p") else 0) if half else int(hour)
        when = here.replace(hour=hours, minute=int(minute or 0), second=0, microsecond=0)
        if month:
            when = when.replace(month=_MONTHS.index(month[:3].lower()) + 1, day=int(day), year=int(year or here.year))
            when = when if year or when >= here else when.replace(year=here.year + 1)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None
    return (when if month or when > here else when + timedelta(days=1)).timestamp()
