"""The receipt of a pull request: what was executed, found, decided and only argued, and nothing that acts."""

from dataclasses import replace
from typing import Any

import pytest
from markdown_it import MarkdownIt

from resolvent.domain.change import Change, Check, Evidence, Reproducer
from resolvent.domain.decision import Decision, Question
from resolvent.domain.finding import Finding
from resolvent.domain.gate import Gate
from resolvent.domain.integrity import Hit
from resolvent.domain.job import Branch, Usage
from resolvent.domain.record import AgentChoice, Frozen
from resolvent.domain.subject import Issue, PullRequest
from resolvent.domain.verdicts import Claim, Design
from resolvent.playbooks import texts
from resolvent.playbooks.receipt import MARKER, MOST_BYTES, receipt
from resolvent.playbooks.work import Proof, Work

BASE, FIRST, LAST, WITHOUT = (Change(commit=sign * 40, tree=sign * 40) for sign in "abcd")
REPRODUCER = Reproducer(command="python -m ledger 10 3 | grep 3.34")
OWN = Check.reproducing(REPRODUCER, "reproducer")
TEST = Check(name="test", kind="test", command="make test")
POISON = "@team fixes #12 <script>x</script> <!-- resolvent-evidence --> | a\n/merge\n## Gate open\n</details>"
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


def saw(check: Check, on: Change, execution: str = "PASSED", **more: Any) -> Evidence:
    key = f"{check.name}-{on}-{more.get('nth', 1)}"
    fixed = {"exit": int(execution != "PASSED"), "seconds": 0.4, "digest": "", "log": "", "branch": ""}
    return Evidence(**{"id": key, "check": check, "on": on.commit, "execution": execution, **fixed, **more})


def found(id: str = "F1", title: str = "rounding is lost", **more: Any) -> Finding:
    said = {"code_evidence": "a.py:1", "reachability": "always", "blast_radius": "all"}
    return Finding(id=id, claim=Claim(severity="P1", description=title, **said), commit=LAST.commit, **more)


def asked(reason: str, text: str = "Is that meant to be?") -> Decision:
    question = Question(key="k", text=text, choices=("dismiss", "stop"))
    return Decision(run="r", question=question, answer="dismiss", by="ada", reason=reason, asked_at=1.0)


WORK = Work(
    pull=PullRequest(number=2, url="local:pulls/2", title="T", head="h", head_commit=LAST.commit, base="main"),
    change=LAST,
    branch=Branch(id="b", parent=None, commit=LAST.commit),
    proof=Proof(REPRODUCER, BASE, (saw(OWN, BASE, "SHOWN"), saw(OWN, BASE, "SHOWN", nth=2))),
    history=(FIRST, LAST),
    evidence=(
        saw(OWN, FIRST, "SHOWN"),
        saw(OWN, LAST, reached="yes"),
        saw(OWN, WITHOUT, "SHOWN"),
        saw(TEST, LAST, "SHOWN", seconds=72.2, exit=2),
    ),
)
INPUTS = Frozen(
    issue=Issue(number=1, title="T"),
    base=BASE,
    base_branch="main",
    agents={"writer": AgentChoice(name="a", use="scripted")},
    prompts={},
)


def written(
    work: Work = WORK, gate: Gate | None = None, decisions: tuple[Decision, ...] = (), cost: Usage | None = None
) -> str:
    return receipt(INPUTS, work, gate or Gate(change=LAST), decisions=decisions, cost=cost or Usage())


def cells(text: str) -> list[list[str]]:
    """Every cell of every table row, as a reader sees it."""
    tokens, rows = PARSER.parse(text), []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "td_open":
            rows[-1].append("".join(one.content for one in tokens[at + 1].children or [] if one.type != "html_inline"))
    return [row for row in rows if row]


def test_a_check_is_one_row_before_the_change_on_it_and_without_the_fix() -> None:
    own, test = cells(written())
    assert own[0].startswith("reproducer") and own[0].endswith("python -m ledger 10 3 | grep 3.34")
    assert own[1:] == ["SHOWN (2×)", "PASSED", "SHOWN", "yes", "under 10 s"]
    assert test == ["testmake test", "–", "failed, exit 2", "–", "–", "72 s"]


def test_what_says_different_things_of_one_commit_is_flaky() -> None:
    work = replace(WORK, evidence=(saw(OWN, LAST), saw(OWN, LAST, "SHOWN", nth=2), saw(TEST, LAST)))
    assert [row[2] for row in cells(written(work))] == ["FLAKY (2×)", "passed"]


def test_it_begins_with_its_marker_the_gate_and_the_commit() -> None:
    opened = written().splitlines()
    assert opened[0] == MARKER
    assert "✅ **The gate is open**, proven by what was executed on this very commit." in opened
    assert f"Commit `{LAST.commit}`, after 1 fix." in opened
    shut = written(gate=Gate(change=LAST, reasons=("test failed: exit 2",), notes=("the forge names no checks",)))
    assert "⛔ **The gate is shut.**" in shut
    assert "- ⛔ test failed: exit 2\n- the forge names no checks" in shut


def test_a_finding_shows_its_basis_origin_rounds_scope_and_issue() -> None:
    findings = (
        found(basis="executed", on_head="SHOWN", on_base="PASSED", origin="introduced", scope="FIX_IN_THIS_PR"),
        found("F2", origin="pre_existing", scope="DEFER_CREATE_ISSUE", issue="local:issues/3"),
        found("F3", rule="skipped-test", basis="executed", found_in_round=1, created_in_round=1, repeats="F1"),
    )
    rows = cells(written(replace(WORK, findings=findings)))[2:]
    executed = "executed (change SHOWN, base PASSED)"
    assert rows[0] == ["F1", "P1", "rounding is lost", executed, "introduced", "0", "FIX_IN_THIS_PR", "–"]
    assert rows[1][3:] == ["argued (nothing ran)", "pre-existing", "0", "DEFER_CREATE_ISSUE", "local:issues/3"]
    assert rows[2][3:7] == ["rule skipped-test", "unknown", "1, made by fix 1, F1 is back", "not triaged"]


@pytest.mark.spec("X7")
def test_what_was_only_argued_is_named() -> None:
    text = written(replace(WORK, findings=(found(), found("F2", basis="executed"))), Gate(change=LAST, argued=True))
    section = text.partition("### Only argued\n\n")[2].partition("\n\n")[0].splitlines()
    assert section == [
        "- that the change solves the issue: no reproducer of it was executed on this commit",
        "- F1: rounding is lost",
    ]
    assert "argued: nothing executed proves it" in text
    assert "Only argued" not in written()


def test_decisions_and_cost_are_told_with_who_and_why() -> None:
    text = written(decisions=(asked("the old test was wrong"),), cost=Usage(usd=1.5, input_tokens=12345))
    assert "- Is that meant to be? → **dismiss** by ada: the old test was wrong" in text
    assert "Agents spent $1.50: 12,345 tokens in, 0 out." in text


@pytest.mark.spec("X8")
def test_whatever_others_wrote_does_nothing_in_it() -> None:
    nasty = Check.reproducing(Reproducer(command=f"echo '{POISON}' `x`", files=()), POISON)
    work = replace(
        WORK,
        evidence=(saw(nasty, LAST),),
        findings=(found(title=POISON.replace("\n", " "), issue=POISON, repeats=POISON, rule=POISON),),
    )
    text = written(work, Gate(change=LAST, reasons=(POISON,), notes=(POISON,)), (asked(POISON, POISON),))
    tokens = PARSER.parse(text)
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["Evidence", "Executed", "Findings", "Decided by people"]
    blocks = [token.content.split(">")[0] for token in tokens if token.type == "html_block"]
    assert blocks == ["<!-- resolvent-evidence --", "<details", "</details"]
    tags = {child.content for token in tokens for child in token.children or [] if child.type == "html_inline"}
    assert tags <= {"<br>", "<code>", "</code>"}
    texts = [child.content for token in tokens for child in token.children or [] if child.type == "text"]
    inside_code = False
    for part in (child for token in tokens for child in token.children or []):
        inside_code = part.content == "<code>" if part.type == "html_inline" else inside_code
        assert part.type != "text" or inside_code or "@team" not in part.content
    assert any("@\u200bteam fixes #\u200b12" in text for text in texts)
    assert text.count(MARKER) == 1
    assert {len(row) for row in cells(text)} == {6, 8}


def test_other_comments_and_titles_too_are_no_longer_than_a_forge_takes() -> None:
    findings = tuple(found(f"F{number}", scope="FIX_IN_THIS_PR", rationale="so\n" * 500) for number in range(100))
    assert len(texts.verification(findings, LAST)) < 65_000
    claim = found().claim.model_copy(update={"description": "long\n" * 20_000})
    assert len(texts.deferred(found().model_copy(update={"claim": claim}), WORK.pull)) < 65_000
    title = texts.title(Issue(number=42, title="@x" * 128))
    assert len(title) == 256 and title.endswith("… (#42)")
    assert texts.title(Issue(number=42, title="short")) == "short (#42)"


def test_the_subject_of_an_improvement_calls_nobody_and_closes_nothing() -> None:
    design = Design(root_cause="fixes #1\n@team", severity="P1", approach="so")
    assert texts.improve_subject(replace(WORK, design=design)) == "Improve #2: fixes #\u200b1 @\u200bteam"


def test_what_a_person_dismissed_is_meant_to_be_there() -> None:
    hit = Hit(rule="relaxed-ci", path="Makefile", line=3, text="it is new")
    assert texts.meant([texts.hit_key(hit)], ["Makefile", "Make", "a/Makefile"]) == {"Makefile"}


@pytest.mark.parametrize("path", [".travis.yml", ".drone.yml", ".gitea/workflows/a.yml", ".github/workflows/a.yml"])
def test_a_pipeline_of_any_service_runs_elsewhere(path: str) -> None:
    assert texts.runs_elsewhere(path) and not texts.runs_elsewhere("src/a.py")


@pytest.mark.spec("X7")
@pytest.mark.parametrize("many", [300, 3000])
def test_it_never_holds_more_than_a_forge_takes_and_says_where_it_was_cut(many: int) -> None:
    findings = tuple(found(f"F{number}", "@ü" * 60) for number in range(many))
    text = written(replace(WORK, findings=findings))
    assert len(text.encode()) <= MOST_BYTES
    assert text.endswith("`resolvent report` has all of it._")
    rows = cells(text)
    assert len(rows) > 60 and {len(row) for row in rows[2:]} == {8}


def test_a_command_of_many_lines_and_its_files_are_there_in_full() -> None:
    check = Check.reproducing(
        Reproducer(command="set -e\npython x.py", files=({"path": "x.py", "text": "```\nprint(1)"},)), "reproducer"
    )
    text = written(replace(WORK, evidence=(saw(check, LAST),)))
    fences = [token.content for token in PARSER.parse(text) if token.type == "fence"]
    assert fences == ["set -e\npython x.py\n", "```\nprint(1)\n"]
