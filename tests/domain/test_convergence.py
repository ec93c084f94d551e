"""A loop of reviews and fixes: who wrote what was found, what came back, and what follows from the numbers."""

import pytest

from resolvent.domain.change import Reproducer
from resolvent.domain.convergence import Progress, Way, progress, way_on
from resolvent.domain.finding import Finding, Place, barred, cited, recurring
from resolvent.domain.policy import Policy
from resolvent.domain.verdicts import Claim

REMOVING = Policy(minimise="remove")


def finding(
    id: str = "F1", *, title: str = "data is lost", evidence: str = "src/store.py:12", **known: object
) -> Finding:
    command = known.pop("command", None)
    claim = Claim(
        severity=known.pop("severity", "P1"),  # type: ignore[arg-type]
        description=title,
        code_evidence=evidence,
        reachability="always",
        blast_radius="everybody",
        reproducer=Reproducer(command=str(command)) if command else None,
    )
    return Finding.model_validate({"id": id, "claim": claim, "valid": True, "scope": "FIX_IN_THIS_PR", **known})


def inflicted(many: int, *, of: int, **known: object) -> list[Finding]:
    return [
        finding(f"F{number}", title=f"bug {number}", found_in_round=1, created_in_round=int(number <= many), **known)
        for number in range(1, of + 1)
    ]


@pytest.mark.parametrize(
    ("evidence", "places"),
    [
        ("src/store.py:12", [("src/store.py", 12)]),
        ("see `src/store.py:12`, and tests/test_it.py too", [("src/store.py", 12), ("tests/test_it.py", 0)]),
        ("In money.py, line 4. It cuts.", [("money.py", 0)]),
        ("Makefile:3 has it", [("Makefile", 3)]),
        ("the loop never ends", []),
        ("/etc/passwd:1", []),
        ("../../x.py:2", [("../../x.py", 2)]),
        ("a.py:99999999999", [("a.py", 99999999999)]),
        ("x" * 100_000 + ".py:1", []),
    ],
)
def test_a_claim_names_the_places_it_speaks_of(evidence: str, places: list[tuple[str, int]]) -> None:
    found = cited(finding(evidence=evidence).claim)
    assert [place for place in found if not place.path.startswith("x" * 100)] == [Place(*place) for place in places]


@pytest.mark.spec("T8")
@pytest.mark.parametrize(
    ("lines", "valid"),
    [
        ({"src/store.py": 12}, None),
        ({"src/store.py": 11}, False),
        ({"src/store.py": None}, False),
        ({}, False),
    ],
)
def test_an_argument_that_names_no_code_of_the_commit_is_below_the_bar(
    lines: dict[str, int | None], valid: bool | None
) -> None:
    assert barred(finding(valid=None), lines).valid is valid


def test_what_was_executed_needs_no_argument() -> None:
    assert barred(finding(evidence="nothing", basis="executed"), {}).valid is True


@pytest.mark.parametrize(
    ("before", "now", "back"),
    [
        ({"title": "Data is lost"}, {"title": "data is LOST"}, True),
        ({"title": "data is lost"}, {"title": "data is late"}, False),
        ({"title": "a", "command": "t"}, {"title": "b", "command": "t"}, True),
        ({"title": "a", "command": "t", "signature": "1:boom"}, {"command": "u", "signature": "1:boom"}, True),
        ({"title": "a", "command": "t", "signature": "1:"}, {"command": "u", "signature": "1:"}, False),
        ({"rule": "removed-test"}, {"rule": "removed-test"}, True),
        ({"rule": "removed-test"}, {"rule": "skipped-test"}, False),
        ({"scope": "DEFER_CREATE_ISSUE"}, {}, False),
        ({"found_in_round": 1}, {}, False),
    ],
)
def test_a_finding_that_was_fixed_before_and_is_back_is_known_again(
    before: dict[str, object], now: dict[str, object], back: bool
) -> None:
    again = recurring(finding("F2", found_in_round=1, **now), [finding("F1", **before)])
    assert again.repeats == ("F1" if back else "")


def test_progress_counts_only_what_is_valid_and_was_found_after_the_first_fix() -> None:
    findings = [
        finding("F1"),
        finding("F2", found_in_round=1, created_in_round=1, repeats="F1", evidence="src/other.py:3"),
        finding("F3", found_in_round=2, repeats="F1"),
        finding("F4", found_in_round=2, created_in_round=2, valid=False),
    ]
    seen = progress(findings, rounds=2, lines=(10, 35))
    assert (seen.found, seen.self_inflicted, seen.recurring, seen.relocated) == (2, 1, 2, 1)
    assert (seen.share, seen.growth) == (0.5, 3.5)
    for number in ("2 fix rounds", "2 findings", "1 of them (50%)", "2 back again", "1 moved", "10 to 35 lines (3.5x)"):
        assert number in str(seen)


@pytest.mark.parametrize(
    ("inflicted_by_fixes", "found", "way"),
    [(0, 0, "go_on"), (1, 1, "go_on"), (1, 3, "go_on"), (2, 4, "go_on"), (2, 2, "ask"), (2, 3, "ask"), (3, 4, "ask")],
)
def test_a_person_is_asked_when_fixes_make_most_of_what_is_found(inflicted_by_fixes: int, found: int, way: Way) -> None:
    findings = inflicted(inflicted_by_fixes, of=found, basis="executed")
    seen = progress(findings, rounds=2, lines=(10, 10))
    assert way_on(seen, findings, Policy(), tried=()) == way


def test_first_the_scope_is_narrowed_where_something_may_wait() -> None:
    findings = inflicted(2, of=2)
    seen = progress(findings, rounds=2, lines=(10, 10))
    assert way_on(seen, findings, Policy(), tried=()) == "narrow"
    assert way_on(seen, findings, Policy(), tried=("narrow",)) == "ask"


@pytest.mark.parametrize("never", [{"basis": "executed"}, {"severity": "P0"}, {"rule": "removed-test"}])
def test_what_was_executed_is_critical_or_breaks_a_rule_is_never_put_off(never: dict[str, object]) -> None:
    findings = inflicted(2, of=2, **never)
    assert way_on(progress(findings, rounds=2, lines=(1, 1)), findings, Policy(), tried=()) == "ask"


@pytest.mark.parametrize(("back", "way"), [(0, "go_on"), (1, "go_on"), (2, "ask")])
def test_a_person_is_asked_when_findings_come_back(back: int, way: Way) -> None:
    seen = Progress(rounds=3, found=9, self_inflicted=0, recurring=back, relocated=0, lines_first=9, lines_now=9)
    assert way_on(seen, (), Policy(), tried=()) == way


@pytest.mark.parametrize(
    ("lines", "policy", "tried", "way"),
    [
        ((10, 41), REMOVING, [], "go_on"),
        ((100, 401), REMOVING, [], "minimise"),
        ((100, 401), REMOVING, ["minimise"], "ask"),
        ((100, 401), Policy(), [], "ask"),
        ((100, 400), REMOVING, [], "go_on"),
        ((0, 400), Policy(), [], "ask"),
    ],
)
def test_a_change_that_grows_is_made_smaller_once_and_then_a_person_is_asked(
    lines: tuple[int, int], policy: Policy, tried: list[Way], way: Way
) -> None:
    seen = progress((), rounds=2, lines=lines)
    assert way_on(seen, (), policy, tried=tried) == way
