"""How many API calls of GitHub issues take: fifty that are resolved, and fifty that only lie there."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from resolvent.forge_server.app_backstage import Seen
from resolvent.intake.intake import Ears, Intake
from resolvent.testing.demo_story import write_story
from resolvent.testing.rehearsal import rehearsing
from resolvent.testing.stage import Stage
from resolvent.working import Session
from tests.bench.figures import Figure
from tests.playbooks.conftest import QUICK
from tests.playbooks.scenes import STORY

ISSUES = 50
POLLS = 20


async def main(place: Path, *, issues: int = ISSUES) -> list[Figure]:
    """Labelled issues are taken up, resolved one after the other, and then asked about again and again."""
    async with rehearsing(place / "forge") as rehearsal:
        overrides = (*QUICK, "policy.status_comments=true", "limits.runs=2")
        stage = await Stage.set_up(place, overrides=overrides, rehearsal=rehearsal)
        hub = await stage.hub()
        await rehearsal.held.account("anna", permission="write")
        for n in range(issues):
            await hub.create_issue(
                f"The value is bad ({n})", "It should be good.", labels=("resolvent",), author="anna"
            )
        write_story(place / "story.json", STORY)
        troubles: list[str] = []
        intake = await Intake.open(
            stage.app.home, Ears(told=lambda _: None, trouble=lambda error: troubles.append(error.message))
        )
        await intake.once()
        await Session(stage.app.home).serve_until_idle()
        ended = Counter(row.outcome for row in await stage.app.runs(limit=1000))
        assert (ended, troubles) == ({"proven": issues}, []), (ended, troubles)
        # What its own writing changed is seen once more, and then nothing is new.
        await intake.once()
        busy = len(rehearsal.serving.requests)
        for _ in range(POLLS):
            await intake.once()
        seen = rehearsal.serving.requests
        await stage.close()
    return [*_resolved(seen[:busy], issues), *_idle(seen[busy:], issues)]


def _api(seen: Sequence[Seen]) -> list[Seen]:
    return [one for one in seen if one.path.startswith("/api/")]


def _resolved(seen: Sequence[Seen], issues: int) -> list[Figure]:
    calls = _api(seen)
    told = Counter(one.status for one in calls)
    writes = sum(one.method != "GET" for one in calls)
    how = (
        f"{len(calls) / issues:.1f} calls, {told[304] / issues:.1f} of them 304 and free, {writes / issues:.1f} writes"
    )
    return [Figure("API calls that count, per issue resolved", (len(calls) - told[304]) / issues, "", None, how)]


def _idle(seen: Sequence[Seen], issues: int) -> list[Figure]:
    calls = _api(seen)
    free = sum(one.status == 304 for one in calls)
    return [
        Figure(
            "API calls per issue, nothing changes", len(calls) / issues, "", 20, f"{POLLS} polls of {issues} issues"
        ),
        Figure("  of them answered 304", 100 * free / len(calls), "%", 50, "", least=True),
    ]


def measured(*, issues: int = ISSUES) -> list[Figure]:
    """All of it, in a place of its own."""
    with tempfile.TemporaryDirectory(prefix="resolvent-calls-") as scratch:
        return asyncio.run(main(Path(scratch), issues=issues))
