"""Which rule of the engine spoke against a change, read from what the run left on the record."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resolvent.domain.events import GateJudged
from resolvent.domain.finding import Finding

# How the gate's reasons begin, and what the rule behind them is called; the first that fits, by its weight.
_REASONS = (
    (r"head moved", "head moved"),
    (r"\S.* failed: .*FLAKY", "repeated runs"),
    (r"reproducer failed", "reproducer"),
    (r"variant \d+ failed", "variants"),
    (r"(?:build|test|smoke) failed", "checks"),
    (r"unreached", "unreached"),
    (r"revert check", "revert check"),
    (r"relaxed checks", "relaxed checks"),
    (r"too large", "size"),
    (r"does not merge", "conflict"),
    (r"finding ", "finding"),
)
# How a run ends that never came to the gate.
_ENDINGS = {
    "no_change": "nothing was changed",
    "AgentTimedOut": "time limit",
    "AgentStuck": "time limit",
    "MalformedAnswer": "strict answers",
    "ExportRefused": "export rules",
    "test": "integrity: insisted on",
}


@dataclass(frozen=True)
class Seen:
    """What there is to read about one run."""

    document: dict[str, Any]
    events: tuple[Any, ...]
    findings: Sequence[Finding]


def rule_of(seen: Seen) -> tuple[str, str]:
    """The rule, and its own words; a run that broke, or stopped for no reason we know, was stopped by no rule."""
    for finding in seen.findings:
        if finding.rule:
            return f"integrity: {finding.rule}", finding.claim.title
    judged = [event for event in seen.events if isinstance(event, GateJudged) and not event.open]
    if judged:
        return _spoken(judged[-1].reasons)
    decision, reason = seen.document["decision"], seen.document["reason"]
    if decision and not decision["key"].startswith("bug:"):
        return f"asks a person: {decision['key'].partition(':')[0]}", decision["text"]
    word = re.match(r"\w+", reason)
    return _ENDINGS.get(word[0] if word else "", "unknown"), reason


def _spoken(reasons: Sequence[str]) -> tuple[str, str]:
    for pattern, rule in _REASONS:
        for reason in reasons:
            if re.match(pattern, reason):
                return rule, reason
    return "unknown", "; ".join(reasons)
