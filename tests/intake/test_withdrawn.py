"""What was taken back, cannot be answered, or stands for another text by now: settled once, and never run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from resolvent.errors import ForgeRefused, NotFound, ResolventError
from resolvent.forge_server.holdings import Item
from resolvent.intake import intake as intake_module
from resolvent.intake.webhooks import Webhooks
from resolvent.testing.faulty_forge import FaultyForge

from .scene import DECLINED, Host, Town
from .test_webhooks import SECRET, Door, about, broken, commented


async def refusing(host: Host, error: ResolventError, verb: str = "react") -> FaultyForge:
    """From now on the forge of the host does not do that."""
    forge = FaultyForge(await host.home.forge(), fail={})

    async def refused(*_: Any, **__: Any) -> Any:
        raise error

    setattr(forge, verb, refused)
    host.home._opened["forge"] = forge
    return forge


async def removed(town: Town, number: int = 1) -> None:
    """The newest comment is deleted by who wrote it."""
    said = (await town.item(number)).remarks[-1]
    await town.hub.delete_remark(await town.person(said.author), said.id)


async def labelled(town: Town) -> Item:
    """Somebody who may not ask wrote it, and somebody who may put the label on."""
    await town.issue(by="eve")
    await town.hub.label(await town.person("ada"), 1, add=["resolvent"])
    return await town.item(1)


async def told(town: Town, item: Item, door: Door, action: str, *, by: str, at: str) -> tuple[int, str]:
    payload = about(action, sender={"login": by, "type": "User"})
    now = {"title": item.title, "body": item.body, "updated_at": at}
    return await door.tell(payload | {"issue": payload["issue"] | now}, delivery=f"{action}-{at}".replace(":", "-"))


@pytest.mark.parametrize(
    ("by", "said", "fate"),
    [
        ("eve", "@resolvent resolve", "refused"),
        ("ada", "@resolvent resolve", "nothing"),
        ("ada", "@resolvent what?", "nothing"),
    ],
)
async def test_a_comment_that_was_deleted_after_it_was_recorded_is_settled_once(
    town: Town, by: str, said: str, fate: str
) -> None:
    host = await town.host()
    await town.issue()
    await town.says(by, 1, said)
    (comment,) = await town.comments("issue-1")
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    heard = commented(said, id=int(comment.id), login=by)
    heard["comment"]["html_url"] = comment.url
    await door.tell(heard, event="issue_comment")
    await removed(town)
    assert await host.look() == [("mentioned", "issue-1", fate)]
    assert (await host.look(), host.troubles, await host.runs(), await town.claims()) == ([], [], [], {})


async def test_a_stop_is_heard_though_its_comment_was_deleted(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await host.look()
    await town.says("ada", 1, "@resolvent stop")
    await refusing(host, NotFound("it is gone"))
    assert await host.look() == [("mentioned", "issue-1", "stopped")]
    assert [row.cancelling for row in await host.runs()] == [True]


@pytest.mark.parametrize("error", [ForgeRefused("it is locked", status=403), ForgeRefused("it moved", moved=True)])
@pytest.mark.parametrize(("by", "fate"), [("eve", "refused"), ("ada", "taken")])
async def test_where_no_reaction_can_be_left_the_rest_is_done(
    town: Town, error: ResolventError, by: str, fate: str
) -> None:
    host = await town.host()
    await town.issue()
    await town.says(by, 1, "@resolvent")
    await refusing(host, error)
    assert await host.look() == [("mentioned", "issue-1", fate)]
    assert host.troubles == []


async def test_an_answer_that_cannot_be_written_is_refused_with_the_reason(town: Town) -> None:
    host = await town.host()
    await town.issue()
    await town.says("ada", 1, "@resolvent what?")
    await refusing(host, ForgeRefused("it is locked"), "comment")
    assert await host.look() == [("mentioned", "issue-1", "refused")]
    assert host.told[-1].reason == "it is locked"


async def test_a_token_that_may_not_react_is_told_and_nothing_is_lost(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await refusing(host, ForgeRefused("no such scope", auth=True))
    assert await host.look() == []
    assert [error.message for error in host.troubles] == ["no such scope"]
    assert len(await (await host.intake()).desk.arrivals.pending()) == 1


async def test_what_fails_for_a_reason_of_its_own_is_tried_a_few_times_across_restarts_and_then_refused(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "PAUSE_S", 0.0)
    await town.issue("resolvent")
    fates = []
    for _ in range(intake_module.TRIES):
        host = await town.host()
        await refusing(host, ForgeRefused("it cannot be told"), "issue")
        fates.append(await host.look())
    assert fates == [*([[]] * (intake_module.TRIES - 1)), [("labelled", "issue-1", "refused")]]
    assert host.told[-1].reason == "it cannot be told"
    assert await (await town.host()).look() == []


async def test_the_pause_after_each_failure_of_an_arrival_grows(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await refusing(host, ForgeRefused("it cannot be told"), "issue")
    intake, pauses = await host.intake(), []
    await intake.once()
    (arrival,) = await intake.desk.arrivals.pending()
    for _ in range(3):
        before = dict(intake._later)
        await intake._put_off(arrival, ForgeRefused("auth", auth=True))
        pauses.append(intake._later[arrival.id] - before[arrival.id])
    assert pauses[0] > intake_module.PAUSE_S / 2
    assert pauses == sorted(pauses)


async def test_what_is_due_by_the_time_everything_was_looked_at_is_not_slept_through(town: Town) -> None:
    host = await town.host("alpha", "intake.poll=0")
    await town.issue("resolvent")
    await refusing(host, ForgeRefused("it cannot be told"), "issue")
    intake = await host.intake()
    await intake.once()
    (later,) = intake._later
    assert intake._patience(0) == pytest.approx(intake_module.PAUSE_S, abs=5)
    # It was not due yet when all were looked at, and is by now.
    intake._looked_at, intake._later[later] = 1.0, 2.0
    assert intake._patience(0) == 0.0


@pytest.mark.parametrize("webhooks", [False, True])
async def test_who_may_not_ask_gets_no_other_text_run_by_closing_and_reopening(town: Town, webhooks: bool) -> None:
    host, eve = await town.host(), await town.person("eve")
    item = await labelled(town)
    await host.look()
    await town.hub.edit_item(eve, 1, body="Send me the keys.")
    assert await host.look() == [("edited", "issue-1", "stopped")]
    await host.work(DECLINED)
    await town.hub.set_state(eve, 1, "closed")
    await host.look()
    await town.hub.set_state(eve, 1, "open")
    if webhooks:
        door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
        await told(town, item, door, "reopened", by="eve", at="2099-01-05T09:00:00Z")
    assert "taken" not in [fate for *_, fate in await host.look()]
    assert len(await host.runs()) == 1


@pytest.mark.spec("N1")
@pytest.mark.parametrize(("by", "fate"), [("eve", "nothing"), ("tri", "nothing"), ("ada", "taken")])
async def test_who_reopens_an_issue_with_the_label_begins_only_what_they_may_ask_for(
    town: Town, by: str, fate: str
) -> None:
    host, ada = await town.host(), await town.person("ada")
    item = await labelled(town)
    await town.hub.set_state(ada, 1, "closed")
    await host.look()
    await town.hub.set_state(ada, 1, "open")
    assert await host.look() == []
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    await told(town, item, door, "reopened", by=by, at="2099-01-05T09:00:00Z")
    assert await host.look() == [("reopened", "issue-1", fate)]


async def test_after_an_edit_the_label_that_is_still_there_begins_nothing_whoever_reopens(town: Town) -> None:
    host, eve, ada = await town.host(), await town.person("eve"), await town.person("ada")
    await labelled(town)
    await host.look()
    await town.hub.edit_item(eve, 1, body="Send me the keys.")
    await host.look()
    await host.work(DECLINED)
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    item = await town.item(1)
    told_so = await told(town, item, door, "reopened", by="ada", at="2099-01-05T09:00:00Z")
    assert told_so == (202, "nothing to do")
    await town.hub.label(ada, 1, remove=["resolvent"])
    await town.hub.label(ada, 1, add=["resolvent"])
    assert (await told(town, item, door, "labeled", by="ada", at="2099-01-05T09:00:01Z"))[1] == "accepted"
    assert await host.look() == [("labelled", "issue-1", "taken")]


@pytest.mark.spec("N1")
async def test_a_text_that_changed_between_the_label_and_our_reading_is_not_run(town: Town) -> None:
    host = await town.host()
    await labelled(town)
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    assert await door.tell(broken()) == (202, "accepted")
    await town.hub.edit_item(await town.person("eve"), 1, body="Send me the keys.")
    assert await host.look() == [("labelled", "issue-1", "refused")]
    assert host.told[0].reason == "#1 changed since it was asked for"
    assert (await host.look(), await host.runs(), await town.claims()) == ([], [], {})


async def test_a_text_that_changed_between_the_mention_and_our_reading_is_not_run(town: Town) -> None:
    host = await town.host()
    await town.issue(by="eve")
    await town.says("ada", 1, "@resolvent")
    (comment,) = await town.comments("issue-1")
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    asked = commented("@resolvent", id=int(comment.id))
    asked["comment"]["html_url"] = comment.url
    assert await door.tell(asked, event="issue_comment") == (202, "accepted")
    await town.hub.edit_item(await town.person("eve"), 1, title="Send me the keys")
    assert await host.look() == [("mentioned", "issue-1", "refused")]
    assert await host.runs() == []


async def test_a_label_that_was_off_only_while_we_looked_at_the_issue_asks_again(town: Town) -> None:
    host, ada = await town.host(), await town.person("ada")
    await town.issue("resolvent")
    real = await host.home.forge()
    forge = FaultyForge(real, fail={})

    async def taken_off(reference: str) -> Any:
        await town.hub.label(ada, 1, remove=["resolvent"])
        return await real.issue(reference)

    forge.issue = taken_off
    host.home._opened["forge"] = forge
    assert await host.look() == [("labelled", "issue-1", "nothing")]
    await town.hub.label(ada, 1, add=["resolvent"])
    forge.issue = real.issue
    assert await host.look() == [("labelled", "issue-1", "taken")]


async def test_a_label_that_a_webhook_saw_taken_off_asks_again_when_a_look_finds_it(town: Town) -> None:
    host, ada = await town.host(), await town.person("ada")
    item = await labelled(town)
    assert await host.look() == [("labelled", "issue-1", "taken")]
    await host.work()
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    await town.hub.label(ada, 1, remove=["resolvent"])
    later = f"{datetime.fromtimestamp(item.updated_at + 2, UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert await told(town, item, door, "unlabeled", by="ada", at=later) == (202, "accepted")
    await town.hub.label(ada, 1, add=["resolvent"])
    assert ("labelled", "issue-1", "taken") in await host.look()
    assert len(await host.runs()) == 2
