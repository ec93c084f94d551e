"""The verdicts as values: what contradicts itself cannot be made, whoever makes it."""

import pytest
from pydantic import ValidationError

from resolvent.domain.change import Reproducer
from resolvent.domain.model import Value
from resolvent.domain.subject import Reported
from resolvent.domain.verdicts import (
    MAX_CLAIMS,
    Analysis,
    Claim,
    Design,
    Fix,
    Implementation,
    Review,
    Triage,
    Verification,
)

DESIGN = Design(root_cause="r", severity="P1", approach="a")
CLAIM = Claim(severity="P0", description="d\nmore", code_evidence="c", reachability="r", blast_radius="b")
WORD = Triage(finding="F1", valid=True, difficulty="S", risk="low", scope="FIX_IN_THIS_PR", rationale="r")
PULL = Reported(url="https://x/pull/1", number=1, head="h")
SHOWS = Reproducer(command="false")


@pytest.mark.conforms("S1.7", "S1.8", "S0.10")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"verdict": "NEED_FIX"}, "NEED_FIX needs a design"),
        ({"verdict": "VALID", "suggestion": " \n"}, "VALID needs a suggestion"),
        ({"verdict": "NO_ACTION_NEEDED", "reason": " "}, "NO_ACTION_NEEDED needs a reason"),
        ({"verdict": "NO_ACTION_NEEDED", "reason": "r", "design": DESIGN}, "nothing is to do"),
        ({"verdict": "INVALID", "suggestion": "do it"}, "nothing is to do"),
        ({"verdict": "INVALID", "reproducer": SHOWS}, "nothing is to do"),
        ({"verdict": "NEED_FIX", "design": DESIGN, "reproducer": SHOWS, "no_reproducer": "w"}, "either a reproducer"),
        ({"verdict": "MAYBE"}, "Input should be"),
        ({"verdict": "INVALID", "passed": True}, "Extra inputs"),
    ],
)
def test_an_analysis_says_one_whole_thing(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Analysis.model_validate(fields)


@pytest.mark.spec("W5")
@pytest.mark.parametrize(
    ("verdict", "no_action"), [("NEED_FIX", False), ("VALID", False), ("NO_ACTION_NEEDED", True), ("INVALID", True)]
)
def test_both_vocabularies_mean_the_same(verdict: str, no_action: bool) -> None:
    needs = {"reason": "r"} if no_action else {"design": DESIGN, "suggestion": "s"}
    assert Analysis.model_validate({"verdict": verdict, **needs}).no_action is no_action


@pytest.mark.parametrize("missing", ["root_cause", "approach", "severity"])
@pytest.mark.parametrize("empty", ["", " \n", None])
def test_a_design_says_what_is_wrong_how_bad_and_what_to_do(missing: str, empty: str | None) -> None:
    with pytest.raises(ValidationError, match=missing):
        Design.model_validate(dict(DESIGN) | {missing: empty})


@pytest.mark.conforms("S1.13", "S1.14", "S1.15")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"mode": "IMPLEMENTATION_BLOCKED"}, "needs a reason"),
        ({"mode": "IMPLEMENTATION_BLOCKED", "reason": "r", "pull_request": PULL}, "without a pull request"),
        ({"mode": "GH_AUTH_EXPIRED", "local_commit": "abc"}, "needs LOCAL_COMMIT and RETRY_PUSH_BRANCH"),
        ({"mode": "GH_AUTH_EXPIRED", "local_commit": " ", "retry_push_branch": "h"}, "needs LOCAL_COMMIT"),
        ({"mode": "FIX_SUCCESS"}, "Input should be"),
        ({"mode": "IMPLEMENTATION_SUCCESS", "pull_request": {"url": "u", "number": -1, "head": "h"}}, "greater than 0"),
        ({"mode": "IMPLEMENTATION_SUCCESS", "pull_request": {"url": "", "number": 1, "head": "h"}}, "url"),
        ({"mode": "IMPLEMENTATION_SUCCESS", "pull_request": {"url": "u", "number": 1}}, "head"),
    ],
)
def test_an_implementation_is_in_exactly_one_mode(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Implementation.model_validate(fields)


@pytest.mark.conforms("S1.24")
@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "GH_AUTH_EXPIRED"},
        {"mode": "GH_AUTH_EXPIRED", "local_commit": "c", "retry_push_branch": ""},
        {"mode": "IMPLEMENTATION_SUCCESS"},
    ],
)
def test_a_fix_is_in_exactly_one_mode(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Fix.model_validate(fields)


@pytest.mark.conforms("S0.19")
@pytest.mark.spec("T1")
@pytest.mark.parametrize("field", ["description", "code_evidence", "reachability", "blast_radius"])
@pytest.mark.parametrize("empty", ["", "  ", "\x1c\u2028", None])
def test_a_claim_without_evidence_reachability_or_blast_radius_is_none(field: str, empty: str | None) -> None:
    with pytest.raises(ValidationError, match=field):
        Claim.model_validate(dict(CLAIM) | {field: empty})


@pytest.mark.conforms("S0.19")
@pytest.mark.spec("T1")
def test_a_claim_is_p0_or_p1_and_has_one_way_to_be_shown() -> None:
    for wrong in ({"severity": "P2"}, {"reproducer": SHOWS, "no_reproducer": "w"}):
        with pytest.raises(ValidationError):
            Claim.model_validate(dict(CLAIM) | wrong)


def test_a_claim_is_called_by_its_first_line() -> None:
    assert CLAIM.title == "d"
    assert len(CLAIM.model_copy(update={"description": "\n" + "x" * 500}).title) == 120


@pytest.mark.conforms("S0.18")
def test_a_review_with_findings_has_claims_and_one_without_has_none() -> None:
    with pytest.raises(ValidationError, match="P0_P1_FINDINGS comes with claims"):
        Review(verdict="P0_P1_FINDINGS")
    with pytest.raises(ValidationError, match="P0_P1_FINDINGS comes with claims"):
        Review(verdict="NO_P0_P1", claims=(CLAIM,))
    with pytest.raises(ValidationError, match="at most 100"):
        Review(verdict="P0_P1_FINDINGS", claims=(CLAIM,) * (MAX_CLAIMS + 1))


@pytest.mark.conforms("S0.24")
@pytest.mark.parametrize(
    ("valid", "scope", "fits"),
    [
        (True, "FIX_IN_THIS_PR", True),
        (True, "DEFER_CREATE_ISSUE", True),
        (True, "INVALID_OR_ALREADY_FIXED", False),
        (False, "FIX_IN_THIS_PR", False),
        (False, "DEFER_CREATE_ISSUE", False),
        (False, "INVALID_OR_ALREADY_FIXED", True),
    ],
)
def test_only_what_is_not_valid_is_placed_as_invalid(valid: bool, scope: str, fits: bool) -> None:
    fields = dict(WORD) | {"valid": valid, "scope": scope}
    if fits:
        assert Triage.model_validate(fields).scope == scope
    else:
        with pytest.raises(ValidationError, match="only for those"):
            Triage.model_validate(fields)


@pytest.mark.conforms("S0.24")
@pytest.mark.parametrize(
    "wrong",
    [
        {"finding": " "},
        {"origin": "pre-existing"},
        {"difficulty": "XL"},
        {"risk": "medium"},
        {"scope": "LATER"},
        {"rationale": ""},
    ],
)
def test_a_triage_uses_the_words_there_are(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Triage.model_validate(dict(WORD) | wrong)


@pytest.mark.conforms("S0.29")
def test_a_verification_is_in_scope_exactly_when_a_finding_is() -> None:
    later = WORD.model_copy(update={"finding": "F2", "scope": "DEFER_CREATE_ISSUE"})
    assert Verification(verdict="IN_SCOPE_P0_P1", triage=(WORD, later))
    assert Verification(verdict="NO_IN_SCOPE_P0_P1", triage=(later,))
    for verdict, triage in (
        ("IN_SCOPE_P0_P1", ()),
        ("IN_SCOPE_P0_P1", (later,)),
        ("NO_IN_SCOPE_P0_P1", (WORD,)),
        ("IN_SCOPE_P0_P1", (WORD, WORD)),
    ):
        with pytest.raises(ValidationError):
            Verification.model_validate({"verdict": verdict, "triage": triage})


@pytest.mark.parametrize("value", [DESIGN, CLAIM, WORD, PULL, SHOWS])
def test_a_verdict_never_changes(value: Value) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(value, next(iter(type(value).model_fields)), "x")
