"""SIGKILL around every write to GitHub while a fifth of all requests goes wrong: nothing is done twice."""

from collections import Counter
from pathlib import Path

import pytest

from resolvent.adapters.clock import FrozenClock
from resolvent.forge_server.faults import Fault
from resolvent.testing import crash
from resolvent.testing.rehearsal import Rehearsing, rehearsing

WRITES = ("publish", "comment", "stick", "file_issue", "merge", "declare", "observe:rerun")


def disturbed(rehearsal: Rehearsing) -> None:
    """One answer in ten is lost after the write, and one request in ten fails before it; pushes included."""
    rehearsal.serving.faults.add(Fault(kind="lost", probability=0.1))
    rehearsal.serving.faults.add(Fault(kind="error", status=502, probability=0.1))


@pytest.mark.timeout(900)
@pytest.mark.spec("X2", "F7")
async def test_a_run_killed_at_every_write_on_a_forge_that_fails_ends_the_same(tmp_path: Path) -> None:
    clock = FrozenClock(crash.AT)
    async with rehearsing(tmp_path / "quiet", clock=clock) as quiet:
        expected, cases = await crash.reference(tmp_path / "reference", rehearsal=quiet)
    assert expected["outcome"] == "merged"
    written = [case for case in cases if case.name.startswith(WRITES) and case.point != "while it runs"]
    assert {case.point for case in written} >= {"before", "during", "between", "after"}
    async with rehearsing(tmp_path / "failing", clock=clock, port=quiet.port) as failing:
        disturbed(failing)
        verdicts, missed = await crash.killed_on_and_on(
            written, directory=tmp_path / "life", expected=expected, rehearsal=failing
        )
        struck = Counter(kind for kind, _ in failing.serving.faults.struck)
    # A write whose answer got lost is found by the look after it, and then there is nothing to be killed during.
    assert {case.point for case in missed} <= {"during"} and len(missed) < len(written) / 4
    assert {difference for verdict in verdicts for difference in verdict.differences} == set()
    assert struck["lost"] >= 5 and struck["error"] >= 5
