"""What works the forge from behind, over HTTPS, for its owner only."""

import pytest
from tests.forge_server.serving import NAME, OWNER, Served
from tests.forge_server.test_git import cloned

ISSUES = f"/repos/{OWNER}/{NAME}/issues"


def at(served: Served, path: str) -> str:
    return f"{served.url}/_forge{path}"


async def test_faults_are_set_looked_at_and_cleared(served: Served) -> None:
    client = served.client()
    made = await client.post(at(served, "/faults"), json={"kind": "error", "path": "/issues", "status": 500})
    assert made.status_code == 201
    assert [one["status"] for one in (await client.get(at(served, "/faults"))).json()] == [500]
    assert (await client.get(ISSUES)).status_code == 500
    struck = (await client.get(at(served, "/log"))).json()["struck"]
    assert struck == [{"kind": "error", "request": f"GET /api/v3{ISSUES}"}]
    assert (await client.delete(at(served, "/faults"))).status_code == 204
    assert (await client.get(ISSUES)).status_code == 200


async def test_no_fault_strikes_what_works_it(served: Served) -> None:
    client = served.client()
    await client.post(at(served, "/faults"), json={"kind": "cut"})
    assert (await client.delete(at(served, "/faults"))).status_code == 204


async def test_the_log_tells_who_asked_for_what(served: Served) -> None:
    await served.client("wanda").get("/user")
    told = (await served.client().get(at(served, "/log"))).json()["requests"]
    assert told == [{"method": "GET", "path": "/api/v3/user", "status": 200, "login": "wanda", "query": ""}]


async def test_a_check_is_reported_and_required(served: Served) -> None:
    await cloned(served)
    tip = (await served.hub.holdings()).refs["refs/heads/main"]
    said = {"name": "ci", "branch": "main", "state": "failed", "log": "boom\n", "required": True}
    made = await served.client().post(at(served, "/checks"), json=said)
    assert made.status_code == 201, made.text
    holdings = await served.hub.holdings()
    assert holdings.required == ("ci",)
    (run,) = holdings.checks[tip]
    assert (run.name, run.conclusion, run.log) == ("ci", "failure", "boom\n")
    wrong = await served.client().post(
        at(served, "/checks"), json={"name": "ci", "commit": "0" * 40, "state": "passed"}
    )
    assert wrong.status_code == 422


async def test_a_bot_is_set_up_and_let_go(served: Served) -> None:
    client = served.client()
    script = {"login": "helpful[bot]", "answers": [{"contains": "help", "body": "Here.", "held": True}]}
    assert (await client.post(at(served, "/bots"), json=script)).status_code == 201
    issue = (await client.post(ISSUES, json={"title": "It panics"})).json()["number"]
    await client.post(f"{ISSUES}/{issue}/comments", json={"body": "help"})
    assert (await client.get(at(served, "/bots"))).json()["waiting"] == 1
    assert (await client.post(at(served, "/bots/release"))).status_code == 204
    await served.serving.bots.idle()
    assert [one.author for one in (await served.hub.item(issue)).remarks] == [OWNER, "helpful[bot]"]


async def test_a_token_is_made_for_somebody_new(served: Served) -> None:
    asked = {"login": "nina", "permission": "read", "scopes": ["repo"]}
    made = await served.client().post(at(served, "/tokens"), json=asked)
    user = await served.client(token=made.json()["token"]).get("/user")
    assert (user.json()["login"], user.headers["x-oauth-scopes"]) == ("nina", "repo")
    assert (await served.hub.holdings()).accounts["nina"].permission == "read"


@pytest.mark.parametrize("path", ["/log", "/faults", "/bots"])
async def test_it_is_not_there_for_anybody_else(served: Served, path: str) -> None:
    assert (await served.client("wanda").get(at(served, path))).status_code == 404
    assert (await served.client(token="").get(at(served, path))).status_code == 401


@pytest.mark.parametrize("path", ["/faults", "/bots", "/checks", "/tokens"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"kind": []}', b"\xff", b"[" * 100_000])
async def test_nonsense_is_refused(served: Served, path: str, body: bytes) -> None:
    assert (await served.client().post(at(served, path), content=body)).status_code == 422
