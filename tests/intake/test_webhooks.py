"""Webhooks: signed or not read, recorded once, and worked on after they were answered."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from githubkit.webhooks import sign

from resolvent.intake.webhooks import MAX_BODY, PATIENCE_S, Webhooks

from .scene import Host, Town

SECRET = "a-secret-of-the-test"
WHEN = "2026-01-05T09:00:00Z"
Post = Any


def about(action: str = "labeled", **more: Any) -> dict[str, Any]:
    """A delivery about issue 1, as GitHub would tell it; unknown parts are ignored."""
    issue = {
        "number": 1,
        "title": "The value is bad",
        "body": "It should be good.",
        "user": {"login": "ada", "type": "User"},
        "state": "open",
        "labels": [{"name": "resolvent", "color": "ededed"}],
        "created_at": WHEN,
        "updated_at": WHEN,
    }
    told = {"action": action, "issue": issue, "label": {"name": "resolvent"}, "sender": {"login": "ada"}}
    return told | {"repository": {"full_name": "acme/widgets"}} | more


def commented(body: str, *, id: int = 9, login: str = "ada", **issue: Any) -> dict[str, Any]:
    said = {"id": id, "body": body, "user": {"login": login, "type": "User"}, "html_url": "local:issues/1#comment-1"}
    told = about("created", comment=said | {"created_at": WHEN, "updated_at": WHEN})
    return told | {"issue": told["issue"] | issue}


class Door:
    """The webhooks of a host, as a forge that knows the secret reaches them."""

    def __init__(self, host: Host, webhooks: Webhooks) -> None:
        self.host = host
        self.transport = httpx.ASGITransport(app=webhooks)

    async def post(self, body: bytes, **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=self.transport, base_url="http://door") as client:
            sent = {"x-github-event": "issues", "x-github-delivery": "d-1", "content-type": "application/json"}
            sent["x-hub-signature-256"] = sign(SECRET, body, method="sha256")
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            raw = {name: value.encode("latin-1") for name, value in {**sent, **named}.items()}
            return await client.post("/webhook", content=body, headers=raw)  # type: ignore[arg-type]

    async def tell(self, payload: Any, *, delivery: str = "d-1", event: str = "issues") -> tuple[int, str]:
        answer = await self.post(json.dumps(payload).encode(), x_github_event=event, x_github_delivery=delivery)
        return answer.status_code, answer.json()["message"]

    async def pending(self) -> list[tuple[str, str, str]]:
        found = await (await self.host.intake()).desk.arrivals.pending()
        return [(one.kind, one.subject, one.wish) for one in found]


@pytest.fixture
async def door(town: Town) -> AsyncIterator[Door]:
    host = await town.host()
    yield Door(host, Webhooks((await host.intake()).desk, secret=SECRET))


async def test_a_signed_delivery_is_recorded_and_answered_at_once(door: Door) -> None:
    assert await door.tell(about()) == (202, "accepted")
    assert await door.pending() == [("labelled", "issue-1", "resolve")]


@pytest.mark.spec("N2")
async def test_a_delivery_told_again_is_known(door: Door) -> None:
    await door.tell(about())
    assert await door.tell(about()) == (202, "known already")
    assert await door.tell(about(), delivery="another-hook") == (202, "nothing to do")
    assert len(await door.pending()) == 1


@pytest.mark.spec("N2")
@pytest.mark.parametrize("signature", ["", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "sha256=ü"])
async def test_a_wrong_signature_is_refused_before_anything_is_read(door: Door, signature: str) -> None:
    answer = await door.post(b"{ no JSON", x_hub_signature_256=signature)
    assert answer.status_code == 401
    body = json.dumps(about()).encode()
    for wrong in (sign("another secret", body), sign(SECRET, b"another body")):
        other = await door.post(body, x_hub_signature_256=wrong)
        assert (other.status_code, await door.pending()) == (401, [])
        assert SECRET not in answer.text + other.text


async def test_a_ping_is_answered_and_other_events_are_ignored(door: Door) -> None:
    assert await door.tell({"zen": "…"}, event="ping") == (200, "pong")
    for event in ("push", "star", "check_suite", "pull_request_review"):
        assert await door.tell({"anything": [1]}, event=event, delivery=event.replace("_", "-")) == (
            202,
            "nothing to do",
        )
    assert await door.pending() == []


JUNK = [b"", b"{", b"[1, 2", b"\xff\xfe", b"null", b"[]", b'"text"', b"[" * 100_000, b"1" * 10_000, b'{"a": NaN}']


@pytest.mark.parametrize("body", JUNK)
async def test_junk_is_a_bad_request(door: Door, body: bytes) -> None:
    assert (await door.post(body)).status_code == 400
    assert await door.pending() == []


def broken(**issue: Any) -> dict[str, Any]:
    told = about()
    return told | {"issue": told["issue"] | issue}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        about(issue=None),
        about(issue=[]),
        about(sender={"login": None}),
        about(sender={"login": "x" * 100_000}),
        about(repository="acme/widgets"),
        about(action=7),
        about(label="resolvent"),
        broken(number="1"),
        broken(number=-1),
        broken(number=1.5),
        broken(number=10**30),
        broken(number=True),
        broken(labels={"name": "resolvent"}),
        broken(labels=[7]),
        broken(state="merged"),
        broken(updated_at="yesterday"),
        broken(updated_at="2026-01-05T09:00:00"),
        broken(updated_at=None),
        broken(body={"a": 1}),
    ],
)
async def test_a_payload_of_another_shape_is_a_bad_request_and_no_crash(door: Door, payload: Any) -> None:
    status, message = await door.tell(payload)
    assert (status, message.startswith("no payload of issues: ")) == (400, True)
    assert await door.pending() == []


async def test_more_than_the_most_is_refused_whatever_it_says_of_its_length(door: Door) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 1_000_000 + 2):
            yield b" " * 1_000_000

    async with httpx.AsyncClient(transport=door.transport, base_url="http://door") as client:
        assert (await client.post("/webhook", content=endless())).status_code == 413
        for length in (str(MAX_BODY + 1), "9" * 400, "-1", "many"):
            assert (await client.post("/webhook", content=b"", headers={"content-length": length})).status_code == 413


async def test_only_the_webhook_and_its_health_are_there(door: Door) -> None:
    async with httpx.AsyncClient(transport=door.transport, base_url="http://door") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/webhook")).status_code == 405
        assert (await client.post("/healthz")).status_code == 404
        assert (await client.get("/webhook/../etc/passwd")).status_code == 404


@pytest.mark.parametrize("headers", [{"x_github_event": ""}, {"x_github_delivery": ""}, {"x_github_delivery": "a b"}])
async def test_a_delivery_without_its_name_is_a_bad_request(door: Door, headers: dict[str, str]) -> None:
    assert (await door.post(json.dumps(about()).encode(), **headers)).status_code == 400


async def test_a_form_is_read_as_well(door: Door) -> None:
    body = urlencode({"payload": json.dumps(about())}).encode()
    answer = await door.post(body, content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, len(await door.pending())) == (202, 1)
    empty = await door.post(b"other=1", content_type="application/x-www-form-urlencoded", x_github_delivery="d-2")
    assert empty.status_code == 400


async def test_another_repository_is_none_of_ours(town: Town) -> None:
    host = await town.host("alpha", 'forge.repo="Acme/Widgets"')
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    assert await door.tell(about(repository={"full_name": "evil/widgets"})) == (202, "nothing to do")
    assert await door.tell(about(), delivery="d-2") == (202, "accepted")


@pytest.mark.parametrize(
    ("payload", "event", "told"),
    [
        (about("opened"), "issues", []),
        (about(label={"name": "bug"}), "issues", []),
        (about("unlabeled"), "issues", [("unlabelled", "issue-1", "resolve")]),
        (about("unlabeled", label={"name": "bug"}), "issues", []),
        (about("edited"), "issues", [("edited", "issue-1", "resolve")]),
        (about("closed"), "issues", [("closed", "issue-1", "resolve")]),
        (about("transferred"), "issues", [("closed", "issue-1", "resolve")]),
        (about("reopened"), "issues", [("reopened", "issue-1", "resolve")]),
        (broken(user=None), "issues", [("labelled", "issue-1", "resolve")]),
        (commented("@resolvent design"), "issue_comment", [("mentioned", "issue-1", "design")]),
        (commented("hello"), "issue_comment", []),
        (commented("@resolvent", pull_request={"url": "x"}), "issue_comment", [("mentioned", "pr-1", "resolve")]),
        (commented("@resolvent") | {"action": "deleted"}, "issue_comment", []),
    ],
)
async def test_each_event_tells_what_it_tells(door: Door, payload: Any, event: str, told: list[Any]) -> None:
    assert (await door.tell(payload, event=event))[0] == 202
    assert await door.pending() == told


def checked(action: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "check_run": {"head_sha": "c0ffee"}, "repository": {"full_name": "acme/widgets"}} | more


def status(state: str) -> dict[str, Any]:
    return {"state": state, "sha": "c0ffee", "repository": {"full_name": "Acme/Widgets"}}


@pytest.mark.parametrize(
    ("event", "payload", "told"),
    [
        ("check_run", checked("completed"), True),
        ("check_run", checked("created"), False),
        ("check_run", checked("completed", repository={"full_name": "evil/widgets"}), False),
        ("status", status("failure"), True),
        ("status", status("pending"), False),
    ],
)
async def test_whoever_waits_for_ci_is_told_that_a_check_of_a_commit_ended(
    town: Town, monkeypatch: pytest.MonkeyPatch, event: str, payload: dict[str, Any], told: bool
) -> None:
    host = await town.host("alpha", 'forge.repo="acme/widgets"')
    door, nudges = Door(host, Webhooks((await host.intake()).desk, secret=SECRET)), list[str]()
    monkeypatch.setattr(type(await host.home.forge()), "nudge", lambda forge, commit: nudges.append(commit))
    assert await door.tell(payload, event=event) == (202, "nothing to do")
    assert nudges == (["c0ffee"] if told else [])
    for delivery, junk in enumerate(({}, payload | {"repository": 7}, payload | {"check_run": [], "sha": None})):
        assert (await door.tell(junk, event=event, delivery=f"junk-{delivery}"))[0] == 400


async def test_a_closed_pull_request_is_told_and_a_merged_one_is_not(door: Door) -> None:
    closed = {"action": "closed", "pull_request": about()["issue"] | {"number": 2, "state": "closed", "merged": False}}
    told = about() | closed
    merged = told | {"pull_request": closed["pull_request"] | {"number": 3, "merged": True}}  # type: ignore[operator]
    assert (await door.tell(told, event="pull_request"))[0] == 202
    assert (await door.tell(merged, event="pull_request", delivery="d-2"))[0] == 202
    assert await door.pending() == [("closed", "pr-2", "resolve")]


async def test_a_comment_that_was_polled_is_not_heard_again_and_the_other_way_round(town: Town) -> None:
    host = await town.host()
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    await town.issue()
    await town.says("ada", 1, "@resolvent")
    await town.says("ada", 1, "@resolvent resolve")
    first, second = await town.comments("issue-1")
    await door.tell(commented(first.body, id=int(first.id)), event="issue_comment")
    assert [fate for *_, fate in await host.look()] == ["taken", "repeated"]
    told = commented(second.body, id=int(second.id))
    assert await door.tell(told, event="issue_comment", delivery="late") == (202, "nothing to do")
    assert len(await host.runs()) == 1


async def test_a_label_that_was_polled_is_not_news_and_one_given_again_is(town: Town) -> None:
    host = await town.host()
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    await town.issue("resolvent")
    await host.look()
    await host.work()
    assert await door.tell(about()) == (202, "nothing to do")
    later = broken(updated_at="2099-01-05T09:00:00Z")
    assert await door.tell(later, delivery="again") == (202, "accepted")
    assert await host.look() == [("labelled", "issue-1", "taken")]


async def test_a_stale_delivery_stops_no_run_that_began_after_it(town: Town) -> None:
    host = await town.host()
    door = Door(host, Webhooks((await host.intake()).desk, secret=SECRET))
    await town.issue("resolvent")
    await host.look()
    for action in ("edited", "closed", "unlabeled"):
        stale = broken(body="older", title="older", state="closed", labels=[]) | {"action": action}
        assert (await door.tell(stale, delivery=action))[0] == 202
    assert [fate for *_, fate in await host.look()] == ["nothing", "nothing", "nothing"]
    assert not (await host.runs())[0].cancelling


class Sender:
    """Whoever sends the beginning of a body and then nothing."""

    def __init__(self, webhooks: Webhooks, *, first: bytes = b"") -> None:
        self.status = 0
        self.waiting = asyncio.Event()
        self._parts = [first] if first else []
        self.task = asyncio.create_task(self._send(webhooks))

    async def _send(self, webhooks: Webhooks) -> None:
        scope = {"type": "http", "path": "/webhook", "method": "POST", "headers": []}
        await webhooks(scope, self._receive, self._answer)

    async def _receive(self) -> dict[str, Any]:
        if self._parts:
            return {"type": "http.request", "body": self._parts.pop(), "more_body": True}
        self.waiting.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def _answer(self, message: Any) -> None:
        self.status = message.get("status", self.status)


async def test_bodies_that_do_not_come_keep_nobody_out_and_are_given_up(town: Town) -> None:
    host = await town.host()
    webhooks = Webhooks((await host.intake()).desk, secret=SECRET)
    slow = [Sender(webhooks) for _ in range(100)]
    for one in slow:
        await one.waiting.wait()
    async with asyncio.timeout(PATIENCE_S / 2):
        assert await Door(host, webhooks).tell(about()) == (202, "accepted")
    for one in slow:
        one.task.cancel()
    hasty = Webhooks((await host.intake()).desk, secret=SECRET, patience_s=0.01)
    late = Sender(hasty, first=b"{")
    await late.task
    assert (late.status, PATIENCE_S) == (408, 10.0)


async def test_of_too_much_at_once_the_largest_gives_way(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvent.intake.webhooks.MAX_COMING", 3600)
    host = await town.host()
    webhooks = Webhooks((await host.intake()).desk, secret=SECRET)
    large, small = Sender(webhooks, first=b" " * 2500), Sender(webhooks, first=b" " * 1000)
    await asyncio.gather(large.waiting.wait(), small.waiting.wait())
    assert await Door(host, webhooks).tell(about()) == (202, "accepted")
    await large.task
    assert (large.status, small.task.done()) == (408, False)
    small.task.cancel()
