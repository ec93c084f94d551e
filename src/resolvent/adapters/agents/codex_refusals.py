"""What codex says when its model's server refuses: the status, the time to come back, and who must act."""

import json
import re
from datetime import datetime
from pathlib import Path

from resolvent.adapters.agents.endings import FURTHEST, noted_reset, reset_time
from resolvent.adapters.agents.lines import end_of, plain
from resolvent.domain.job import JobExit
from resolvent.errors import AgentBusy, AgentFailed, KeyRefused, ResolventError

# An answer that asks for patience, apart from everything above 500.
PASSING = (408, 409, 425, 429)
_STATUS = re.compile(r"(?:unexpected|last|http) status:? (\d{3})\b", re.I)
# It says these of a server that gave a status without saying which.
_STATUSES = (("experiencing high demand", 500), ("at capacity", 503), ("rate limit exceeded", 429))
_BUSY = re.compile(
    r"high demand|at capacity|rate limit|usage limit|quota exceeded|stream disconnected|stream closed|connection failed"
    r"|timed? ?out|error sending request|connection (?:reset|refused|closed)|overloaded|waiting for",
    re.I,
)
_CONTEXT = re.compile(r"context[ _](?:window|length)|ran out of room", re.I)
# As OpenAI writes it: `20ms`, `3.2s`, `6m0s`, `1h2m3.5s`.
_DELAY = re.compile(r"try again in ((?:\d{1,6}(?:\.\d{1,6})?(?:ms|[dhms])){1,5})\b", re.I)
_PART = re.compile(r"([\d.]+)(ms|[dhms])", re.I)
# Its log, the one thing that tells how long a header had it wait: `… retrying sampling request (1/2 in 3.2s)...`.
_WAIT = re.compile(r"(\S{1,40}Z)\s+WARN .{0,2000}?retrying sampling request \(\d+/\d+ in (\d[\d.]{0,20})(ns|µs|ms|s)\)")
_SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def status_of(message: str) -> int:
    """The HTTP status that an error of codex speaks of; 0 when there is none."""
    found = _STATUS.search(message)
    if found:
        return int(found[1])
    return next((status for words, status in _STATUSES if words in message.lower()), 0)


def delay_of(message: str) -> float | None:
    """For how many seconds a server asks for patience in its own words; None when it does not."""
    found = _DELAY.search(message)
    if found is None:
        return None
    return sum(float(amount) * _SECONDS[unit.lower()] for amount, unit in _PART.findall(found[1]))


def wait_of(line: str) -> tuple[float, float] | None:
    """When its log says that it began to wait, and for how many seconds; None for any other line."""
    found = _WAIT.match(line)
    if found is None:
        return None
    try:
        return datetime.fromisoformat(found[1]).timestamp(), float(found[2]) * _SECONDS[found[3]]
    except (ValueError, OverflowError):
        return None


def refusal(message: str, *, name: str, exit: JobExit, output: Path) -> ResolventError:
    """The error for what a model's server said to an agent of that name."""
    said, status = f"agent {name}: {_readable(message)}", status_of(message)
    if status in (401, 403):
        return KeyRefused(said)
    if _CONTEXT.search(message):
        return AgentFailed(said, context_exceeded=True)
    if status in PASSING or status >= 500 or _BUSY.search(message):
        return AgentBusy(said, until=_until(message, exit, output), status=status)
    return AgentFailed(said, ending=exit.ending, exit=exit.exit, status=status)


def _until(message: str, exit: JobExit, output: Path) -> float | None:
    delay = delay_of(message)
    if delay is not None:
        return exit.ended_at + min(delay, FURTHEST.total_seconds())
    noted = noted_reset(output, now=exit.ended_at, status=status_of(message))
    return reset_time(message, now=exit.ended_at) or noted or _waited(exit, output)


def _waited(exit: JobExit, output: Path) -> float | None:
    """When its server would have had it come back, by its log: the last wait, counted anew if it is over."""
    waits = [found for line in end_of(output, 1 << 16).splitlines() if (found := wait_of(line))]
    if not waits:
        return None
    since, delay = waits[-1]
    # Its own short pauses say nothing about the server, and months are nothing that one means.
    if not 1.0 <= delay <= FURTHEST.total_seconds():
        return None
    return since + delay if exit.ended_at < since + delay < exit.ended_at + delay else exit.ended_at + delay


def _readable(message: str) -> str:
    """What a person can read of an error: codex passes on some of them as the server's JSON."""
    try:
        inner = json.loads(message)["error"]["message"]
    except (ValueError, RecursionError, TypeError, KeyError):
        inner = message
    return plain(str(inner)).strip()
