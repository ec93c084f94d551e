"""The receipt of a pull request: one comment that says what was executed, what was found, and what was only argued."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resolvent.domain.change import Check, Evidence, agreed
from resolvent.domain.decision import Decision
from resolvent.domain.finding import Finding
from resolvent.domain.gate import Gate
from resolvent.domain.job import Usage
from resolvent.domain.neutral import code, fenced, line
from resolvent.domain.record import Frozen
from resolvent.playbooks.work import Work

MARKER = "<!-- resolvent-evidence -->"
# What every forge takes in one comment; in bytes, because some count those.
MOST_BYTES = 60_000
_CUT = "\n\n_Cut here, because a comment can hold no more: `resolvent report` has all of it._"
_QUICK_S = 10.0


@dataclass(frozen=True)
class Section:
    """Rows between a head and a foot; as many of them are shown as there is room for."""

    head: str
    rows: tuple[str, ...]
    foot: str = ""


def receipt(inputs: Frozen, work: Work, gate: Gate, *, decisions: Sequence[Decision], cost: Usage) -> str:
    """All that the gate of this change stands on, for people; at most so much that every forge takes it."""
    seen = tuple({item.id: item for item in (*work.proof.evidence, *work.variations.evidence, *work.evidence)}.values())
    sections = (
        _standing(work, gate),
        _table(inputs, work, seen),
        _findings(work.findings),
        _argued(work, gate),
        _decided(decisions),
        _commands(seen),
        Section(f"\n{_spent(cost)}", ()),
    )
    return _fitting(sections)


def _standing(work: Work, gate: Gate) -> Section:
    how = "argued: nothing executed proves it" if gate.argued else "proven by what was executed on this very commit"
    said = f"✅ **The gate is open**, {how}." if gate.open else "⛔ **The gate is shut.**"
    fixes = f"after {work.round} {'fix' if work.round == 1 else 'fixes'}" if work.round else "the first change"
    head = f"{MARKER}\n## Evidence\n\n{said}\n\nCommit `{gate.change.commit}`, {fixes}.\n"
    reasons = [f"- ⛔ {line(_short(reason, 300))}" for reason in gate.reasons]
    return Section(head, (*reasons, *(f"- {line(_short(note, 300))}" for note in gate.notes)))


def _table(inputs: Frozen, work: Work, seen: Sequence[Evidence]) -> Section:
    """A row per check: what it said before the change, on it, and with the fix taken out again."""
    if not seen:
        return Section("\n### Executed\n\nNothing was executed.", ())
    before = (inputs.base.commit, work.proof.on.commit)
    known = (*before, *(change.commit for change in work.history), work.change.commit)
    rows = []
    for check in dict.fromkeys(item.check for item in seen):
        said = [item for item in seen if item.check == check]
        now = [item for item in said if item.on == work.change.commit]
        cells = [
            f"{line(check.name)}<br>{code(_short(check.command, 160))}",
            _said([item for item in said if item.on in before and item not in now]),
            _said(now),
            _said([item for item in said if item.on not in known]),
            next((item.reached for item in now if item.reached), "") or "–",
            _seconds(sum(item.seconds for item in said)),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    head = (
        "\n### Executed\n\n| check | before the change | on this commit | without the fix | reaches the change | took |"
        "\n|---|---|---|---|---|---|"
    )
    return Section(head, tuple(rows))


def _said(evidence: Sequence[Evidence]) -> str:
    """What executions of one check say together, and how many there were."""
    if not evidence:
        return "–"
    together = agreed([item.execution for item in evidence])
    many = f" ({len(evidence)}×)" if len(evidence) > 1 else ""
    if evidence[0].check.kind == "reproducer":
        return f"{together}{many}"
    return {"PASSED": "passed", "SHOWN": f"failed, exit {evidence[0].exit}"}.get(together, together.lower()) + many


def _seconds(seconds: float) -> str:
    # No finer: what is measured differs at every execution, and a comment is not edited for that.
    return f"{seconds:.0f} s" if seconds >= _QUICK_S else f"under {_QUICK_S:.0f} s"


def _findings(findings: Sequence[Finding]) -> Section:
    if not findings:
        return Section("\n### Findings\n\nNo review left a P0 or P1.", ())
    head = (
        "\n### Findings\n\n| finding | severity | what | basis | origin | round | scope | issue |"
        "\n|---|---|---|---|---|---|---|---|"
    )
    return Section(head, tuple(f"| {' | '.join(_finding(finding))} |" for finding in findings))


def _finding(finding: Finding) -> Iterable[str]:
    yield finding.id
    yield finding.claim.severity
    yield line(_short(finding.claim.title, 120))
    yield _basis(finding)
    yield finding.origin.replace("_", "-")
    made = f", made by fix {finding.created_in_round}" if finding.created_in_round else ""
    back = f", {line(finding.repeats)} is back" if finding.repeats else ""
    yield f"{finding.found_in_round}{made}{back}"
    yield finding.scope or "not triaged"
    yield _link(finding.issue) if finding.issue else "–"


def _basis(finding: Finding) -> str:
    if finding.rule:
        return f"rule {code(finding.rule)}"
    ran = f"change {finding.on_head}, base {finding.on_base or 'not run'}" if finding.on_head else "nothing ran"
    return f"{finding.basis} ({ran})"


def _link(url: str) -> str:
    """A link that the forge gave us; anything else is only text."""
    ours = url.startswith(("https://", "http://", "local:")) and not any(sign in url for sign in " |<>()[]`\\\"'")
    return url if ours and url.isprintable() and len(url) < 300 else line(_short(url, 300))


def _argued(work: Work, gate: Gate) -> Section:
    """What nobody ran is said so, by name."""
    only = [f"- {one.id}: {line(_short(one.claim.title, 120))}" for one in work.findings if _is_argued(one)]
    flaky = work.proof.execution == "FLAKY"
    why = "its reproducer fails only sometimes" if flaky else "no reproducer of it was executed on this commit"
    own = [f"- that the change solves the issue: {why}"] if gate.argued else []
    rows = (*own, *only)
    return Section("\n### Only argued\n", rows) if rows else Section("", ())


def _is_argued(finding: Finding) -> bool:
    return finding.basis == "argued" and not finding.rule


def _decided(decisions: Sequence[Decision]) -> Section:
    answered = [one for one in decisions if one.answer is not None]
    return (
        Section("\n### Decided by people\n", tuple(_decision(one) for one in answered)) if answered else Section("", ())
    )


def _decision(decision: Decision) -> str:
    who = line(_short(decision.by, 80)) or "somebody"
    why = f": {line(_short(decision.reason, 1000))}" if decision.reason.strip() else ", without a reason"
    return f"- {line(_short(decision.question.text, 300))} → **{line(decision.answer or '')}** by {who}{why}"


def _commands(seen: Sequence[Evidence]) -> Section:
    """What does not fit into a cell, so that everybody can run it."""
    checks = [check for check in dict.fromkeys(item.check for item in seen) if _is_long(check)]
    if not checks:
        return Section("", ())
    rows = []
    for check in checks:
        parts = [fenced(_short(check.command, 4000), info="sh")]
        parts += [f"{code(file.path)}\n\n{fenced(_short(file.text, 4000))}" for file in check.files]
        rows.append(f"**{line(check.name)}**\n\n" + "\n\n".join(parts) + "\n")
    return Section("\n<details><summary>Commands and files in full</summary>\n", tuple(rows), "\n</details>")


def _is_long(check: Check) -> bool:
    return bool(check.files) or len(check.command) > 160 or "\n" in check.command.strip()


def _spent(cost: Usage) -> str:
    return f"Agents spent ${cost.usd:.2f}: {cost.input_tokens:,} tokens in, {cost.output_tokens:,} out."


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _fitting(sections: Sequence[Section]) -> str:
    """One after the other, whole rows only, with a word where something had to be left out."""
    done, left = "", MOST_BYTES - _size(_CUT)
    for section in sections:
        room = left - _size(done) - _size(section.head) - _size(section.foot)
        rows: list[str] = []
        for row in section.rows:
            room -= _size(row) + 1
            if room < 0:
                break
            rows.append(row)
        if room < 0 and not rows:
            return f"{done}{_CUT}"
        done += "\n".join(part for part in (section.head, *rows, section.foot) if part)
        if len(rows) < len(section.rows):
            return f"{done}{_CUT}"
        done += "\n" if section.head else ""
    return done.rstrip("\n")


def _size(text: str) -> int:
    return len(text.encode())
