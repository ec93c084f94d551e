"""The report of a run: what came out, on which evidence, where it is, and what to type next."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any

from resolvent.cli.terminal import Cell, Terminal, clean, one_line
from resolvent.cli.words import count, money, seconds, short

OUTCOME_STYLES = {
    "proven": "bold green",
    "merged": "bold green",
    "argued": "bold yellow",
    "declined": "bold yellow",
    "waiting": "bold yellow",
    "escalated": "bold red",
    "failed": "bold red",
    "cancelled": "bold red",
}
EXECUTION_STYLES = {"PASSED": "green", "SHOWN": "yellow", "BROKEN": "red", "FLAKY": "red"}
TRIAGE = {
    "FIX_IN_THIS_PR": ("fixed here", "yellow"),
    "DEFER_CREATE_ISSUE": ("deferred", "cyan"),
    "INVALID_OR_ALREADY_FIXED": ("not valid", "dim"),
}

BOXED_IN = "runs in a box: if it needs something of this machine, see sandbox.reads (resolvent doctor)"
_ABSENT = re.compile(
    r"not found|No such file or directory|Could not resolve|Connection refused|Network is unreachable", re.I
)


def lacks_something(ending: int, said: str) -> bool:
    """A command that ended like this may have missed a program, a file or a host."""
    return ending in (126, 127) or bool(_ABSENT.search(said))


@dataclass(frozen=True)
class Facts:
    """A run's outcome document with what people also want to see."""

    document: dict[str, Any]
    title: str
    elapsed: float
    # What to type in one's own checkout to look at the pull request; empty when there is none.
    checkout: str = ""
    # A check may have failed for want of something that its box does not show.
    boxed_in: bool = False


def report(terminal: Terminal, facts: Facts) -> Iterator[str]:
    """The whole of it, section by section."""
    document = facts.document
    yield heading(terminal, facts)
    # A run that waits says why in its question.
    if document["reason"] and document["decision"] is None:
        yield from (f"  {line}" for line in clean(document["reason"]).splitlines())
    yield from _section("evidence", terminal, evidence(terminal, document))
    if facts.boxed_in:
        yield terminal.paint(f"  {BOXED_IN}", "yellow")
    yield from _section("findings", terminal, findings(terminal, document["findings"]))
    yield from _gate(terminal, document["gate"])
    yield from _design(terminal, document.get("design"))
    yield from _pull_request(terminal, facts)
    yield from _question(terminal, document)
    yield ""
    yield _spent(terminal, facts)
    yield from following_commands(terminal, document)


def heading(terminal: Terminal, facts: Facts) -> str:
    """`proven  r1a2b3c4  issue-1  Amounts are read wrong`."""
    document = facts.document
    outcome = terminal.paint(document["outcome"], OUTCOME_STYLES.get(document["outcome"], "bold"))
    subject = terminal.paint(f"{document['run']}  {document['subject']}", "dim")
    return f"{outcome}  {subject}  {one_line(facts.title)}"


def evidence(terminal: Terminal, document: dict[str, Any]) -> list[str]:
    """What every check said of which commit."""
    if not document["evidence"]:
        return []
    names = {document["base"]: "base", document["change"]: "change"}
    rows: list[list[Cell]] = [[(word, "dim") for word in ("check", "on", "execution", "exit", "seconds")]]
    # Repeats that say the same are one row.
    said: dict[tuple[str, str, str, int], list[float]] = {}
    for item in document["evidence"]:
        said.setdefault((item["check"], item["on"], item["execution"], item["exit"]), []).append(item["seconds"])
    for (check, commit, execution, ending), took in said.items():
        on = f"{names[commit]} {short(commit)}" if commit in names else short(commit)
        times = f" ×{len(took)}" if len(took) > 1 else ""
        shown = (f"{execution}{times}", EXECUTION_STYLES.get(execution, ""))
        rows.append([check, (on, "dim"), shown, str(ending), f"{max(took):.2f}"])
    return terminal.table(rows, align="=<<>>")


def findings(terminal: Terminal, items: list[dict[str, Any]]) -> list[str]:
    """What reviewers claimed, and what became of it."""
    if not items:
        return []
    rows: list[list[Cell]] = [[(word, "dim") for word in ("id", "", "triage", "origin", "basis", "claim")]]
    for item in items:
        triage = TRIAGE.get(item["triage"], ("open", "bold"))
        issue = f" → {item['issue']}" if item["issue"] else ""
        origin = item["origin"].replace("_", "-")
        rows.append([item["id"], item["severity"], triage, origin, item["basis"], f"{item['title']}{issue}"])
    return terminal.table(rows, align="<<<<<=")


def _section(name: str, terminal: Terminal, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield terminal.paint(name, "bold")
        yield from lines


def _gate(terminal: Terminal, gate: dict[str, Any] | None) -> Iterator[str]:
    if gate is None:
        return
    yield ""
    word = terminal.paint("open", "green") if gate["open"] else terminal.paint("shut", "red")
    yield f"{terminal.paint('gate', 'bold')}  {word}"
    yield from (f"  {terminal.paint('✗', 'red')} {one_line(reason)}" for reason in gate["reasons"])
    yield from (terminal.paint(f"  · {one_line(note)}", "dim") for note in gate["notes"])


def _design(terminal: Terminal, design: dict[str, Any] | None) -> Iterator[str]:
    """What programs that ask for a design read; the design itself where no comment holds it."""
    if design is None:
        return
    yield ""
    yield f"DESIGN_STATUS={design['status']}"
    if design["comment_url"]:
        yield f"DESIGN_COMMENT_URL={one_line(design['comment_url'])}"
    if design["status"] == "CONSENSUS":
        yield f"DESIGN_NOTES={one_line(design['notes'])}"
    if design["body"] and not design["comment_url"]:
        yield ""
        yield from (f"  {line}".rstrip() for line in clean(design["body"]).splitlines())


def _pull_request(terminal: Terminal, facts: Facts) -> Iterator[str]:
    pull, change = facts.document["pull_request"], facts.document["change"]
    if pull is None:
        return
    yield ""
    at = f" at {short(change)}" if change else ""
    where = terminal.paint(f"{one_line(pull['url'])}  {one_line(pull['head'])}{at}", "dim")
    yield f"{terminal.paint('pull request', 'bold')}  #{pull['number']}  {where}"
    if facts.checkout:
        yield f"  {one_line(facts.checkout)}"


def _question(terminal: Terminal, document: dict[str, Any]) -> Iterator[str]:
    decision = document["decision"]
    if decision is None:
        return
    yield ""
    yield terminal.paint("a person decides", "bold yellow")
    yield from (f"  {line}" for line in clean(decision["text"]).splitlines())
    yield from (f"  resolvent decide {document['run']} {quote(one_line(choice))}" for choice in decision["choices"])


def _spent(terminal: Terminal, facts: Facts) -> str:
    cost, rounds = facts.document["cost"], facts.document["rounds"]
    parts = [seconds(facts.elapsed), money(cost["usd"])]
    if cost["input_tokens"] or cost["output_tokens"]:
        parts.append(f"{count(cost['input_tokens'])} tokens in, {count(cost['output_tokens'])} out")
    if rounds:
        parts.append(f"{rounds} fix round{'' if rounds == 1 else 's'}")
    return terminal.paint(" · ".join(parts), "dim")


def following_commands(terminal: Terminal, document: dict[str, Any]) -> list[str]:
    """What a person most likely types next."""
    run, pull = document["run"], document["pull_request"]
    commands: list[tuple[str, str]] = []
    if pull and document["outcome"] in ("proven", "argued"):
        commands.append((f"resolvent pr merge {pull['number']}", "take it"))
    if document["outcome"] in ("escalated", "failed", "cancelled"):
        commands += [(f"resolvent logs {run}", "what its agents said"), (f"resolvent retry {run}", "try it again")]
    if document["outcome"] in ("queued", "running"):
        commands.append((f"resolvent watch {run}", "follow it"))
    if pull:
        commands.append((f"resolvent diff {run}", "the change"))
    design = document.get("design")
    if document["playbook"] == "design" and design and design["comment_url"]:
        number, url = document["subject"].partition("-")[2], quote(design["comment_url"])
        commands.append((f"resolvent resolve {number} --design-comment {url}", "implement it"))
    if document["outcome"] == "declined":
        commands.append((f"resolvent logs {run}", "how it came to this"))
    rows: list[list[Cell]] = [
        ["next:" if not at else "", line, (why, "dim")] for at, (line, why) in enumerate(commands)
    ]
    return terminal.table(rows, align="<<<", indent=0)
