"""What intake writes on the forge. Text of others is neutral there, and nobody is called."""

from resolvent.domain.arrival import WORDS, Rules
from resolvent.domain.neutral import code


def stop_reason(why: str, rules: Rules, *, subject: str, first: str = "") -> str:
    """Why a run is called off: the reason on the first line, then how to start again."""
    return f"{' '.join(why.split())}\n{_again(rules, subject=subject, first=first)}"


def _again(rules: Rules, *, subject: str, first: str) -> str:
    ways = [f"comment {code(f'@{rules.mention} resolve')}"] if rules.mention else []
    if rules.label and subject.startswith("issue-"):
        ways.append(f"take the label {code(rules.label)} away and put it on again")
    if not ways:
        kind, _, number = subject.partition("-")
        ways = [f"run {code(f'resolvent resolve {number}' if kind == 'issue' else f'resolvent resolve --pr {number}')}"]
    return f"To start again, {first}{', or '.join(ways)}."


def understood(rules: Rules, *, marker: str) -> str:
    """The answer to a mention that asks for something else."""
    known = [code(f"@{rules.mention} {word}") for word in WORDS]
    said = f"I understand {', '.join(known[:-1])} and {known[-1]}; a bare mention means {code(WORDS[0])}."
    return f"{said} Nothing else in a comment is read, options least of all.\n\n{marker}"
