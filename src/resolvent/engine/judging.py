"""Why a turn is stopped before its end, judged from what its agent does. The same output, the same judgement."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from resolvent.domain.job import Abilities, Usage
from resolvent.domain.transcript import Moment, Retried, Said, Spent, ToolAnswered, ToolCalled
from resolvent.ports import Listener

# The same call with the same result, so many times in a row: it learns nothing from it any more.
REPEATS = 10
# A program that would wait longer than this by itself gives its place to others meanwhile.
LONGEST_WAIT_S = 120.0
REFUSED, BUSY, TOO_MANY = (401, 403), (502, 503, 504, 529), 429
MOST_LINE = 32 << 20


@dataclass(frozen=True)
class Stop:
    """What a person would have stopped it for; `wait_s` counts from the moment it was told."""

    why: Literal["stuck", "key", "busy", "budget"]
    text: str
    wait_s: float = 0.0
    # Whose money is spent, where it is not the job's own.
    scope: str = ""


@dataclass
class Judge:
    """Takes one moment after the other; the first reason to stop stays."""

    budget_usd: float | None = None
    stop: Stop | None = None
    spent: Usage = field(default_factory=Usage)
    # Its model had it do something: words alone may be its program's own.
    worked: bool = False
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    _last: tuple[str, str, str] = ("", "", "")
    _times: int = 0

    def take(self, moments: Iterable[Moment]) -> Stop | None:
        """The reason to stop, if there is one by now."""
        for moment in moments:
            found = self._judged(moment)
            self.stop = self.stop or found
        return self.stop

    def _judged(self, moment: Moment) -> Stop | None:
        match moment:
            case ToolCalled(call=call, tool=tool, input=input):
                self.worked = True
                self._calls[call] = (tool, input)
            case ToolAnswered(call=call, output=output):
                return self._answered(call, output)
            case Said():
                # Whoever explains itself in between is at least not in a loop of the simplest kind.
                self._times = 0
            case Spent(usage=usage):
                self.spent = usage
                if self.budget_usd is not None and usage.usd > self.budget_usd:
                    return Stop("budget", f"it has spent ${usage.usd:.2f} of ${self.budget_usd:.2f}")
            case Retried(status=status, reason=reason, delay_s=delay):
                if status in REFUSED:
                    return Stop("key", f"the model's server answers {status}: {reason}")
                # One that counts its requests is not asked again by anybody before it says so.
                if status == TOO_MANY or (status in BUSY and delay > LONGEST_WAIT_S):
                    return Stop("busy", f"the model's server answers {status}: {reason}", delay)
        return None

    def _answered(self, call: str, output: str) -> Stop | None:
        tool, input = self._calls.pop(call, ("", ""))
        same = bool(tool) and (tool, input, output) == self._last
        self._last, self._times = (tool, input, output), self._times + 1 if same else 1
        if self._times < REPEATS:
            return None
        return Stop("stuck", f"it called {tool} {self._times} times in a row with the same result: {input[:200]}")


def stopping_at(budget_usd: float | None, abilities: Abilities) -> float | None:
    """The amount at which we stop an agent ourselves.

    None for one that stops by itself, and for one that tells what it spent when its turn is over: to stop it then would
    throw away what was paid for.
    """
    return budget_usd if abilities.cost and not abilities.budget else None


def judged(output: Path, listener: Listener, *, budget_usd: float | None = None) -> Judge:
    """Everything that a job's output tells, judged as it was while it ran."""
    judge = Judge(budget_usd)
    try:
        with output.open("rb") as lines:
            while line := lines.readline(MOST_LINE):
                judge.take(listener.hear(line))
    except FileNotFoundError:
        return judge
    return judge
