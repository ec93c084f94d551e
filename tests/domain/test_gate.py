"""Executed triage and the gate, line by line as the product says."""

import itertools

import pytest
from pydantic import ValidationError

from resolvent.domain.change import Change, Check, Evidence, Execution
from resolvent.domain.finding import Finding, executed, triaged
from resolvent.domain.gate import Gate, Judged, Reverted, judge
from resolvent.domain.policy import Policy
from resolvent.domain.subject import RequiredCheck
from resolvent.domain.verdicts import Claim, Triage
from resolvent.errors import Bug, StrayEvidence

HEAD = Change(commit="a" * 40, tree="b" * 40)
OTHER = "c" * 40
SHOWS = Check(name="reproducer", kind="reproducer", command="pytest t.py")
BUILD = Check(name="build", kind="build", command="make")
TEST = Check(name="test", kind="test", command="make test")
SMOKE = Check(name="smoke", kind="smoke", command="./smoke.sh")
EXECUTIONS: tuple[Execution, ...] = ("SHOWN", "PASSED", "BROKEN", "FLAKY")


def said(check: Check, execution: Execution, *, on: str = HEAD.commit, signature: str = "", nth: int = 1) -> Evidence:
    return Evidence(
        id=f"{check.name}@{on}#{nth}",
        check=check,
        on=on,
        exit=0 if execution == "PASSED" else 1,
        seconds=0.1,
        digest="d",
        log="l",
        branch="b",
        nth=nth,
        execution=execution,
        signature=signature,
    )


def finding(severity: str = "P1", **known: object) -> Finding:
    claim = {"severity": severity, "description": "data is lost"}
    claim |= dict.fromkeys(("code_evidence", "reachability", "blast_radius"), "x")
    return Finding.model_validate({"id": "F1", "claim": Claim.model_validate(claim), **known})


def word(scope: str, *, origin: str = "unknown") -> Triage:
    valid = scope != "INVALID_OR_ALREADY_FIXED"
    return Triage.model_validate(
        {"finding": "F1", "valid": valid, "origin": origin, "scope": scope}
        | {"difficulty": "S", "risk": "low", "rationale": "because"}
    )


def ran(head: Execution, base: Execution | None, *, same: bool = True, own: str = "", severity: str = "P1") -> Finding:
    before = said(SHOWS, base, on=OTHER, signature="s" if same else "t") if base else None
    return executed(finding(severity), head=said(SHOWS, head, signature="s"), base=before, own_signature=own)


# Executed triage


@pytest.mark.spec("T2")
@pytest.mark.parametrize(
    ("head", "base", "same", "valid", "origin", "basis"),
    [
        ("SHOWN", "PASSED", True, True, "introduced", "executed"),
        ("SHOWN", "BROKEN", True, True, "introduced", "executed"),
        ("SHOWN", "SHOWN", True, True, "pre_existing", "executed"),
        ("SHOWN", "SHOWN", False, True, "introduced", "executed"),
        ("SHOWN", "FLAKY", True, True, "unknown", "executed"),
        ("SHOWN", None, True, True, "unknown", "executed"),
        ("PASSED", "SHOWN", True, False, "unknown", "executed"),
        ("PASSED", "PASSED", True, False, "unknown", "executed"),
        ("PASSED", "BROKEN", True, False, "unknown", "executed"),
        ("PASSED", None, True, False, "unknown", "executed"),
        ("BROKEN", "SHOWN", True, None, "unknown", "argued"),
        ("BROKEN", "PASSED", True, None, "unknown", "argued"),
        ("FLAKY", "PASSED", True, None, "unknown", "argued"),
        ("FLAKY", "FLAKY", True, None, "unknown", "argued"),
    ],
)
def test_two_executions_say_whether_a_claim_is_valid_and_where_it_comes_from(
    head: Execution, base: Execution | None, same: bool, valid: bool | None, origin: str, basis: str
) -> None:
    seen = ran(head, base, same=same)
    assert (seen.valid, seen.origin, seen.basis) == (valid, origin, basis)
    assert (seen.on_head, seen.on_base) == (head, base)
    assert seen.settled is (head == "PASSED")


def test_a_claim_without_a_reproducer_is_argued() -> None:
    assert (finding().basis, finding().valid, finding().settled) == ("argued", None, False)


@pytest.mark.spec("T3")
def test_a_claim_whose_reproducer_passes_blocks_nothing_whatever_the_verifier_says() -> None:
    for choice in (None, word("FIX_IN_THIS_PR", origin="introduced"), word("DEFER_CREATE_ISSUE")):
        placed = triaged(ran("PASSED", "SHOWN", severity="P0"), choice)
        assert (placed.valid, placed.scope) == (False, "INVALID_OR_ALREADY_FIXED")
        assert judge(Judged(change=HEAD, findings=(placed,)), Policy()).open


@pytest.mark.spec("T5")
@pytest.mark.parametrize("severity", ["P0", "P1"])
@pytest.mark.parametrize("scope", [None, "FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED"])
@pytest.mark.parametrize("base", ["PASSED", "BROKEN"])
def test_what_this_change_broke_is_fixed_here_whatever_the_verifier_says(
    severity: str, scope: str | None, base: Execution
) -> None:
    placed = triaged(ran("SHOWN", base, severity=severity), word(scope, origin="pre_existing") if scope else None)
    assert (placed.valid, placed.origin, placed.scope) == (True, "introduced", "FIX_IN_THIS_PR")


@pytest.mark.parametrize(
    ("severity", "choice", "scope"),
    [
        ("P0", "DEFER_CREATE_ISSUE", "DEFER_CREATE_ISSUE"),
        ("P1", "DEFER_CREATE_ISSUE", "DEFER_CREATE_ISSUE"),
        ("P0", "FIX_IN_THIS_PR", "FIX_IN_THIS_PR"),
        ("P1", "FIX_IN_THIS_PR", "FIX_IN_THIS_PR"),
        ("P0", "INVALID_OR_ALREADY_FIXED", "FIX_IN_THIS_PR"),
        ("P1", "INVALID_OR_ALREADY_FIXED", "DEFER_CREATE_ISSUE"),
        ("P0", None, "FIX_IN_THIS_PR"),
        ("P1", None, "DEFER_CREATE_ISSUE"),
    ],
)
def test_what_was_there_before_may_be_deferred_and_p0_is_fixed_here_by_default(
    severity: str, choice: str | None, scope: str
) -> None:
    placed = triaged(ran("SHOWN", "SHOWN", severity=severity), word(choice, origin="introduced") if choice else None)
    assert (placed.valid, placed.origin, placed.scope) == (True, "pre_existing", scope)


@pytest.mark.spec("T5")
@pytest.mark.parametrize("base", ["SHOWN", "FLAKY", None])
@pytest.mark.parametrize("choice", [None, "DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED"])
def test_a_claim_that_shows_the_failure_of_the_issue_itself_is_always_in_scope(
    base: Execution | None, choice: str | None
) -> None:
    shown = ran("SHOWN", base, own="s")
    assert shown.own_failure
    assert triaged(shown, word(choice) if choice else None).scope == "FIX_IN_THIS_PR"


def test_another_failure_is_not_the_failure_of_the_issue() -> None:
    assert not ran("SHOWN", "SHOWN", own="t").own_failure
    assert not ran("SHOWN", "SHOWN", own="").own_failure
    assert not ran("PASSED", "SHOWN", own="s").own_failure
    nothing = executed(finding(), head=said(SHOWS, "SHOWN"), base=said(SHOWS, "SHOWN", on=OTHER), own_signature="")
    assert not nothing.own_failure


@pytest.mark.parametrize("severity", ["P0", "P1"])
@pytest.mark.parametrize("argued", [finding(), ran("BROKEN", "PASSED"), ran("FLAKY", "PASSED")])
@pytest.mark.parametrize(
    ("choice", "valid", "scope"),
    [
        ("FIX_IN_THIS_PR", True, "FIX_IN_THIS_PR"),
        ("DEFER_CREATE_ISSUE", True, "DEFER_CREATE_ISSUE"),
        ("INVALID_OR_ALREADY_FIXED", False, "INVALID_OR_ALREADY_FIXED"),
        (None, False, "INVALID_OR_ALREADY_FIXED"),
    ],
)
def test_an_argued_claim_is_what_the_verifier_says(
    severity: str, argued: Finding, choice: str | None, valid: bool, scope: str
) -> None:
    argued = argued.model_copy(update={"claim": finding(severity).claim})
    placed = triaged(argued, word(choice, origin="introduced") if choice else None)
    assert (placed.valid, placed.scope, placed.basis) == (valid, scope, "argued")
    assert placed.origin == ("introduced" if choice else "unknown")


def test_a_verifier_adds_difficulty_risk_and_rationale() -> None:
    placed = triaged(ran("SHOWN", "SHOWN"), word("DEFER_CREATE_ISSUE"))
    assert (placed.difficulty, placed.risk, placed.rationale) == ("S", "low", "because")


@pytest.mark.spec("T4")
@pytest.mark.parametrize(("head", "base"), list(itertools.product(EXECUTIONS, (*EXECUTIONS, None))))
@pytest.mark.parametrize("choice", [None, "FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED"])
@pytest.mark.parametrize("origin", ["introduced", "pre_existing", "unknown"])
def test_a_verifier_never_changes_what_was_executed(
    head: Execution, base: Execution | None, choice: str | None, origin: str
) -> None:
    seen = ran(head, base)
    placed = triaged(seen, word(choice, origin=origin) if choice else None)
    if seen.basis == "executed":
        assert placed.valid == seen.valid
        assert placed.origin == seen.origin or seen.origin == "unknown"
    assert placed.scope is not None
    assert (placed.scope == "INVALID_OR_ALREADY_FIXED") is (placed.valid is False)


# The gate


FULL = (SHOWS, BUILD, TEST, SMOKE)


def case(**known: object) -> Judged:
    passing = tuple(said(check, "PASSED") for check in FULL)
    return Judged.model_validate({"change": HEAD, "checks": FULL, "evidence": passing, **known})


def required(name: str, state: str, *, commit: str = HEAD.commit) -> RequiredCheck:
    return RequiredCheck.model_validate({"name": name, "commit": commit, "state": state})


def test_a_change_on_which_everything_passed_is_open_and_proven() -> None:
    gate = judge(case(required=(required("ci", "passed"),)), Policy())
    assert gate == Gate(change=HEAD)
    assert gate.open and not gate.argued


@pytest.mark.spec("G2")
@pytest.mark.parametrize("check", FULL, ids=lambda check: check.name)
@pytest.mark.parametrize("execution", ["SHOWN", "BROKEN", "FLAKY"])
def test_every_check_that_did_not_pass_shuts_the_gate(check: Check, execution: Execution) -> None:
    evidence = tuple(said(one, execution if one == check else "PASSED") for one in FULL)
    gate = judge(case(evidence=evidence), Policy())
    assert gate.reasons == (f"{check.name} failed: exit 1, {execution}",)
    assert not gate.open


@pytest.mark.parametrize("check", FULL, ids=lambda check: check.name)
def test_a_check_that_was_not_executed_shuts_the_gate(check: Check) -> None:
    evidence = tuple(said(one, "PASSED") for one in FULL if one != check)
    gate = judge(case(evidence=evidence), Policy())
    assert gate.reasons == (f"{check.name} was not executed on this commit",)


def test_one_failure_among_repeats_shuts_the_gate() -> None:
    evidence = (*(said(one, "PASSED") for one in FULL), said(TEST, "SHOWN", nth=2), said(TEST, "PASSED", nth=3))
    assert judge(case(evidence=evidence), Policy()).reasons == ("test failed: exit 1, FLAKY: passed 2 of 3 times",)


def test_evidence_of_a_check_that_only_has_the_same_name_does_not_count() -> None:
    weaker = TEST.model_copy(update={"command": "true"})
    evidence = tuple(said(weaker if one == TEST else one, "PASSED") for one in FULL)
    assert judge(case(evidence=evidence), Policy()).reasons == ("test was not executed on this commit",)


@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    "stray",
    [
        {"evidence": (*(said(one, "PASSED") for one in FULL[1:]), said(SHOWS, "PASSED", on=OTHER))},
        {"required": (required("ci", "passed", commit=OTHER),)},
        {"evidence": (said(SHOWS, "PASSED", on=HEAD.commit[:39] + "b"),)},
    ],
    ids=["a check", "a required check", "almost the commit"],
)
def test_evidence_about_another_commit_is_refused_loudly(stray: dict[str, object]) -> None:
    with pytest.raises(StrayEvidence) as caught:
        judge(case(**stray), Policy(ci_required=False))
    assert isinstance(caught.value, Bug)
    assert HEAD.commit[:10] in str(caught.value)


def test_only_findings_that_must_be_fixed_here_shut_the_gate() -> None:
    here = triaged(ran("SHOWN", "PASSED", severity="P0"), None)
    later = triaged(ran("SHOWN", "SHOWN"), word("DEFER_CREATE_ISSUE"))
    nothing = triaged(finding(), word("INVALID_OR_ALREADY_FIXED"))
    gate = judge(case(findings=(here, later, nothing)), Policy())
    assert gate.reasons == ("finding F1 (P0) must be fixed here: data is lost",)
    assert judge(case(findings=(later, nothing)), Policy()).open


def test_a_finding_that_nobody_triaged_shuts_the_gate() -> None:
    for untriaged in (finding(), ran("SHOWN", "SHOWN"), ran("FLAKY", "PASSED")):
        assert judge(case(findings=(untriaged,)), Policy()).reasons == ("finding F1 was not triaged",)
    assert judge(case(findings=(ran("PASSED", "PASSED"),)), Policy()).open


@pytest.mark.conforms("S0.37")
def test_red_ci_shuts_the_gate_as_a_merge_blocker_and_is_no_finding() -> None:
    red = judge(case(required=(required("ci", "failed"), required("lint", "passed"))), Policy())
    assert red.reasons == ("MERGE_BLOCKER=CI_FAILED ci: failed",)
    flaky = judge(case(required=(required("ci", "failed"),), flaky=("ci",)), Policy())
    assert flaky.reasons == ("MERGE_BLOCKER=CI_FAILED ci: flaky or broken on the base too",)


@pytest.mark.spec("G2")
def test_a_pending_required_check_shuts_the_gate() -> None:
    gate = judge(case(required=(required("ci", "pending"),)), Policy())
    assert gate.reasons == ("required check ci is still pending",)


@pytest.mark.spec("G3")
def test_no_required_checks_leave_the_gate_open_and_are_shown() -> None:
    gate = judge(case(), Policy())
    assert gate.open
    assert gate.notes == ("the forge names no required checks",)


@pytest.mark.parametrize("state", ["failed", "pending"])
def test_a_policy_may_do_without_ci(state: str) -> None:
    assert judge(case(required=(required("ci", state),)), Policy(ci_required=False)).open


def test_every_conflict_with_the_base_is_a_reason() -> None:
    gate = judge(case(conflicts=("a.py", "b.py")), Policy())
    assert gate.reasons == (
        "does not merge cleanly onto the current base: a.py",
        "does not merge cleanly onto the current base: b.py",
    )


@pytest.mark.spec("G2")
def test_all_reasons_are_told_at_once() -> None:
    gate = judge(
        case(
            evidence=(said(BUILD, "SHOWN"),),
            findings=(triaged(ran("SHOWN", "PASSED"), None),),
            required=(required("ci", "failed"),),
            conflicts=("a.py",),
        ),
        Policy(),
    )
    assert len(gate.reasons) == 4 + 1 + 1 + 1


@pytest.mark.spec("E5")
def test_a_change_that_no_reproducer_proved_is_argued_however_green() -> None:
    green = judge(case(checks=FULL[1:], evidence=tuple(said(one, "PASSED") for one in FULL[1:])), Policy())
    assert green.open and green.argued
    assert "nothing was executed to prove this change: argued" in green.notes


def test_the_passing_reproducer_of_a_false_alarm_proves_nothing() -> None:
    alarm = said(SHOWS.model_copy(update={"name": "reproducer F1", "command": "true"}), "PASSED")
    gate = judge(case(checks=(TEST,), evidence=(said(TEST, "PASSED"), alarm)), Policy())
    assert gate.open and gate.argued


def test_a_reproducer_that_still_fails_proves_nothing() -> None:
    evidence = tuple(said(one, "SHOWN" if one == SHOWS else "PASSED") for one in FULL)
    assert judge(case(evidence=evidence), Policy()).argued


@pytest.mark.spec("G1")
def test_the_gate_is_a_function_of_what_it_is_given() -> None:
    given = case(required=(required("ci", "failed"),), conflicts=("a",))
    assert judge(given, Policy()) == judge(given.model_copy(deep=True), Policy())


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_fix_rounds": -1},
        {"max_fix_rounds": 101},
        {"merge": "yes"},
        {"reproduce_runs": 0},
        {"ci_wait": -1},
        {"x": 1},
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Policy.model_validate(wrong)


@pytest.mark.spec("G8")
def test_a_policy_defaults_to_asking_and_never_merging() -> None:
    policy = Policy()
    assert (policy.merge, policy.max_fix_rounds, policy.exec_surface, policy.ci_required) == ("never", 5, "ask", True)


# The last proofs

WITHOUT = Change(commit="e" * 40, tree="f" * 40)


def without_the_fix(*evidence: Evidence, of: str = HEAD.commit) -> Reverted:
    return Reverted(of=of, without=WITHOUT, evidence=evidence)


@pytest.mark.parametrize(
    ("execution", "open"), [("SHOWN", True), ("PASSED", False), ("BROKEN", False), ("FLAKY", False)]
)
def test_what_proves_a_fix_must_fail_again_without_it(execution: Execution, open: bool) -> None:
    reverted = without_the_fix(said(SHOWS, execution, on=WITHOUT.commit))
    gate = judge(case(reverted=reverted), Policy())
    assert gate.open is open
    assert open or gate.reasons == (
        f"revert check: reproducer says {execution} also without the fix, so it does not test it",
    )


@pytest.mark.parametrize(("reached", "open"), [("", True), ("yes", True), ("unknown", True), ("no", False)])
def test_a_reproducer_executes_something_that_the_change_wrote(reached: str, open: bool) -> None:
    watched = said(SHOWS, "PASSED").model_copy(update={"reached": reached})
    evidence = (watched, *(said(one, "PASSED") for one in FULL if one != SHOWS))
    gate = judge(case(evidence=evidence), Policy())
    assert gate.open is open and (open or gate.reasons[0].startswith("unreached: reproducer"))


@pytest.mark.parametrize(("lines", "open"), [(0, True), (50, True), (51, False)])
def test_a_change_beyond_the_limit_of_the_policy_does_not_pass(lines: int, open: bool) -> None:
    gate = judge(case(changed_lines=lines), Policy(max_changed_lines=50))
    assert gate.open is open and (
        open or gate.reasons == ("too large: 51 changed lines, and policy.max_changed_lines is 50",)
    )


@pytest.mark.parametrize(("head", "open"), [("", True), (HEAD.commit, True), (OTHER, False)])
def test_the_head_moving_shuts_the_gate(head: str, open: bool) -> None:
    gate = judge(case(head=head), Policy())
    assert gate.open is open and (open or gate.reasons[0].startswith("head moved:"))


@pytest.mark.parametrize(("execution", "open"), [("PASSED", True), ("SHOWN", False), ("BROKEN", False)])
def test_relaxed_checks_must_pass_as_the_base_has_them(execution: Execution, open: bool) -> None:
    gate = judge(case(restored=without_the_fix(said(TEST, execution, on=WITHOUT.commit))), Policy())
    assert gate.open is open and (open or gate.reasons[0].startswith(f"relaxed checks: test says {execution} once"))


def test_notes_are_handed_on() -> None:
    assert "something was left out" in judge(case(notes=("something was left out",)), Policy()).notes


def test_evidence_of_a_change_without_its_fix_is_about_that_change_and_no_other() -> None:
    with pytest.raises(StrayEvidence):
        without_the_fix(said(SHOWS, "SHOWN"))
    with pytest.raises(StrayEvidence):
        case(reverted=without_the_fix(of=OTHER))
    with pytest.raises(StrayEvidence):
        case(findings=(finding(commit=OTHER, scope="FIX_IN_THIS_PR"),))


def test_what_passes_proves_nothing_where_the_problem_was_not_shown_before() -> None:
    case = {"change": HEAD, "checks": (SHOWS,), "evidence": (said(SHOWS, "PASSED"),)}
    assert not judge(Judged(**case), Policy()).argued
    gate = judge(Judged(**case, shown=False), Policy())
    assert gate.open and gate.argued and "not shown every time before the change: argued" in gate.notes[0]
