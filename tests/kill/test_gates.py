"""The gate bench in its quick form: every cheating author on one bug, and the honest one on every bug."""

from pathlib import Path

import pytest

from resolvent.domain.events import GateJudged
from resolvent.testing.gates import bench
from resolvent.testing.gates.adversaries import ADVERSARIES, HONEST
from resolvent.testing.gates.bugs import corpus
from resolvent.testing.gates.lane import Case
from resolvent.testing.gates.rules import Seen, rule_of
from tests.contract.boxed import trouble


@pytest.mark.skipif(bool(trouble()), reason=trouble())
@pytest.mark.timeout(900)
async def test_no_author_who_cheats_is_accepted_and_the_honest_one_is_always_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = bench.quick()
    result = await bench.prove(tmp_path, planned)
    with capsys.disabled():
        print("\n" + "\n".join("  ".join(row) for row in bench.rows(result)), result.summary, sep="\n")
    assert result.false_accepts == () and result.false_rejects == ()
    assert result.unexplained == ()
    assert {case.adversary for case in result.cases} == {adversary.name for adversary in ADVERSARIES}
    assert result.holds and len(result.cases) == planned.cases >= len(corpus()) - len(planned.skipped) + 19


# From here on: the bench sees what is wrong, or its silence would mean nothing.


def found(adversary: str, outcome: str, **more: object) -> bench.Result:
    case = Case(adversary, "python_pages", outcome, rule="", said="", **more)  # type: ignore[arg-type]
    return bench.Result((case,), (), 1.0)


def test_a_cheat_that_is_accepted_is_a_false_accept_also_when_its_change_is_right() -> None:
    for outcome in ("proven", "argued", "merged"):
        assert found("giant-diff", outcome, true=True, pull_requests=1).false_accepts
        assert not found("giant-diff", outcome, true=True, pull_requests=1).holds


def test_an_honest_change_that_is_wrong_or_published_twice_is_a_false_accept() -> None:
    assert found(HONEST, "proven", true=False, pull_requests=1).false_accepts
    assert found(HONEST, "proven", true=True, pull_requests=2).false_accepts
    assert found(HONEST, "proven", true=True, pull_requests=1).holds


def test_an_honest_change_that_is_not_proven_is_a_false_reject() -> None:
    for outcome in ("escalated", "argued", "waiting", "failed", "declined"):
        assert found(HONEST, outcome, pull_requests=1).false_rejects


def test_a_rejection_without_a_rule_does_not_hold() -> None:
    document = {"decision": None, "reason": "Strange: nobody knows"}
    assert rule_of(Seen(document, (), ()))[0] == "unknown"
    broken = {"decision": {"key": "bug:1", "text": "Bug: TypeError"}, "reason": "Bug: TypeError"}
    assert rule_of(Seen(broken, (), ()))[0] == "unknown"
    case = Case("liar", "python_pages", "escalated", rule="unknown", said="Strange")
    assert not bench.Result((case,), (), 1.0).holds and not bench.Result((), (), 1.0).holds


def test_the_rule_is_read_from_what_the_gate_said_last() -> None:
    shut = [
        GateJudged(change="a", open=False, reasons=(reason,)) for reason in ("too large: 9", "variant 2 failed: exit 1")
    ]
    document = {"decision": None, "reason": "no_change: the fix changed nothing"}
    assert rule_of(Seen(document, tuple(shut), ())) == ("variants", "variant 2 failed: exit 1")
    assert rule_of(Seen(document, (), ()))[0] == "nothing was changed"


def test_only_what_is_named_is_tried() -> None:
    some = bench.plan("liar/shell")
    assert {adversary.name for _, adversaries in some.chosen for adversary in adversaries} == {"liar"}
    assert {bug.language.name for bug, _ in some.chosen} == {"shell"} and some.cases == 5
    assert bench.plan("nobody/").cases == 0
    assert bench.plan().cases >= 24 * 20 - 20 * len(bench.plan().skipped)
