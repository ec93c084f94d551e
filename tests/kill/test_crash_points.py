"""SIGKILL at every boundary of every verb of a full resolve: nothing is lost, nothing is done twice."""

from pathlib import Path

import pytest

from resolvent.testing import crash


@pytest.mark.timeout(1500)
@pytest.mark.conforms("S0.46")
async def test_a_run_killed_at_any_boundary_ends_in_the_same_commit_and_the_same_effects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = await crash.prove(tmp_path, at_once=2)
    with capsys.disabled():
        print("\n" + crash.table(verdicts))
    points = ("before", "between", "after")
    verbs = {verdict.case.verb for verdict in verdicts}
    tried = {(verdict.case.verb, verdict.case.point) for verdict in verdicts}
    assert len(verbs) >= 18
    assert all((verb, point) in tried for verb in verbs for point in points if not verb.startswith("rerun"))
    assert [verdict for verdict in verdicts if not verdict.killed] == []
    assert [verdict for verdict in verdicts if not verdict.same] == []
