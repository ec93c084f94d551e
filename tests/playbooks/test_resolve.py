"""Resolve, told with small stories: each test is one path through the playbook."""

from resolvent.testing.stage import Stage, scene

from .scenes import STORY


async def test_an_issue_becomes_a_proven_pull_request(stage: Stage) -> None:
    played = await stage.play(STORY)
    assert played.outcome == "proven"
    assert played.document["gate"]["open"]
    assert {item["execution"] for item in played.document["evidence"]} == {"SHOWN", "PASSED"}


async def test_an_invalid_issue_stops_with_no_pull_request(stage: Stage) -> None:
    played = await stage.play([scene("analyze", "VERDICT=INVALID")])
    assert played.outcome == "declined"
    assert await (await stage.app.home.forge()).pulls("all") == ()
