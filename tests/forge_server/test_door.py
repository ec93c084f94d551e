"""Who is let in, what every answer carries, and what is said when it is no."""

import base64
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.errors import Bug, ForgeDown, ForgeRefused, HeadMoved, NotFound, ResolventError
from resolvent.forge_server.door import refusal_of, token_of
from resolvent.forge_server.door_pages import paged

REPO = f"/repos/{OWNER}/{NAME}"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def asked(query: str = "", **headers: str) -> Request:
    """A request as the server sees it."""
    raw = [(name.encode(), value.encode("latin-1")) for name, value in (("host", "api.github.com"), *headers.items())]
    scope = {"type": "http", "scheme": "https", "method": "GET", "path": "/list", "headers": raw}
    return Request(scope | {"query_string": query.encode("latin-1"), "root_path": ""})


@pytest.mark.parametrize(
    "written",
    [
        lambda token: f"token {token}",
        lambda token: f"Bearer {token}",
        lambda token: f"bearer  {token}",
        lambda token: basic("anybody", token),
        lambda token: basic(token, "x-oauth-basic"),
        lambda token: basic(token, ""),
    ],
)
async def test_a_token_is_taken_in_every_way_that_github_takes_it(
    served: Served, written: Callable[[str], str]
) -> None:
    client = served.client(token="")
    answer = await client.get("/user", headers={"authorization": written(served.tokens["wanda"])})
    assert (answer.status_code, answer.json()["login"]) == (200, "wanda")


async def test_without_a_token_the_api_says_nothing(served: Served) -> None:
    answer = await served.client(token="").get(REPO)
    assert answer.status_code == 401
    assert answer.json() == {
        "message": "Requires authentication",
        "documentation_url": "https://docs.github.com/rest",
        "status": "401",
    }


@pytest.mark.parametrize(
    "header", ["token ghp_nobody", "Basic !!!", "Basic " + base64.b64encode(b"\xff\xfe:").decode(), "Digest x", "token"]
)
async def test_a_wrong_token_is_bad_credentials_and_never_an_accident(served: Served, header: str) -> None:
    answer = await served.client(token="").get("/user", headers={"authorization": header})
    assert answer.status_code == 401
    assert answer.json()["message"] in ("Bad credentials", "Requires authentication")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost", "LOCALHOST:80", "127.0.0.1:8443", "github.com", "api.github.com:443")),
        *((host, 421) for host in ("evil.example", "evil.example:8443", "localhost.evil.example", "github.com.evil")),
        *((host, 421) for host in ("", "0.0.0.0", "[::1]", "github.com@evil.example", "localhost:x", "localhost:1:2")),
    ],
)
async def test_it_answers_to_its_own_names_only(served: Served, host: str, status: int) -> None:
    client = served.client()
    for url in (f"{served.api}/user", f"{served.clone_url}/info/refs?service=git-upload-pack"):
        # api.github.com is for the API alone, below no path.
        if not (status == 200 and host.startswith("api.") and url.startswith(served.clone_url)):
            assert (await client.get(url, headers={"host": host})).status_code == status, url
    log = await client.get(f"{served.url}/_forge/log", headers={"host": host})
    assert log.status_code == status


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255)))
def test_no_authorization_header_is_an_accident(header: str) -> None:
    assert isinstance(token_of(asked(authorization=header)), str)


async def test_every_answer_carries_what_clients_of_github_read(served: Served) -> None:
    answer = await served.client("wanda").get("/user")
    assert answer.headers["x-oauth-scopes"] == "repo, workflow, read:org"
    assert answer.headers["x-github-media-type"] == "github.v3; format=json"
    assert answer.headers["cache-control"].startswith("private, max-age=60")
    assert answer.headers["x-github-request-id"]
    limits = {name: answer.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining", "used", "resource")}
    assert limits == {"limit": "5000", "remaining": "4999", "used": "1", "resource": "core"}
    assert int(answer.headers["x-ratelimit-reset"]) > served.hub.clock.now()


async def test_what_did_not_change_is_told_in_a_304_that_costs_nothing(served: Served) -> None:
    client = served.client()
    first = await client.get(REPO)
    etag = first.headers["etag"]
    assert etag.startswith('W/"')
    for tags in (etag, etag.removeprefix("W/"), f'"other", {etag}'):
        again = await client.get(REPO, headers={"if-none-match": tags})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert again.headers["x-ratelimit-used"] == "1"
    await served.hub.open_issue((await served.hub.holdings()).accounts[OWNER], title="It panics")
    changed = await client.get(REPO, headers={"if-none-match": etag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag
    assert changed.headers["x-ratelimit-used"] == "2"


async def test_who_has_no_requests_left_is_told_until_when(served: Served) -> None:
    rates = served.serving.backstage.rates
    rates.exhaust("wanda")
    answer = await served.client("wanda").get("/user")
    assert answer.status_code == 403
    assert "API rate limit exceeded" in answer.json()["message"]
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert int(answer.headers["x-ratelimit-reset"]) == rates.of("wanda", "core").reset
    assert (await served.client().get("/user")).status_code == 200
    left = await served.client("wanda").get("/rate_limit")
    assert (left.status_code, left.json()["resources"]["core"]["remaining"]) == (200, 0)


async def test_to_look_at_the_limit_costs_nothing(served: Served) -> None:
    client = served.client()
    for _ in range(3):
        assert (await client.get("/rate_limit")).json()["resources"]["core"]["used"] == 0


@pytest.mark.parametrize("path", ["/nothing", "/repos", f"{REPO}/nothing", "/repos/acme/other", f"{REPO}/issues/"])
async def test_an_unknown_path_is_not_found_in_github_words(served: Served, path: str) -> None:
    answer = await served.client().get(path)
    assert answer.status_code == 404
    assert answer.json()["message"] == "Not Found"


async def test_a_method_that_is_not_there_is_not_found_either(served: Served) -> None:
    assert (await served.client().delete("/user")).status_code == 404


async def test_a_token_without_the_scope_reads_but_does_not_write(served: Served) -> None:
    token = await served.hub.token("wanda", scopes=("read:org",))
    client = served.client(token=token)
    assert (await client.get(REPO)).status_code == 200
    answer = await client.post(f"{REPO}/issues", json={"title": "It panics"})
    assert answer.status_code == 404
    assert answer.headers["x-oauth-scopes"] == "read:org"
    assert answer.headers["x-accepted-oauth-scopes"] == "public_repo, repo"
    assert (await served.hub.holdings()).items == {}


async def test_an_archived_repository_is_read_only(served: Served) -> None:
    await served.hub.archive(True)
    answer = await served.client().post(f"{REPO}/issues", json={"title": "It panics"})
    assert answer.status_code == 403
    assert answer.json()["message"] == "Repository was archived so is read-only."
    assert (await served.client().get(REPO)).json()["archived"] is True


async def test_a_former_name_leads_on_and_keeps_the_method(served: Served) -> None:
    served.serving.backstage.formerly.add("acme/gadget")
    client = served.client()
    read = await client.get("/repos/acme/gadget/issues?state=all")
    assert (read.status_code, read.headers["location"]) == (301, f"{served.api}{REPO}/issues?state=all")
    written = await client.post("/repos/Acme/Gadget/issues", json={"title": "It panics"})
    assert (written.status_code, written.headers["location"]) == (307, f"{served.api}{REPO}/issues")
    assert (await served.hub.holdings()).items == {}


async def test_as_github_dot_com_it_speaks_of_github_dot_com(served: Served) -> None:
    told = (await served.client(public=True).get(REPO)).json()
    assert told["html_url"] == f"https://github.com/{OWNER}/{NAME}"
    assert told["url"] == f"https://api.github.com{REPO}"
    here = (await served.client().get(REPO)).json()
    assert here["html_url"] == f"{served.url}/{OWNER}/{NAME}"
    assert here["url"] == f"{served.api}{REPO}"


async def test_graphql_is_where_it_is_on_github_and_on_enterprise(served: Served) -> None:
    query = {"query": "{ viewer { login } }"}
    for client, path in (
        (served.client("wanda"), f"{served.url}/api/graphql"),
        (served.client("wanda", public=True), "/graphql"),
    ):
        answer = await client.post(path, json=query)
        assert answer.json() == {"data": {"viewer": {"login": "wanda"}}}
        assert answer.headers["x-ratelimit-resource"] == "graphql"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b'"query"', b'{"query": 1}', b"[" * 100_000, b"\xff\xfe"),
        *(b'{"query": "{ viewer { login } }", "variables": []}', b'{"query": "{", "operationName": {}}'),
    ],
)
async def test_a_graphql_body_that_is_none_is_a_bad_request(served: Served, body: bytes) -> None:
    answer = await served.client().post(f"{served.url}/api/graphql", content=body)
    assert answer.status_code == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'"title"', b"[]", b"1"])
async def test_a_rest_body_that_is_none_is_refused_and_never_an_accident(served: Served, body: bytes) -> None:
    answer = await served.client().post(f"{REPO}/issues", content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["message"]


def test_what_went_wrong_becomes_the_status_github_has_for_it() -> None:
    told: list[tuple[ResolventError, int, str]] = [
        (NotFound("there is no issue 7"), 404, "Not Found"),
        (HeadMoved("it is elsewhere"), 409, "Head branch was modified. Review and try the merge again."),
        (ForgeRefused("Pull Request is not mergeable", status=405), 405, "Pull Request is not mergeable"),
        (ForgeRefused("Reference already exists", status=422), 422, "Reference already exists"),
        (ForgeRefused("no such head", field="head"), 422, "Validation Failed"),
        (ForgeDown("forge.git is away"), 503, "Service unavailable."),
        (Bug("an invariant broke"), 500, "Server Error"),
    ]
    for error, status, message in told:
        refusal = refusal_of(error)
        assert (refusal.status, refusal.message) == (status, message), error
    assert refusal_of(told[4][0]).errors == [
        {"resource": "Repository", "code": "custom", "field": "head", "message": "no such head"}
    ]


def test_pages_say_where_the_others_are() -> None:
    rows = list(range(250))
    page, headers = paged(asked("per_page=100&page=2&state=all"), rows)
    assert list(page) == rows[100:200]
    at = "https://api.github.com/list?per_page=100&state=all&page={}"
    assert headers["link"] == ", ".join(
        f'<{at.format(number)}>; rel="{name}"' for number, name in ((1, "prev"), (3, "next"), (3, "last"), (1, "first"))
    )
    assert 'rel="next"' not in paged(asked("per_page=100&page=3"), rows)[1]["link"]
    assert 'rel="prev"' not in paged(asked("per_page=100"), rows)[1]["link"]
    assert paged(asked(), rows[:30])[1] == {}


@given(st.text(max_size=12), st.text(max_size=12), st.integers(0, 300))
def test_no_page_is_an_accident(page: str, size: str, total: int) -> None:
    query = str(httpx.QueryParams({"page": page, "per_page": size}))
    rows, _ = paged(asked(query), list(range(total)))
    assert len(rows) <= 100


async def test_every_request_is_remembered_with_who_asked(served: Served) -> None:
    await served.client("wanda").get("/user?x=1")
    await served.client(token="").get("/user")
    told: list[tuple[Any, ...]] = [(one.method, one.path, one.status, one.login, one.query) for one in served.requests]
    assert told == [("GET", "/api/v3/user", 200, "wanda", "x=1"), ("GET", "/api/v3/user", 401, "", "")]
