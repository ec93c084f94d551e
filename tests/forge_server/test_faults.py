"""What goes wrong on purpose: which requests it strikes, and what is left of them."""

import asyncio
import json

import httpx
import pytest
from pydantic import ValidationError
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.forge_server.faults import Fault, Faults

ISSUES = f"/repos/{OWNER}/{NAME}/issues"
SAID = {"title": "It panics"}


async def titles(served: Served) -> list[str]:
    return [item.title for item in (await served.hub.holdings()).items.values()]


async def test_a_server_error_is_answered_so_often_and_then_no_more(served: Served) -> None:
    served.goes_wrong("error", status=503, path="/issues", times=2)
    client = served.client()
    told = [(await client.post(ISSUES, json=SAID)).status_code for _ in range(3)]
    assert told == [503, 503, 201]
    assert await titles(served) == ["It panics"]
    assert (await client.get("/user")).status_code == 200


async def test_a_secondary_limit_says_how_long_to_wait(served: Served) -> None:
    served.goes_wrong("secondary", method="POST", retry_after=7, times=1)
    answer = await served.client().post(ISSUES, json=SAID)
    assert (answer.status_code, answer.headers["retry-after"]) == (403, "7")
    assert "secondary rate limit" in answer.json()["message"]
    assert await titles(served) == []


async def test_a_primary_limit_says_when_it_resets(served: Served) -> None:
    served.goes_wrong("primary", times=1)
    answer = await served.client().get("/user")
    assert answer.status_code == 429
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert int(answer.headers["x-ratelimit-reset"]) > served.hub.clock.now()


async def test_a_lost_answer_leaves_the_write_done(served: Served) -> None:
    served.goes_wrong("lost", method="POST", times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await served.client().post(ISSUES, json=SAID)
    assert await titles(served) == ["It panics"]
    assert [one.status for one in served.requests] == [0]


async def test_a_lost_answer_is_lost_through_the_proxy_too(served: Served) -> None:
    served.goes_wrong("lost", method="POST", times=1)
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await served.client(public=True).post(ISSUES, json=SAID)
    assert await titles(served) == ["It panics"]


async def test_a_cut_connection_leaves_nothing_done(served: Served) -> None:
    served.goes_wrong("cut", method="POST", times=1)
    client = served.client()
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post(ISSUES, json=SAID)
    assert await titles(served) == []
    assert (await client.post(ISSUES, json=SAID)).status_code == 201


async def test_a_slow_request_waits_until_it_is_released(served: Served) -> None:
    served.goes_wrong("slow", method="POST")
    asking = asyncio.ensure_future(served.client().post(ISSUES, json=SAID))
    await served.faults.until_held()
    assert await titles(served) == []
    assert not asking.done()
    assert (await served.client().get("/user")).status_code == 200
    served.faults.release()
    assert (await asking).status_code == 201
    assert await titles(served) == ["It panics"]


async def test_a_server_that_holds_a_request_still_ends(served: Served) -> None:
    served.goes_wrong("slow")
    asking = asyncio.ensure_future(served.client().get("/user"))
    await served.faults.until_held()
    served.faults.clear()
    assert (await asking).status_code == 200


async def test_a_malformed_answer_is_half_of_one(served: Served) -> None:
    served.goes_wrong("malformed", method="POST", times=1)
    answer = await served.client().post(ISSUES, json=SAID)
    assert answer.status_code == 201
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert await titles(served) == ["It panics"]


async def test_the_first_ones_can_be_let_through(served: Served) -> None:
    served.goes_wrong("error", after=2, times=1)
    client = served.client()
    assert [(await client.get("/user")).status_code for _ in range(4)] == [200, 200, 502, 200]


def struck(seed: int) -> list[bool]:
    faults = Faults(seed)
    faults.add(Fault(kind="lost", method="POST|PATCH", path="^/repos/", probability=0.1))
    return [faults.strikes("POST", "/repos/acme/widget/issues") is not None for _ in range(1000)]


def test_the_same_seed_strikes_the_same_requests() -> None:
    assert struck(1) == struck(1) != struck(2)
    assert 60 < sum(struck(1)) < 140


def test_a_fault_is_about_its_method_and_path_only() -> None:
    faults = Faults()
    faults.add(Fault(kind="error", method="post", path=r"/issues/\d+/comments$"))
    assert faults.strikes("GET", "/repos/a/b/issues/7/comments") is None
    assert faults.strikes("POST", "/repos/a/b/issues/7/comments?page=1") is None
    assert faults.strikes("POST", "/repos/a/b/issues/7/comments") is not None
    assert faults.struck == [("error", "POST /repos/a/b/issues/7/comments")]


@pytest.mark.parametrize("said", [{"kind": "fire"}, {"kind": "error", "path": "("}, {"kind": "error", "status": 200}])
def test_a_fault_that_makes_no_sense_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Fault.model_validate(said)
