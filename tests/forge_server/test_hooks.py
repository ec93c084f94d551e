"""Webhooks: signed as GitHub signs, shaped as its clients read them, once, twice or again as one likes."""

import re
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from tests.forge_server.receiving import Receiver, receiving
from tests.forge_server.serving import OWNER, Served
from tests.forge_server.test_git import cloned, committed

from resolvent.errors import NotFound
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.hooks import Hook
from resolvent.forge_server.hub import Noted, Opining, Proposal

SECRET = "It is a secret. 🔑"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


@pytest.fixture
async def owner(served: Served) -> Account:
    return (await served.hub.holdings()).accounts[OWNER]


@pytest.fixture
async def hook(served: Served, receiver: Receiver) -> Hook:
    """A hook for everything, after its ping."""
    made = await served.serving.hooks.add(receiver.url, secret=SECRET, events=("*",))
    await served.serving.hooks.idle()
    assert receiver.words == ["ping"]
    receiver.received.clear()
    return made


@pytest.fixture
async def work(served: Served) -> Path:
    work = await cloned(served)
    await committed(served, work, "b.txt", "two\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work)).code == 0
    return work


def understood(receiver: Receiver) -> list[str]:
    """What was received, each parsed by githubkit's strict model for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Each by its own model: what githubkit parses all actions of an event with takes ten seconds to build.
        from githubkit_schemas.latest import models
    for one in receiver.received:
        name = "Webhook" + "".join(word.capitalize() for word in re.split(r"[._]", one.word))
        model = getattr(models, name, None) or getattr(models, f"{name}Oneof0")
        model.model_validate_json(one.body)
    return receiver.words


async def test_a_ping_comes_first_and_is_understood(served: Served, receiver: Receiver) -> None:
    await served.serving.hooks.add(receiver.url, secret=SECRET)
    await served.serving.hooks.idle()
    assert understood(receiver) == ["ping"]
    assert receiver.received[0].payload["hook"]["config"]["secret"] == "********"


async def test_a_delivery_is_signed_as_github_signs(
    served: Served, receiver: Receiver, owner: Account, hook: Hook
) -> None:
    from githubkit.webhooks import verify

    await served.hub.open_issue(owner, title="It panics 💥", body="a\r\nb\0c".replace("\0", ""))
    await served.serving.hooks.idle()
    (got,) = receiver.received
    assert verify(SECRET, got.body, got.headers["x-hub-signature-256"])
    assert not verify("another", got.body, got.headers["x-hub-signature-256"])
    assert (got.path, got.headers["content-type"]) == ("/webhook", "application/json")
    assert got.headers["user-agent"].startswith("GitHub-Hookshot/")
    assert got.headers["x-github-delivery"] == served.serving.hooks.deliveries(hook.id)[0].guid
    assert got.payload["issue"]["title"] == "It panics 💥"


async def test_everything_about_an_issue_is_told_and_understood(
    served: Served, receiver: Receiver, owner: Account, hook: Hook
) -> None:
    hub = served.hub
    issue = await hub.open_issue(owner, title="It panics")
    await hub.label(owner, issue.number, add=["bug"])
    remark = await hub.remark(owner, issue.number, "x" * 65_536)
    await hub.edit_remark(owner, remark.id, "Shorter.")
    await hub.edit_item(owner, issue.number, title="It still panics")
    await hub.assign(owner, issue.number, add=[OWNER])
    await hub.label(owner, issue.number, remove=["bug"])
    await hub.set_state(owner, issue.number, "closed", reason="not_planned")
    await hub.set_state(owner, issue.number, "open")
    await hub.delete_remark(owner, remark.id)
    await served.serving.hooks.idle()
    assert understood(receiver) == [
        "issues.opened",
        "issues.labeled",
        "issue_comment.created",
        "issue_comment.edited",
        "issues.edited",
        "issues.assigned",
        "issues.unlabeled",
        "issues.closed",
        "issues.reopened",
        "issue_comment.deleted",
    ]
    assert receiver.received[1].payload["label"]["name"] == "bug"
    assert receiver.received[2].payload["comment"]["body"] == "x" * 65_536
    assert receiver.received[7].payload["issue"]["state_reason"] == "not_planned"


async def test_everything_about_a_pull_request_is_told_and_understood(
    served: Served, receiver: Receiver, owner: Account, hook: Hook, work: Path
) -> None:
    hub, wanda = served.hub, (await served.hub.holdings()).accounts["wanda"]
    receiver.received.clear()
    pull = await hub.open_pull(owner, Proposal(head="topic", base="main", title="Add b", draft=True))
    await hub.set_draft(owner, pull.number, False)
    await hub.ask_for_review(owner, pull.number, ["wanda"])
    tip = await committed(served, work, "c.txt", "three\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work)).code == 0
    noted = (Noted(path="c.txt", line=1, body="Why?"),)
    await hub.opine(wanda, pull.number, Opining("approve", "Fine.", remarks=noted))
    await hub.remark(wanda, pull.number, "Indeed.")
    await hub.report(tip, "ci", status="in_progress")
    await hub.report(tip, "ci", conclusion="success")
    await hub.set_status(tip, "cla", conclusion="success")
    await hub.merge(owner, pull.number)
    await served.serving.hooks.idle()
    told = understood(receiver)
    expected = [
        "push",
        "pull_request.opened",
        "pull_request.ready_for_review",
        "pull_request.review_requested",
        "push",
        "pull_request.synchronize",
        "pull_request_review.submitted",
        "pull_request_review_comment.created",
        "issue_comment.created",
        "check_run.created",
        "check_run.completed",
        "status",
        "pull_request.closed",
        "push",
    ]
    # The very first pushes were made before this test began to look.
    assert told[-len(expected) + 1 :] == expected[1:]
    by_word = {one.word: one.payload for one in receiver.received}
    assert by_word["pull_request.synchronize"]["after"] == tip
    assert by_word["pull_request.closed"]["pull_request"]["merged"] is True
    assert by_word["check_run.completed"]["check_run"]["conclusion"] == "success"


async def test_what_is_pushed_is_told_with_its_commits(
    served: Served, receiver: Receiver, hook: Hook, work: Path
) -> None:
    first = (await served.hub.holdings()).refs["refs/heads/topic"]
    await served.serving.hooks.idle()
    receiver.received.clear()
    tip = await committed(served, work, "c.txt", "three\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda")).code == 0
    assert (await served.git("push", "--force", "origin", f"{first}:topic", cwd=work)).code == 0
    assert (await served.git("push", "origin", ":topic", cwd=work)).code == 0
    await served.serving.hooks.idle()
    assert understood(receiver) == ["push", "push", "push"]
    forwards, back, gone = (one.payload for one in receiver.received)
    assert (forwards["before"], forwards["after"], forwards["forced"]) == (first, tip, False)
    assert [one["id"] for one in forwards["commits"]] == [tip]
    assert forwards["pusher"]["name"] == "wanda"
    assert (back["after"], back["forced"]) == (first, True)
    assert (gone["deleted"], gone["head_commit"]) == (True, None)


async def test_only_what_was_asked_for_is_told(served: Served, receiver: Receiver, owner: Account) -> None:
    hooks = served.serving.hooks
    made = await hooks.add(receiver.url, events=("issue_comment",))
    issue = await served.hub.open_issue(owner, title="It panics")
    await served.hub.remark(owner, issue.number, "One.")
    await hooks.change(made.id, active=False)
    await served.hub.remark(owner, issue.number, "Two.")
    await hooks.change(made.id, active=True, events=("issues",))
    await served.hub.remark(owner, issue.number, "Three.")
    await hooks.remove(made.id)
    await served.hub.set_state(owner, issue.number, "closed")
    await hooks.idle()
    assert receiver.words == ["ping", "issue_comment.created"]
    assert "x-hub-signature-256" not in receiver.received[0].headers
    with pytest.raises(NotFound):
        await hooks.one(made.id)


async def test_a_duplicate_is_the_same_delivery_twice(
    served: Served, receiver: Receiver, owner: Account, hook: Hook
) -> None:
    served.goes_wrong("duplicate", path=r"^issues\.opened$", times=1)
    await served.hub.open_issue(owner, title="It panics")
    await served.hub.open_issue(owner, title="It panics again")
    await served.serving.hooks.idle()
    guids = [one.headers["x-github-delivery"] for one in receiver.received]
    assert receiver.words == ["issues.opened"] * 3
    assert guids[0] == guids[1] != guids[2]
    assert receiver.received[0].body == receiver.received[1].body


async def test_a_delivery_is_made_again_under_its_own_name(
    served: Served, receiver: Receiver, owner: Account, hook: Hook
) -> None:
    hooks = served.serving.hooks
    receiver.status = 500
    await served.hub.open_issue(owner, title="It panics")
    await hooks.idle()
    failed = hooks.deliveries(hook.id)[0]
    assert (failed.status, failed.answer, failed.redelivery) == (500, "said", False)
    receiver.status = 202
    await hooks.redeliver(failed.id)
    await hooks.idle()
    again = hooks.deliveries(hook.id)[0]
    assert (again.status, again.redelivery, again.guid) == (202, True, failed.guid)
    assert receiver.received[0].body == receiver.received[1].body


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "ftp://nowhere", "nonsense", "http://[", "http://\x00"])
async def test_a_receiver_that_is_not_there_disturbs_nobody(
    served: Served, receiver: Receiver, owner: Account, url: str
) -> None:
    hooks = served.serving.hooks
    gone = await hooks.add(url, events=("*",))
    await hooks.add(receiver.url, events=("*",))
    await served.hub.open_issue(owner, title="It panics")
    await hooks.idle()
    assert receiver.words == ["ping", "issues.opened"]
    assert {one.status for one in hooks.deliveries(gone.id)} == {0}
    assert all(one.answer for one in hooks.deliveries(gone.id))


async def test_a_form_holds_the_same_payload(served: Served, receiver: Receiver, owner: Account) -> None:
    from githubkit.webhooks import verify

    await served.serving.hooks.add(receiver.url, secret=SECRET, events=("issues",), content_type="form")
    await served.hub.open_issue(owner, title="It & panics = 1")
    await served.serving.hooks.idle()
    got = receiver.received[-1]
    assert verify(SECRET, got.body, got.headers["x-hub-signature-256"])
    assert '"It & panics = 1"' in parse_qs(got.body.decode())["payload"][0]


async def test_hooks_are_still_there_when_the_server_is_started_again(served: Served, receiver: Receiver) -> None:
    from resolvent.forge_server.app_backstage import Backstage

    made = await served.serving.hooks.add(receiver.url, secret=SECRET)
    assert await Backstage.of(served.hub, served.url).hooks.all() == (made,)
