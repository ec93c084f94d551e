"""The answers agents give, one table per verdict: what fits, what is malformed, and what the message says."""

import json
import textwrap

import pytest

from resolvent.domain.change import Expect, File, Reproducer
from resolvent.domain.job import Reply
from resolvent.domain.model import Value
from resolvent.domain.verdicts import Analysis, Claim, Design, Fix, Implementation, Review, Triage, Verification
from resolvent.engine.answers import RAW_BYTES, grammar, parse
from resolvent.engine.forms import SHAPES
from resolvent.errors import MalformedAnswer

MODELS = (Analysis, Implementation, Fix, Review, Verification)


def text(block: str) -> str:
    return textwrap.dedent(block).strip("\n")


def refused(model: type[Value], said: str, answer: str | None = None) -> str:
    with pytest.raises(MalformedAnswer) as caught:
        parse(model, Reply(text=said, answer=answer))
    assert "\n" not in caught.value.message
    return caught.value.message


DESIGN = text("""
    VERDICT=NEED_FIX
    BEGIN_SOLUTION_DESIGN
    root_cause: the cache is never emptied
    severity: P1
    approach: empty it
      after every write
    test_strategy: a test that writes twice
    risks:
    - slower writes
    - a race: none seen
    alternatives_rejected: no cache at all
    reproducer:
    ```json
    {"command": "python repro.py", "files": [{"path": "repro.py", "text": "assert 0"}],
     "expect": {"exit": 1, "pattern": "AssertionError"}, "timeout_s": 60}
    ```
    END_SOLUTION_DESIGN
""")

FINDING = text("""
    - Severity: P0
    - Description: data is lost
    - Code evidence: store.py:12 drops the lock
    - Reachability: default configuration
    - Blast radius: every write
""")


def findings(*blocks: str) -> str:
    return "\n".join(("P0_P1_FINDINGS", "BEGIN_P0_P1_FINDINGS", *blocks, "END_P0_P1_FINDINGS"))


def in_scope(*blocks: str) -> str:
    return "\n".join(("IN_SCOPE_P0_P1", "BEGIN_IN_SCOPE_P0_P1", *blocks, "END_IN_SCOPE_P0_P1"))


def triage(*blocks: str) -> str:
    return "\n".join(("BEGIN_TRIAGE", *blocks, "END_TRIAGE"))


CLAIM = Claim(
    severity="P0",
    description="data is lost",
    code_evidence="store.py:12 drops the lock",
    reachability="default configuration",
    blast_radius="every write",
)

DEFERRED = text("""
    - Finding: F2
    - Validity: valid
    - Origin: pre-existing
    - Difficulty: L
    - Risk: high
    - Scope: DEFER_CREATE_ISSUE
    - Rationale: old, and large
""")

WHOLE = {
    Analysis: DESIGN,
    Implementation: "IMPLEMENTATION_SUCCESS",
    Fix: "FIX_SUCCESS",
    Review: findings(FINDING),
    Verification: f"{triage(DEFERRED)}\n{in_scope('- Finding: F1')}",
}


# Analysis


@pytest.mark.conforms("S1.8")
def test_a_design_is_read_key_by_key_with_its_further_lines_and_its_reproducer() -> None:
    said = parse(Analysis, Reply(text=DESIGN))

    assert said.verdict == "NEED_FIX" and not said.no_action
    assert said.design == Design(
        root_cause="the cache is never emptied",
        severity="P1",
        approach="empty it\nafter every write",
        test_strategy="a test that writes twice",
        risks="- slower writes\n- a race: none seen",
        alternatives_rejected="no cache at all",
    )
    assert said.reproducer == Reproducer(
        command="python repro.py",
        files=(File(path="repro.py", text="assert 0"),),
        expect=Expect(exit=1, pattern="AssertionError"),
        timeout_s=60,
    )


@pytest.mark.conforms("S1.8")
@pytest.mark.parametrize("severity", ["P0", "P1", "P2", "feature", "enhancement"])
def test_a_design_may_have_every_severity_of_the_grammar(severity: str) -> None:
    said = parse(Analysis, Reply(text=DESIGN.replace("severity: P1", f"severity: {severity}")))
    assert said.design is not None and said.design.severity == severity


@pytest.mark.spec("E4")
def test_a_design_that_has_nothing_to_run_says_why() -> None:
    head, _, tail = DESIGN.partition("```json")
    said = parse(
        Analysis, Reply(text=f"{head.rstrip()} none it is\n  documentation only{tail[tail.rindex('```') + 3 :]}")
    )
    assert said.reproducer is None
    assert said.no_reproducer == "it is\ndocumentation only"


@pytest.mark.conforms("S1.7")
def test_no_action_needed_comes_with_its_reason() -> None:
    said = parse(Analysis, Reply(text="I looked.\n\nVERDICT=NO_ACTION_NEEDED\nREASON=already fixed in 1.2 = good\n"))
    assert said == Analysis(verdict="NO_ACTION_NEEDED", reason="already fixed in 1.2 = good")
    assert said.no_action


@pytest.mark.conforms("S0.10")
@pytest.mark.spec("W5")
def test_the_older_words_valid_and_invalid_are_understood() -> None:
    block = "VERDICT=VALID\nBEGIN_SOLUTION_SUGGESTION\nFirst:\n\n    code()\n- then that\nEND_SOLUTION_SUGGESTION"
    said = parse(Analysis, Reply(text=block))
    assert (said.verdict, said.suggestion) == ("VALID", "First:\n\n    code()\n- then that")
    assert not said.no_action
    assert parse(Analysis, Reply(text="VERDICT=INVALID")).no_action
    assert parse(Analysis, Reply(text="VERDICT=INVALID\nREASON=works as meant")).reason == "works as meant"


def test_a_suggestion_may_hold_a_reproducer_between_its_words() -> None:
    block = text("""
        VERDICT=VALID
        BEGIN_SOLUTION_SUGGESTION
        Empty the cache.
        reproducer:

        ~~~json
        {"command": "make fail"}
        ~~~
        Then measure.
        END_SOLUTION_SUGGESTION
    """)
    said = parse(Analysis, Reply(text=block))
    assert said.reproducer == Reproducer(command="make fail")
    assert said.suggestion == "Empty the cache.\nThen measure."


@pytest.mark.conforms("S0.10", "S1.7", "S1.8")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "there is no verdict"),
        ("VERDICT=NEED_FIX", "must be followed by a block from BEGIN_SOLUTION_DESIGN"),
        ("VERDICT=NEED_FIX\nBEGIN_SOLUTION_DESIGN\nroot_cause: x", "never ended by a line reading END_SOLUTION_DESIGN"),
        ("VERDICT=NEED_FIX\nroot_cause: x\nEND_SOLUTION_DESIGN", "stands inside the block"),
        ("root_cause: x\nEND_SOLUTION_DESIGN", "has no line reading BEGIN_SOLUTION_DESIGN"),
        (DESIGN.removeprefix("VERDICT=NEED_FIX\n"), "must stand directly below a line reading"),
        (DESIGN.replace("NEED_FIX", "VALID"), "must be followed by a block from BEGIN_SOLUTION_SUGGESTION"),
        (DESIGN.replace("NEED_FIX", "INVALID"), "does not take the block SOLUTION_DESIGN"),
        (DESIGN.replace("NEED_FIX", "NEED_FIX now"), "must stand directly below"),
        (DESIGN + "\nREASON=because", "does not take REASON="),
        (DESIGN + "\nThat is all.", "nothing may follow the verdict"),
        (DESIGN + "\nEND_SOLUTION_DESIGN", "stands inside the block"),
        (DESIGN.replace("severity: P1", "severity: P1 (high)"), "design.severity"),
        (DESIGN.replace("severity: P1\n", ""), "design.severity: Field required"),
        (DESIGN.replace("severity: P1", "severity: P1\nseverity: P1"), "the key severity stands twice"),
        (DESIGN.replace("the cache is never emptied", ""), "design.root_cause"),
        (DESIGN.replace("root_cause:", "Well,\nroot_cause:"), "it begins with 'Well,'"),
        (DESIGN.replace('{"command"', '{"shell"'), "the reproducer does not fit"),
        (DESIGN.replace('"timeout_s": 60', '"timeout_s": NaN'), "NaN is not JSON"),
        (DESIGN.replace('"exit": 1,', '"exit": 1, "exit": 2,'), "a key stands twice"),
        (DESIGN.replace("repro.py", "../repro.py"), "path must stay inside the repository"),
        (DESIGN.replace('"AssertionError"', '"(?=a)"'), "look-around"),
        (DESIGN.replace("```json", "```python"), "must be followed by a JSON object in a fence"),
        (DESIGN.replace("```json", "see below"), "a code fence opened with ``` inside the block is never closed"),
        (
            DESIGN.replace("reproducer:\n", "reproducer: maybe\n"),
            "must be followed by a fenced JSON object, or by `none`",
        ),
        (
            DESIGN.replace("reproducer:\n", "reproducer: none\n"),
            "must be followed by a fenced JSON object, or by `none`",
        ),
        (DESIGN.replace("```\nEND", "```\nand more\nEND"), "only the next key may follow a reproducer"),
        ("VERDICT=NO_ACTION_NEEDED", "must be followed by a line REASON="),
        ("VERDICT=NO_ACTION_NEEDED\nREASON=", "must be followed by a line REASON="),
        ("VERDICT=NO_ACTION_NEEDED\nREASON=<brief explanation>", "must be followed by a line REASON="),
        ("VERDICT=NO_ACTION_NEEDED REASON=fixed", "there is no verdict"),
        ("VERDICT=NO_ACTION_NEEDED\nREASON=a\nREASON=b", "must stand directly below"),
        ("VERDICT=NO_ACTION_NEEDED\nREASON=a\nand b", "nothing may follow the verdict"),
        ("VERDICT=VALID\nBEGIN_SOLUTION_SUGGESTION\n\nEND_SOLUTION_SUGGESTION", "VALID needs a suggestion"),
        ("VERDICT=VALID\nBEGIN_SOLUTION_SUGGESTION\nx", "never ended"),
        ("VERDICT=VALID", "must be followed by a block"),
        (f"VERDICT=INVALID\n{DESIGN}", "'VERDICT=INVALID' stands outside the last verdict"),
        (f"{DESIGN}\nVERDICT=INVALID", "'VERDICT=NEED_FIX' stands outside the last verdict"),
        ("VERDICT=VALID\nVERDICT=INVALID", "'VERDICT=VALID' stands outside the last verdict"),
        ("VERDICT=MAYBE", "there is no verdict"),
        ("verdict=invalid", "there is no verdict"),
        ("VERDICT=INVALID\nREASON=a\0b", "NUL"),
    ],
)
def test_an_analysis_that_does_not_fit_is_malformed_and_told_why(said: str, why: str) -> None:
    assert why in refused(Analysis, said)


# Implementation and fix


@pytest.mark.conforms("S0.14", "S1.13")
@pytest.mark.parametrize(
    "said",
    [
        "IMPLEMENTATION_SUCCESS\nPR_URL=https://x/pull/7\nPR_NUMBER=7\nPR_HEAD_BRANCH=fix/a",
        "IMPLEMENTATION_SUCCESS\n\nPR_HEAD_BRANCH=fix/a \r\nPR_NUMBER=7\nPR_URL= https://x/pull/7",
        "Done:\nPR_URL=https://x/pull/7\nPR_NUMBER=7\nPR_HEAD_BRANCH=fix/a",
    ],
)
def test_a_pull_request_is_reported_with_all_its_three_fields(said: str) -> None:
    done = parse(Implementation, Reply(text=said))
    assert done.mode == "IMPLEMENTATION_SUCCESS"
    assert done.pull_request is not None
    assert dict(done.pull_request) == {"url": "https://x/pull/7", "number": 7, "head": "fix/a"}


@pytest.mark.conforms("S0.14", "S1.13", "S1.14", "S1.15", "S1.24")
def test_every_mode_of_a_change_is_told_apart() -> None:
    alone = parse(Implementation, Reply(text="IMPLEMENTATION_SUCCESS"))
    assert (alone.mode, alone.pull_request) == ("IMPLEMENTATION_SUCCESS", None)
    blocked = parse(Implementation, Reply(text="IMPLEMENTATION_BLOCKED\nREASON=the design contradicts itself"))
    assert (blocked.mode, blocked.reason) == ("IMPLEMENTATION_BLOCKED", "the design contradicts itself")
    expired = "GH_AUTH_EXPIRED\nLOCAL_COMMIT=0a1b2c3\nRETRY_PUSH_BRANCH=fix/a"
    for kept in (parse(Implementation, Reply(text=expired)), parse(Fix, Reply(text=expired))):
        assert (kept.mode, kept.local_commit, kept.retry_push_branch) == ("GH_AUTH_EXPIRED", "0a1b2c3", "fix/a")
    assert parse(Fix, Reply(text="FIX_SUCCESS")) == Fix(mode="FIX_SUCCESS")


@pytest.mark.conforms("S0.14", "S1.13", "S1.14", "S1.15")
@pytest.mark.spec("W6")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("done", "there is no verdict"),
        ("IMPLEMENTATION_SUCCESS\nPR_URL=u\nPR_NUMBER=7", "must be followed by a line PR_HEAD_BRANCH="),
        ("IMPLEMENTATION_SUCCESS\nPR_URL=u\nPR_NUMBER=seven\nPR_HEAD_BRANCH=h", "PR_NUMBER= must be a number"),
        ("IMPLEMENTATION_SUCCESS\nPR_URL=u\nPR_NUMBER=٧\nPR_HEAD_BRANCH=h", "PR_NUMBER= must be a number"),
        ("IMPLEMENTATION_SUCCESS\nPR_URL=u\nPR_NUMBER=0\nPR_HEAD_BRANCH=h", "pull_request.number"),
        (f"PR_URL=u\nPR_NUMBER={'9' * 5000}\nPR_HEAD_BRANCH=h", "PR_NUMBER= must be a number"),
        ("IMPLEMENTATION_SUCCESS\nPR_URL=\nPR_NUMBER=1\nPR_HEAD_BRANCH=h", "must be followed by a line PR_URL="),
        ("PR_URL=<url>\nPR_NUMBER=<number>\nPR_HEAD_BRANCH=<branch>", "must be followed by a line PR_URL="),
        ("PR_URL=u\nPR_NUMBER=1", "must stand directly below"),
        ("PR_URL=u\nPR_NUMBER=1\nPR_HEAD_BRANCH=h\nREASON=r", "must stand directly below"),
        ("PR_URL=a\nPR_NUMBER=1\nPR_HEAD_BRANCH=h\nPR_URL=b\nPR_NUMBER=2\nPR_HEAD_BRANCH=h", "'PR_URL=a'"),
        ("IMPLEMENTATION_SUCCESS\nLOCAL_COMMIT=c", "does not take LOCAL_COMMIT="),
        ("IMPLEMENTATION_SUCCESS\nsee\nPR_URL=u\nPR_NUMBER=1\nPR_HEAD_BRANCH=h", "stands outside the last verdict"),
        ("IMPLEMENTATION_SUCCESS\nPR_URL=u\nPR_NUMBER=1\nPR_HEAD_BRANCH=h\nIMPLEMENTATION_SUCCESS", "stands outside"),
        ("GH_AUTH_EXPIRED", "must be followed by a line LOCAL_COMMIT="),
        ("GH_AUTH_EXPIRED\nLOCAL_COMMIT=abc", "must be followed by a line RETRY_PUSH_BRANCH="),
        ("GH_AUTH_EXPIRED\nLOCAL_COMMIT=<sha>\nRETRY_PUSH_BRANCH=<branch>", "must be followed by a line LOCAL_COMMIT="),
        ("IMPLEMENTATION_BLOCKED", "must be followed by a line REASON="),
        ("IMPLEMENTATION_BLOCKED\nREASON=x\nIMPLEMENTATION_SUCCESS", "'IMPLEMENTATION_BLOCKED' stands outside"),
        ("IMPLEMENTATION_SUCCESS\nIMPLEMENTATION_BLOCKED\nREASON=x", "'IMPLEMENTATION_SUCCESS' stands outside"),
        ("FIX_SUCCESS", "there is no verdict"),
    ],
)
def test_an_implementation_that_does_not_fit_is_malformed_and_told_why(said: str, why: str) -> None:
    assert why in refused(Implementation, said)


@pytest.mark.conforms("S1.24")
@pytest.mark.parametrize(
    "said",
    [
        "fixed it",
        "FIX_SUCCESS\nPR_URL=u",
        "FIX_SUCCESS!",
        "GH_AUTH_EXPIRED",
        "GH_AUTH_EXPIRED\nLOCAL_COMMIT=abc\nRETRY_PUSH_BRANCH=h\nFIX_SUCCESS",
        "FIX_SUCCESS\nGH_AUTH_EXPIRED\nLOCAL_COMMIT=abc\nRETRY_PUSH_BRANCH=h",
        "IMPLEMENTATION_SUCCESS",
    ],
)
def test_a_fix_that_does_not_say_exactly_one_thing_is_malformed(said: str) -> None:
    refused(Fix, said)


# Review


@pytest.mark.conforms("S0.18")
def test_a_review_without_findings_is_exactly_one_token() -> None:
    assert parse(Review, Reply(text="I read it all.\n\nNO_P0_P1\n\n")) == Review(verdict="NO_P0_P1")


@pytest.mark.conforms("S0.18", "S0.19")
@pytest.mark.parametrize(
    "block",
    [
        FINDING,
        FINDING.replace("\n- ", "\n  "),
        FINDING.replace("\n- ", "\n"),
        FINDING.replace("\n- ", "\n  - "),
        FINDING.replace("\n", "\n\n"),
        FINDING.lower().replace(": p0", ": P0"),
        FINDING.replace("Code evidence", "code_evidence"),
        textwrap.indent(FINDING, "    "),
        "\n" + FINDING + "\n",
    ],
)
def test_a_finding_is_read_in_every_layout_of_the_grammar(block: str) -> None:
    assert parse(Review, Reply(text=findings(block))).claims == (CLAIM,)


@pytest.mark.conforms("S0.18", "S0.19")
def test_several_findings_keep_their_order_their_further_lines_and_their_reproducers() -> None:
    second = text("""
        - Severity: P1
          Description: it is slow
            when it is full

            and when it is empty
          Code evidence: loop.py:3
            ```python
            Description: not a key in a fence
            ```
          Reachability: rare
          Blast radius: one request
          reproducer:
            ```json
            {"command": "pytest tests/test_slow.py"}
            ```
    """)
    third = FINDING + "\n- reproducer: none needs a full disk"
    said = parse(Review, Reply(text=findings(FINDING, second, third)))
    assert said.claims[0] == CLAIM
    assert said.claims[1].description == "it is slow\nwhen it is full\n\nand when it is empty"
    assert said.claims[1].code_evidence == "loop.py:3\n```python\nDescription: not a key in a fence\n```"
    assert said.claims[1].reproducer == Reproducer(command="pytest tests/test_slow.py")
    assert said.claims[2] == CLAIM.model_copy(update={"no_reproducer": "needs a full disk"})


@pytest.mark.conforms("S0.18", "S0.19")
@pytest.mark.spec("W3")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("P0_P1_FINDINGS", "must be followed by a block from BEGIN_P0_P1_FINDINGS"),
        (findings(), "the block is empty"),
        (findings("None."), "it begins with 'None.'"),
        (findings(FINDING).replace("\nEND_P0_P1_FINDINGS", ""), "never ended by a line reading END_P0_P1_FINDINGS"),
        (findings(FINDING).removeprefix("P0_P1_FINDINGS\n"), "must stand directly below"),
        (findings(FINDING.replace("P0", "P2")), "claims.0.severity"),
        (findings(FINDING.replace("P0", "P0 or P1")), "claims.0.severity"),
        (findings(FINDING.replace("- Severity: P0\n", "")), "every item must begin `- Severity:`"),
        (findings(FINDING.removeprefix("- ")), "every item must begin `- Severity:`"),
        (findings(FINDING, FINDING.removeprefix("- ")), "every item must begin `- Severity:`"),
        *(
            (findings(re_key), "Field required")
            for re_key in (
                "\n".join(line for line in FINDING.splitlines() if not line.startswith(f"- {key}"))
                for key in ("Description", "Code evidence", "Reachability", "Blast radius")
            )
        ),
        (findings(FINDING.replace("data is lost", "")), "claims.0.description"),
        (findings(FINDING + "\n- Description: again"), "the key description stands twice"),
        (findings(FINDING + "\n- Fix: do it"), "belongs to no key"),
        (findings(FINDING + "\n2. P0: and another one"), "belongs to no key"),
        (findings(FINDING + "\n\nAlso, the disk burns."), "belongs to no key"),
        (findings(FINDING + "\n- reproducer: yes"), "must be followed by a fenced JSON object"),
        (findings(FINDING + "\n- reproducer:\n```json\n[]\n```"), "must be a JSON object"),
        (findings(FINDING + '\n- reproducer:\n```json\n{"command": "x"}'), "never closed"),
        (findings(FINDING + '\n- reproducer:\n```json\n{"command": " "}\n```'), "command must hold something to run"),
        (findings(FINDING, "NO_P0_P1"), "a line reading NO_P0_P1 stands inside the block"),
        (findings(FINDING, "BEGIN_P0_P1_FINDINGS"), "must stand directly below"),
        (findings(FINDING) + "\nNO_P0_P1", "stands outside the last verdict"),
        ("NO_P0_P1\n" + findings(FINDING), "'NO_P0_P1' stands outside the last verdict"),
        ("BEGIN_P0_P1_FINDINGS\nNO_P0_P1", "'BEGIN_P0_P1_FINDINGS' stands outside the last verdict"),
        (f"{findings(FINDING)}\n{findings(FINDING, FINDING)}", "stands outside the last verdict"),
        ("NO_P0_P1.", "a token must be a whole line, not indented, quoted or decorated"),
        ("Verdict: NO_P0_P1", "there is no verdict"),
        ("NO_IN_SCOPE_P0_P1", "there is no verdict"),
        ("NO_P0_P1\nThanks!", "nothing may follow the verdict, but the last line is 'Thanks!'"),
    ],
)
def test_a_review_that_does_not_fit_is_malformed_and_told_why(said: str, why: str) -> None:
    assert why in refused(Review, said)


# Verification


@pytest.mark.conforms("S0.24", "S0.29")
@pytest.mark.parametrize("order", ["before", "after"])
def test_every_finding_is_placed_with_validity_origin_difficulty_risk_and_scope(order: str) -> None:
    first = text("""
        - Finding: F1
          Validity: valid
          Origin: introduced
          Difficulty: S
          Risk: low
          Scope: FIX_IN_THIS_PR
          Rationale: this change
            broke it
    """)
    third = DEFERRED.replace("F2", "F3").replace("Validity: valid", "Validity: already_fixed")
    third = third.replace("DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED").replace("pre-existing", "unknown")
    blocks = [triage(DEFERRED, third), in_scope(first)]
    said = parse(Verification, Reply(text="\n\n".join(blocks if order == "before" else reversed(blocks))))

    assert said.verdict == "IN_SCOPE_P0_P1"
    one = {"finding": "F1", "valid": True, "origin": "introduced", "difficulty": "S", "risk": "low"}
    two = {"finding": "F2", "valid": True, "origin": "pre_existing", "difficulty": "L", "risk": "high"}
    three = two | {"finding": "F3", "valid": False, "origin": "unknown", "rationale": "old, and large"}
    assert said.triage == (
        Triage(**one, scope="FIX_IN_THIS_PR", rationale="this change\nbroke it"),
        Triage(**two, scope="DEFER_CREATE_ISSUE", rationale="old, and large"),
        Triage(**three, scope="INVALID_OR_ALREADY_FIXED"),
    )


@pytest.mark.conforms("S0.29")
def test_nothing_in_scope_may_stand_alone_or_beside_its_triage() -> None:
    assert parse(Verification, Reply(text="NO_IN_SCOPE_P0_P1")).triage == ()
    for said in (f"NO_IN_SCOPE_P0_P1\n{triage(DEFERRED)}", f"{triage(DEFERRED)}\nNO_IN_SCOPE_P0_P1"):
        placed = parse(Verification, Reply(text=said))
        assert placed.verdict == "NO_IN_SCOPE_P0_P1"
        assert [item.scope for item in placed.triage] == ["DEFER_CREATE_ISSUE"]


@pytest.mark.conforms("S0.29")
def test_a_finding_in_the_in_scope_block_needs_only_its_name() -> None:
    extra = "- Finding: F1\n  Severity: P0\n  Description: x\n  Code evidence: y\n  Fix guidance: z"
    word = Triage(finding="F1", valid=True, difficulty="M", risk="med", scope="FIX_IN_THIS_PR", rationale="in scope")
    for block in ("- Finding: F1", extra):
        assert parse(Verification, Reply(text=in_scope(block))).triage == (word,)


@pytest.mark.conforms("S0.24", "S0.29")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("IN_SCOPE_P0_P1", "must be followed by a block from BEGIN_IN_SCOPE_P0_P1"),
        (in_scope(), "the block is empty"),
        (in_scope("- Finding: F1")[: -len("\nEND_IN_SCOPE_P0_P1")], "never ended"),
        (in_scope("- Severity: P0\n  Description: x"), "every item must begin `- Finding:`"),
        (in_scope("- Finding:"), "finding"),
        (in_scope("- Finding: F1\n- Scope: DEFER_CREATE_ISSUE"), "F1 stands in the in-scope block with another scope"),
        (in_scope("- Finding: F1\n- Validity: invalid"), "INVALID_OR_ALREADY_FIXED is for findings"),
        (in_scope("- Finding: F1\n- Validity: perhaps"), "Validity must be one of valid, invalid, already_fixed"),
        (in_scope("- Finding: F1\n- Difficulty: XL"), "triage.0.difficulty"),
        (in_scope("- Finding: F1\n- Risk: medium"), "triage.0.risk"),
        (in_scope("- Finding: F1\n- Origin: old"), "triage.0.origin"),
        (in_scope("- Finding: F1", "- Finding: F1"), "each finding is triaged once"),
        (f"{in_scope('- Finding: F2')}\n{triage(DEFERRED)}", "each finding is triaged once"),
        (
            f"NO_IN_SCOPE_P0_P1\n{triage(DEFERRED.replace('DEFER_CREATE_ISSUE', 'FIX_IN_THIS_PR'))}",
            "F2 is FIX_IN_THIS_PR",
        ),
        (f"NO_IN_SCOPE_P0_P1\n{triage(DEFERRED.replace('- Scope: DEFER_CREATE_ISSUE', ''))}", "'F2' lacks Scope"),
        (f"NO_IN_SCOPE_P0_P1\n{triage('- Finding: F9')}", "lacks Validity, Origin, Difficulty, Risk, Scope, Rationale"),
        (f"NO_IN_SCOPE_P0_P1\n{triage()}", "the block is empty"),
        (f"NO_IN_SCOPE_P0_P1\n{in_scope('- Finding: F1')}", "'NO_IN_SCOPE_P0_P1' stands outside the last verdict"),
        (f"{in_scope('- Finding: F1')}\nNO_IN_SCOPE_P0_P1", "stands outside the last verdict"),
        ("NO_IN_SCOPE_P0_P1\nBEGIN_IN_SCOPE_P0_P1\n- Finding: F1\nEND_IN_SCOPE_P0_P1", "does not take the block"),
        (triage(DEFERRED), "must stand directly below"),
        (f"{triage(DEFERRED)}\nand so\nNO_IN_SCOPE_P0_P1", "'BEGIN_TRIAGE' stands outside the last verdict"),
        (
            f"{triage(DEFERRED)}\nNO_IN_SCOPE_P0_P1\n{triage(DEFERRED)}",
            "'BEGIN_TRIAGE' stands outside the last verdict",
        ),
        ("NO_P0_P1", "there is no verdict"),
    ],
)
def test_a_verification_that_does_not_fit_is_malformed_and_told_why(said: str, why: str) -> None:
    assert why in refused(Verification, said)


# JSON


JSON = {
    Analysis: '{"verdict": "INVALID", "reason": "as meant"}',
    Implementation: '{"mode": "IMPLEMENTATION_SUCCESS"}',
    Fix: '{"mode": "FIX_SUCCESS"}',
    Review: json.dumps({"verdict": "P0_P1_FINDINGS", "claims": [CLAIM.model_dump(exclude={"reproducer"})]}),
    Verification: '{"verdict": "NO_IN_SCOPE_P0_P1", "triage": []}',
}


@pytest.mark.spec("W1")
@pytest.mark.parametrize("model", MODELS)
def test_a_json_answer_alone_counts(model: type[Value]) -> None:
    said = parse(model, Reply(text="It is in the file.\n", answer=JSON[model]))
    assert said == model.model_validate_json(JSON[model])


@pytest.mark.parametrize("model", MODELS)
def test_every_verdict_survives_being_written_as_json(model: type[Value]) -> None:
    told = parse(model, Reply(text=WHOLE[model]))
    assert parse(model, Reply(text="", answer=told.model_dump_json())) == told


@pytest.mark.spec("W1")
@pytest.mark.parametrize("model", MODELS)
def test_json_and_tokens_that_agree_are_fine(model: type[Value]) -> None:
    told = parse(model, Reply(text=WHOLE[model]))
    assert parse(model, Reply(text=WHOLE[model], answer=told.model_dump_json())) == told


def test_json_and_tokens_may_list_the_triage_in_another_order() -> None:
    told = parse(Verification, Reply(text=WHOLE[Verification]))
    other = told.model_copy(update={"triage": told.triage[::-1]})
    assert parse(Verification, Reply(text=WHOLE[Verification], answer=other.model_dump_json())) == told


@pytest.mark.spec("W1")
@pytest.mark.parametrize(
    ("model", "said", "answer", "why"),
    [
        (Review, "NO_P0_P1", JSON[Review], "disagree about verdict, claims"),
        (Review, findings(FINDING), '{"verdict": "NO_P0_P1"}', "disagree about verdict, claims"),
        (Review, findings(FINDING.replace("P0", "P1")), JSON[Review], "disagree about claims"),
        (Analysis, "VERDICT=INVALID", JSON[Analysis], "disagree about reason"),
        (
            Implementation,
            "PR_URL=u\nPR_NUMBER=1\nPR_HEAD_BRANCH=h",
            JSON[Implementation],
            "disagree about pull_request",
        ),
        (Implementation, "PR_HEAD_BRANCH=h", JSON[Implementation], "must stand directly below"),
        (Review, "NO_P0_P1\nThe answer is in the file.", '{"verdict": "NO_P0_P1"}', "nothing may follow the verdict"),
        (Review, "BEGIN_P0_P1_FINDINGS\n", '{"verdict": "NO_P0_P1"}', "never ended"),
    ],
)
def test_json_and_tokens_that_disagree_are_malformed(model: type[Value], said: str, answer: str, why: str) -> None:
    assert why in refused(model, said, answer)


@pytest.mark.spec("W2")
@pytest.mark.parametrize("said", ["> NO_P0_P1", "    NO_P0_P1", "```\nNO_P0_P1\n```", "so NO_P0_P1", grammar(Review)])
def test_a_token_that_does_not_count_does_not_contradict_json(said: str) -> None:
    assert parse(Review, Reply(text=said, answer=JSON[Review])).verdict == "P0_P1_FINDINGS"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "not valid JSON"),
        ("NO_P0_P1", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('"NO_P0_P1"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"verdict": "NO_P0_P1"} {}', "Extra data"),
        ('{"verdict": "NO_P0_P1",}', "not valid JSON"),
        ("{}", "verdict: Field required"),
        ('{"verdict": "no_p0_p1"}', "verdict"),
        ('{"verdict": "P0_P1_FINDINGS"}', "P0_P1_FINDINGS comes with claims"),
        ('{"verdict": "NO_P0_P1", "passed": true}', "passed: Extra inputs are not permitted"),
        ('{"verdict": "NO_P0_P1", "verdict": "NO_P0_P1"}', "a key stands twice"),
        ('{"verdict": "NO_P0_P1", "claims": NaN}', "NaN is not JSON"),
        ('{"verdict": "NO_P0_P1", "claims": -Infinity}', "-Infinity is not JSON"),
        ('{"verdict": "NO_P0_P1", "claims": {}}', "claims"),
        ('{"verdict": "NO_P0_P1", "claims": "\\ud800"}', "does not fit"),
        (json.dumps({"verdict": "NO_P0_P1", "x": "\0"}), "NUL"),
        ('{"x": ' + "9" * 5000 + "}", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"verdict": "NO_P0_P1"}' + " " * (1 << 20), "longer than 1048576 bytes"),
        ("\ufeff" + '{"verdict": "NO_P0_P1"}', "not valid JSON"),
        (JSON[Review].replace('"data is lost"', '"\\u001c "'), "must say something"),
        (JSON[Review].replace('"no_reproducer": ""', '"no_reproducer": 1'), "no_reproducer"),
    ],
)
def test_json_that_does_not_fit_exactly_is_malformed(answer: str, why: str) -> None:
    assert why in refused(Review, "", answer)
    assert why in refused(Review, "NO_P0_P1", answer)


def test_json_is_read_without_turning_one_type_into_another() -> None:
    number = '{"mode": "IMPLEMENTATION_SUCCESS", "pull_request": {"url": "u", "number": "7", "head": "h"}}'
    assert "pull_request.number" in refused(Implementation, "", number)
    valid = (
        '{"verdict": "NO_IN_SCOPE_P0_P1", "triage": [{"finding": "F1", "valid": "true", "difficulty": "S",'
        ' "risk": "low", "scope": "DEFER_CREATE_ISSUE", "rationale": "r"}]}'
    )
    assert "triage.0.valid" in refused(Verification, "", valid)


# What is kept, and what agents are told


def test_the_end_of_what_was_said_is_kept_raw() -> None:
    with pytest.raises(MalformedAnswer) as caught:
        parse(Review, Reply(text="é" * RAW_BYTES + "\x1b[1mnever mind"))
    raw = caught.value.details["raw"]
    assert isinstance(raw, str) and raw.endswith("é\x1b[1mnever mind")
    assert RAW_BYTES - 4 < len(raw.encode()) <= RAW_BYTES
    with pytest.raises(MalformedAnswer) as caught:
        parse(Review, Reply(text="NO_P0_P1", answer="{"))
    assert caught.value.details["raw"] == "{"


@pytest.mark.parametrize("model", MODELS)
def test_no_token_stands_on_a_line_of_its_own_in_the_grammar(model: type[Value]) -> None:
    markers = {marker for shape in SHAPES.values() for marker in shape.markers}
    told = grammar(model)
    for line in told.splitlines():
        assert len(line.split()) > 1
        assert line.strip(" \t`'\"*>|-.,;:") not in markers
    named = SHAPES[model]
    for token in (*named.markers, *(name for form in named.forms.values() for name in (*form.fields, *form.together))):
        assert token in told


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("asked", MODELS)
def test_the_grammar_echoed_back_is_no_answer(model: type[Value], asked: type[Value]) -> None:
    assert "there is no verdict" in refused(model, grammar(asked))


@pytest.mark.parametrize("model", MODELS)
def test_a_message_to_the_agent_holds_no_token_on_a_line_of_its_own(model: type[Value]) -> None:
    for token in SHAPES[model].markers:
        for said in (token, f"{token}\nand more", f"{token}\n{WHOLE[model]}", f"```\n{token}\n```", f"  {token}"):
            try:
                parse(model, Reply(text=said))
            except MalformedAnswer as error:
                assert "\n" not in error.message and error.message not in SHAPES[model].markers
