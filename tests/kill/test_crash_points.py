"""SIGKILL at every boundary of every verb of a full resolve: nothing is lost, nothing is done twice."""

from pathlib import Path

import pytest

from resolvent.testing import crash

LIVES = 4


@pytest.mark.timeout(1500)
@pytest.mark.conforms("S0.46")
@pytest.mark.spec("D2")
@pytest.mark.parametrize("life", range(LIVES))
async def test_a_run_killed_at_every_boundary_ends_in_the_same_commit_and_the_same_effects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], life: int
) -> None:
    """Each life dies at every fourth boundary; `resolvent prove crash` has a run of its own for each of them."""
    expected, cases = await crash.reference(tmp_path / "reference")
    mine = [case for case in cases[life::LIVES] if case.point != "while it runs"]
    assert len(mine) >= 20
    verdicts, missed = await crash.killed_on_and_on(mine, directory=tmp_path / "life", expected=expected)
    apart = [*missed, *(case for case in cases[life::LIVES] if case.point == "while it runs")]
    for number, case in enumerate(apart):
        verdicts.append(await crash.killed(case, directory=tmp_path / f"apart-{number}", expected=expected))
    with capsys.disabled():
        print("\n" + crash.table(verdicts))
    assert [verdict for verdict in verdicts if not verdict.killed] == []
    assert [verdict for verdict in verdicts if not verdict.same] == []
    assert {verdict.case for verdict in verdicts} == set(cases[life::LIVES])


async def test_the_lives_cover_every_verb_at_every_point(tmp_path: Path) -> None:
    expected, cases = await crash.reference(tmp_path / "reference")
    assert expected["outcome"] == "merged"
    verbs = dict.fromkeys(case.verb for case in cases)
    assert len(verbs) >= 18
    for verb in verbs:
        assert {case.point for case in cases if case.verb == verb} >= {"before", "between", "after"}


async def test_a_kill_that_never_came_is_told(tmp_path: Path) -> None:
    expected, _ = await crash.reference(tmp_path / "reference")
    never = crash.Case("before", "no/such@verb#1")
    assert not (await crash.killed(never, directory=tmp_path / "none", expected=expected)).killed
