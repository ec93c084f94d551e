"""kill -9 between any two steps of intake and of a stop: nothing is repeated, and nothing is lost."""

import pytest

from resolvent.testing.demo_story import write_story
from resolvent.testing.stage import scene

from .dying import killed_everywhere
from .scene import DECLINED, Town


@pytest.mark.spec("N3")
async def test_a_host_killed_between_any_two_steps_takes_an_issue_up_once(town: Town) -> None:
    host = await town.host()
    write_story(host.stage.directory / "story.json", DECLINED)
    await town.issue("resolvent")
    await town.says("ada", 1, "@resolvent what can you do?")
    await town.says("eve", 1, "@resolvent resolve")
    deaths = await killed_everywhere(town.directory)
    begun = ["recorded", "reacted", "held", "claimed", "submitted", "settled", "answered"]
    assert [point for point in begun if point not in deaths] == []
    assert [point for point in ("before release", "during release") if point not in deaths] == []
    assert [outcome for outcome, _ in await host.outcomes()] == ["declined"]
    assert sorted(await town.reactions(1)) == [("@resolvent resolve", "confused"), ("issue", "eyes")]
    ours = [one.body for one in await town.comments("issue-1") if "resolvent-heard" in one.body]
    assert (len(ours), await town.claims()) == (1, {})


async def test_a_host_killed_between_any_two_steps_of_a_stop_tells_it_once(town: Town) -> None:
    host = await town.host()
    write_story(host.stage.directory / "story.json", [scene("analyze", "VERDICT=INVALID")])
    await town.issue("resolvent")
    assert await host.look() == [("labelled", "issue-1", "taken")]
    await town.hub.edit_item(await town.person("ada"), 1, body="Something else.")
    deaths = await killed_everywhere(town.directory)
    assert deaths == [
        "recorded", "called off", "before stop#1", "during stop#1", "after stop#1", "before release", "during release"
    ]  # fmt: skip
    assert await host.outcomes() == [("cancelled", "the body of #1 changed since it began")]
    told = [one for one in await town.comments("issue-1") if "resolvent-stopped" in one.body]
    assert (len(told), await town.claims()) == (1, {})
