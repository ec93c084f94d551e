"""The report of a run as one HTML page: no script, no outside request, and nothing in it but text of others."""

from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from resolvent.domain.neutral import visible
from resolvent.engine.transcript import clean
from resolvent.receipts.story import Story

GOOD, FAIR, POOR = "good", "fair", "poor"
TONES = {
    "proven": GOOD, "merged": GOOD, "PASSED": GOOD, "done": GOOD, "passed": GOOD,
    "argued": FAIR, "declined": FAIR, "waiting": FAIR, "running": FAIR, "queued": FAIR, "SHOWN": FAIR,
    "escalated": POOR, "failed": POOR, "cancelled": POOR, "BROKEN": POOR, "FLAKY": POOR, "broken": POOR, "flaky": POOR,
}  # fmt: skip
# Where the record gives no reason of its own.
WHY = {
    "proven": "The problem was shown without this change, is gone with it, and nothing that was found is left to fix.",
    "argued": "Nothing speaks against this change, and nothing was executed that proves it.",
    "merged": "The commit that was judged is on the base.",
    "waiting": "A person has to decide.",
    "running": "It is still at work: this is how far it came.",
    "queued": "It waits for a worker.",
}
SCOPES = {
    "FIX_IN_THIS_PR": "fix here",
    "DEFER_CREATE_ISSUE": "deferred",
    "INVALID_OR_ALREADY_FIXED": "not valid",
}


def page(story: Story) -> str:
    """The whole page; every text in it is escaped, and none can turn or hide what stands around it."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True)
    environment.filters |= {"duration": duration, "moment": moment, "money": money, "tone": tone, "scope": scope}
    environment.filters |= {"why": why, "plainly": plainly}
    source = (resources.files("resolvent.receipts") / "page.html").read_text(encoding="utf-8")
    style = (resources.files("resolvent.receipts") / "page.css").read_text(encoding="utf-8")
    return environment.from_string(source).render(story=story, document=story.document, style=Markup(style))


def _shown(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(clean(value))
    return value


def duration(seconds: float) -> str:
    """`0.3 s`, `42 s`, `3 min 7 s`, `2 h 5 min`; what takes no time says so."""
    if seconds < 0.05:
        return "at once"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def moment(at: float) -> str:
    """A moment by universal time: the page is read anywhere."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def money(usd: float) -> str:
    """Dollars, to the cent unless that would be nothing."""
    return f"${usd:.2f}" if usd >= 0.005 or not usd else f"${usd:.4f}"


def tone(word: str) -> str:
    """How a word is painted."""
    return TONES.get(word, "plain")


def scope(word: str | None) -> str:
    """Where a finding belongs, in short."""
    return SCOPES.get(word or "", "not triaged")


def why(outcome: str) -> str:
    """What an outcome means."""
    return WHY.get(outcome, "")


def plainly(execution: str) -> str:
    """What is said of a build or a test; only a reproducer shows something by failing."""
    return {"SHOWN": "failed"}.get(execution, execution.lower())
