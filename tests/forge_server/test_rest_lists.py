"""Lists: in pages, filtered and ordered as GitHub documents it."""

import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from tests.forge_server.rest_scene import REPO, set_up
from tests.forge_server.serving import OWNER, Served


async def numbers(client: httpx.AsyncClient, path: str, **params: Any) -> list[int]:
    answer = await client.get(f"{REPO}{path}", params=params)
    assert answer.status_code == 200, answer.text
    return [one["number"] for one in answer.json()]


async def open_issues(served: Served, *titles: str, labels: tuple[str, ...] = (), by: str = OWNER) -> None:
    account = (await served.hub.holdings()).accounts[by]
    for title in titles:
        await served.hub.open_issue(account, title=title, labels=labels)


async def test_pages_lead_to_each_other_by_the_link_header(served: Served) -> None:
    await open_issues(served, *(f"Number {nth}" for nth in range(1, 6)))
    client = served.client()
    url, seen, hops = f"{REPO}/issues?per_page=2&direction=asc", [], 0
    while url:
        answer = await client.get(url)
        seen += [one["number"] for one in answer.json()]
        relations = {name: at for at, name in re.findall(r'<([^>]+)>; rel="(\w+)"', answer.headers.get("link", ""))}
        hops += 1
        if hops == 2:
            assert set(relations) == {"prev", "next", "last", "first"}
            assert relations["last"].startswith(served.api)
        url = relations.get("next", "")
    assert (seen, hops) == ([1, 2, 3, 4, 5], 3)


async def test_a_list_that_fits_on_one_page_has_no_link(served: Served) -> None:
    await open_issues(served, "Only one")
    assert "link" not in (await served.client().get(f"{REPO}/issues")).headers


async def test_what_counts_its_rows_is_in_pages_too(served: Served) -> None:
    scene = await set_up(served)
    for name in ("a", "b", "c"):
        await served.hub.report(scene.topic, name, conclusion="success")
    answer = await served.client().get(f"{REPO}/commits/{scene.topic}/check-runs", params={"per_page": 2})
    assert (answer.json()["total_count"], len(answer.json()["check_runs"])) == (3, 2)
    assert 'rel="next"' in answer.headers["link"]


async def test_issues_are_listed_by_state_label_creator_and_assignee(served: Served) -> None:
    await open_issues(served, "One", labels=("bug",))
    await open_issues(served, "Two", labels=("bug", "Urgent"), by="wanda")
    await open_issues(served, "Three")
    people = (await served.hub.holdings()).accounts
    await served.hub.assign(people[OWNER], 3, add=["rita"])
    await served.hub.set_state(people[OWNER], 1, "closed")
    client = served.client()
    assert await numbers(client, "/issues") == [3, 2]
    assert await numbers(client, "/issues", state="closed") == [1]
    assert await numbers(client, "/issues", state="all", labels="bug") == [2, 1]
    assert await numbers(client, "/issues", state="all", labels="bug,urgent") == [2]
    assert await numbers(client, "/issues", creator="wanda") == [2]
    assert await numbers(client, "/issues", assignee="rita") == [3]
    assert await numbers(client, "/issues", assignee="none") == [2]
    assert await numbers(client, "/issues", assignee="*") == [3]


async def test_since_takes_what_changed_at_that_very_second(served: Served) -> None:
    await open_issues(served, "One")
    item = (await served.hub.holdings()).items[1]
    client = served.client()
    for offset, expected in ((-1, [1]), (0, [1]), (1, [])):
        at = datetime.fromtimestamp(int(item.updated_at) + offset, UTC).isoformat()
        assert await numbers(client, "/issues", since=at) == expected
        comments = await client.get(f"{REPO}/issues/comments", params={"since": at})
        assert comments.json() == []


async def test_a_since_that_is_no_time_is_refused(served: Served) -> None:
    assert (await served.client().get(f"{REPO}/issues", params={"since": "yesterday"})).status_code == 422


async def test_the_list_of_issues_holds_pull_requests_and_says_so(served: Served) -> None:
    scene = await set_up(served)
    await scene.pull()
    (one,) = (await served.client().get(f"{REPO}/issues")).json()
    assert one["pull_request"]["html_url"].endswith("/pull/1")


async def test_pull_requests_are_listed_by_head_base_and_state(served: Served) -> None:
    scene = await set_up(served)
    await scene.branch("other", scene.topic)
    await scene.pull()
    await scene.pull(head="other")
    await served.hub.set_state((await served.hub.holdings()).accounts[OWNER], 1, "closed")
    client = served.client()
    assert await numbers(client, "/pulls") == [2]
    assert await numbers(client, "/pulls", state="all") == [2, 1]
    assert await numbers(client, "/pulls", state="all", direction="asc") == [1, 2]
    assert await numbers(client, "/pulls", state="all", head=f"{OWNER}:topic") == [1]
    assert await numbers(client, "/pulls", state="all", head="stranger:topic") == []
    assert await numbers(client, "/pulls", state="all", base="elsewhere") == []


async def test_comments_everywhere_come_in_the_order_they_were_written(served: Served) -> None:
    await open_issues(served, "One", "Two")
    people = (await served.hub.holdings()).accounts
    for number, body in ((2, "first"), (1, "second"), (2, "third")):
        await served.hub.remark(people["rita"], number, body)
    client = served.client()

    async def bodies(**params: str) -> list[str]:
        return [one["body"] for one in (await client.get(f"{REPO}/issues/comments", params=params)).json()]

    assert await bodies() == ["first", "second", "third"]
    assert await bodies(direction="desc") == ["first", "second", "third"]
    assert await bodies(sort="created") == ["third", "second", "first"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("is:issue state:open panic in:title", [1]),
        ('"at night" repo:acme/widget', [2, 1]),
        ("label:bug is:open", [1]),
        ("author:rita", [2]),
        ("repo:somebody/else panic", []),
        ("is:closed", []),
    ],
)
async def test_search_understands_words_phrases_and_qualifiers(served: Served, query: str, expected: list[int]) -> None:
    people = (await served.hub.holdings()).accounts
    await served.hub.open_issue(people[OWNER], title="A panic", body="Always at night", labels=["bug"])
    await served.hub.open_issue(people["rita"], title="Noise at night", body="I panic")
    answer = await served.client().get("/search/issues", params={"q": query})
    assert [one["number"] for one in answer.json()["items"]] == expected


async def test_search_without_words_or_with_too_many_is_refused(served: Served) -> None:
    for query in ("", " ", "x" * 257, "(((("):
        assert (await served.client().get("/search/issues", params={"q": query})).status_code == 422


async def test_branches_whose_names_are_odd_or_no_text_at_all_are_listed(served: Served) -> None:
    scene = await set_up(served)
    for name in ("fête/🎉", "caf\udce9", "a#b%d"):
        await served.hub.git("update-ref", f"refs/heads/{name}", scene.main)
    client = served.client()
    made = await client.post(f"{REPO}/git/refs", json={"ref": "refs/heads/été", "sha": scene.main})
    assert made.headers["location"] == made.json()["url"]
    branches = (await client.get(f"{REPO}/branches")).json()
    assert {"été", "fête/🎉", "caf?", "a#b%d", "main", "topic"} == {one["name"] for one in branches}
    assert (await client.get(f"{REPO}/git/matching-refs/heads/caf")).status_code == 200
    odd = next(one for one in branches if one["name"] == "a#b%d")
    url = odd["protection_url"].removesuffix("/protection")
    assert (await client.get(url)).json()["name"] == "a#b%d"


async def test_a_label_is_found_at_its_own_url_whatever_it_is_called(served: Served) -> None:
    client = served.client()
    for name in ("area/core", "🎉 party", "a?b#c", "100%"):
        made = await client.post(f"{REPO}/labels", json={"name": name})
        assert made.headers["location"] == made.json()["url"]
        assert (await client.get(made.json()["url"])).json()["name"] == name
