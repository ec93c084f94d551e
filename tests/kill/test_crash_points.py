"""SIGKILL at every boundary of every verb of a full resolve: nothing is lost, nothing is done twice."""

from pathlib import Path

import pytest

from resolvent.testing import crash

SHARES = 4


@pytest.mark.timeout(1500)
@pytest.mark.conforms("S0.46")
@pytest.mark.parametrize("share", range(SHARES))
async def test_a_run_killed_at_any_boundary_ends_in_the_same_commit_and_the_same_effects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], share: int
) -> None:
    verdicts = await crash.prove(tmp_path, at_once=1, share=(share, SHARES), told=lambda _: None)
    with capsys.disabled():
        print("\n" + crash.table(verdicts))
    assert len(verdicts) >= 20
    assert [verdict for verdict in verdicts if not verdict.killed] == []
    assert [verdict for verdict in verdicts if not verdict.same] == []


async def test_the_shares_cover_every_verb_at_every_point(tmp_path: Path) -> None:
    expected, cases = await crash.reference(tmp_path / "reference")
    assert expected["outcome"] == "merged"
    verbs = dict.fromkeys(case.verb for case in cases)
    assert len(verbs) >= 18
    for verb in verbs:
        assert {case.point for case in cases if case.verb == verb} >= {"before", "between", "after"}
