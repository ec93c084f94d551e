"""Whatever is sent, the answer is one of GitHub's and never a fault of ours."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route
from tests.forge_server.rest_scene import FIRST, REPO
from tests.forge_server.serving import NAME, OWNER

from resolvent.forge_server.app import application
from resolvent.forge_server.hub import Hub, Proposal
from resolvent.forge_server.rest import routes

EVERY = [route for route in routes() if isinstance(route, Route)]
WRITING = sorted(str(route.name) for route in EVERY if not route.name.startswith("GET "))
READING = sorted(route.path for route in EVERY if "GET" in (route.methods or set()))
# The fields that some route reads: of hostile objects these reach further than others. Not `archived`: after that
# nothing could be written any more.
FIELDS = [
    "title", "body", "labels", "assignees", "assignee", "state", "state_reason", "reviewers", "comments", "event",
    "commit_id", "path", "line", "head", "base", "draft", "sha", "ref", "force", "message", "tree", "parents",
    "base_tree", "content", "encoding", "name", "color", "description", "new_name", "merge_method", "commit_title",
    "commit_message", "expected_head_sha", "head_sha", "status", "conclusion", "output", "context", "config",
    "events", "active", "default_branch", "lock_reason", "repositories",
]  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["main", "topic", "refs/heads/x", "open", "closed", "bug", "../..", "a\nb", "-x", "\0", "🎉", "wanda", "0" * 40]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*FIELDS, "url", "text"]), inner, max_size=4)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6)
BODIES = st.one_of(
    OBJECTS.map(lambda said: json.dumps(said).encode()),
    VALUES.map(lambda said: json.dumps(said).encode()),
    st.binary(max_size=20),
    st.sampled_from([b"[" * 100_000, b"9" * 5000, b'{"title": "\\ud800"}', b"\xff\xfe", b"null", b""]),
)
PLACES = st.sampled_from(
    ["1", "2", "3", "0", "99999999999999999999999", "main", "topic", "..", "a/b", "%00", "🎉", "-1"]
)
RELAXED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose answers come straight from the application, and whose faults rise."""
    hub = await Hub.open(tmp_path, owner=OWNER, name=NAME)
    await hub.git("fast-import", "--quiet", input=FIRST)
    owner = (await hub.holdings()).accounts[OWNER]
    await hub.account("wanda")
    await hub.open_issue(owner, title="First", labels=["bug"])
    await hub.open_pull(owner, Proposal("topic", "main", "Second"))
    await hub.remark(owner, 1, "Third")
    await hub.report((await hub.holdings()).refs["refs/heads/topic"], "test", conclusion="failure", log="no\n")
    transport = httpx.ASGITransport(application(hub, base="https://localhost"))
    headers = {"authorization": f"token {await hub.token(OWNER)}"}
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost/api/v3", headers=headers) as made:
        yield made
    await hub.close()


def filled_in(path: str, places: list[str]) -> str:
    """A path of a route with something in every place."""
    made = path.replace("{owner}", OWNER).replace("{repo}", NAME)
    parts = []
    for part, place in zip(made.split("{"), ["", *places], strict=False):
        before, brace, after = part.partition("}")
        if not brace:
            parts.append(part)
            continue
        numeric = ":int" in before
        parts.append((quote(place) if place.isdigit() or not numeric else "1") + after)
    return "".join(parts)


@given(route=st.sampled_from(WRITING), body=BODIES, places=st.lists(PLACES, min_size=3, max_size=3))
@RELAXED
async def test_no_body_brings_a_writing_route_down(
    client: httpx.AsyncClient, route: str, body: bytes, places: list[str]
) -> None:
    method, path = route.split(" ", 1)
    answer = await client.request(method, filled_in(path, places), content=body)
    assert answer.status_code < 500, (route, body, answer.text)
    assert answer.status_code < 400 or answer.json()["message"]


@given(
    path=st.sampled_from(READING),
    places=st.lists(PLACES, min_size=3, max_size=3),
    query=st.dictionaries(
        st.sampled_from(
            [
                "state",
                "labels",
                "creator",
                "assignee",
                "since",
                "sort",
                "direction",
                "page",
                "per_page",
                "q",
                "ref",
                "sha",
                "path",
                "head",
            ]
        ),
        TEXTS.filter(lambda text: text.isprintable()),
        max_size=4,
    ),
)
@RELAXED
async def test_no_path_or_query_brings_a_reading_route_down(
    client: httpx.AsyncClient, path: str, places: list[str], query: dict[str, Any]
) -> None:
    answer = await client.get(filled_in(path, places), params=query)
    assert answer.status_code < 500, (path, query, answer.text)


async def test_a_number_that_never_ends_names_nothing(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{REPO}/issues/{'9' * 5000}")).status_code == 404
