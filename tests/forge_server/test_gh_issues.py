"""Issues by real `gh`, old and new; what it did is looked up on the hub."""

from collections.abc import AsyncIterator

import pytest
from tests.forge_server.gh_stage import PROGRAMS, PUBLIC, REPO, Gh, number_in
from tests.forge_server.gh_unknown import known_here
from tests.forge_server.serving import OWNER, Served

from resolvent.forge_server.graphql import pruned


@pytest.fixture(params=PROGRAMS)
async def gh(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Gh]:
    ready = await Gh.ready(served, request.param)
    yield ready
    assert set(pruned(served.hub)) <= known_here(ready)


async def test_an_issue_is_opened_labelled_assigned_edited_and_closed(gh: Gh) -> None:
    hub, owner = gh.served.hub, (await gh.served.hub.holdings()).accounts[OWNER]
    await hub.make_label(owner, "bug")
    await hub.make_label(owner, "urgent 🔥", "ff0000")
    number = number_in(await gh("issue", "create", "--title", "It panics", "--body", "at line 3", "--label", "bug"))
    await gh("issue", "edit", str(number), "--add-label", "urgent 🔥", "--remove-label", "bug")
    await gh("issue", "edit", str(number), "--add-assignee", "wanda", "--title", "It dies", "--body", "at line 4\n\n🦀")
    item = await gh.item(number)
    assert (item.title, item.body, item.author) == ("It dies", "at line 4\n\n🦀", OWNER)
    assert (item.labels, item.assignees) == (("urgent 🔥",), ("wanda",))

    await gh("issue", "edit", str(number), "--remove-assignee", "wanda", "--add-assignee", "@me")
    assert (await gh.item(number)).assignees == (OWNER,)
    await gh("issue", "close", str(number), "--reason", "not planned", "--comment", "not worth it")
    item = await gh.item(number)
    assert (item.state, item.reason, [one.body for one in item.remarks]) == ("closed", "not_planned", ["not worth it"])
    await gh("issue", "reopen", str(number))
    assert (await gh.item(number)).state == "open"


async def test_an_issue_is_made_with_everything_at_once_by_who_has_it(gh: Gh) -> None:
    hub = gh.served.hub
    await hub.make_label((await hub.holdings()).accounts[OWNER], "bug")
    words = ("--title", "Both", "--body", "", "--label", "bug", "--assignee", "@me")
    item = await gh.item(number_in(await gh("issue", "create", *words, login="wanda")))
    assert (item.author, item.labels, item.assignees) == ("wanda", ("bug",), ("wanda",))
    refused = await gh("issue", "create", "--title", "No", "--body", "", "--label", "nosuch", code=1)
    assert "'nosuch' not found" in refused


async def test_comments_are_written_and_edited_in_place(gh: Gh) -> None:
    number = number_in(await gh("issue", "create", "--title", "Talk", "--body", "b"))
    long = "ä" * 60_000
    url = (await gh("issue", "comment", str(number), "--body", "first")).strip()
    await gh("issue", "comment", str(number), "--body", long, login="wanda")
    (first, second) = (await gh.item(number)).remarks
    assert url == f"{PUBLIC}/issues/{number}#issuecomment-{first.id}"
    assert (first.author, second.author, second.body) == (OWNER, "wanda", long)
    await gh("issue", "comment", str(number), "--edit-last", "--body", "said better")
    assert [one.body for one in (await gh.item(number)).remarks] == ["said better", long]
    shown = await gh("issue", "view", str(number), "--comments")
    assert "said better" in shown and long in shown
    if gh.new:
        await gh("issue", "comment", str(number), "--delete-last", "--yes")
        assert [one.author for one in (await gh.item(number)).remarks] == ["wanda"]


async def test_a_view_tells_every_field_there_is(gh: Gh) -> None:
    hub = gh.served.hub
    owner = (await hub.holdings()).accounts[OWNER]
    await hub.make_label(owner, "bug", "d73a4a", "it is broken")
    made = await hub.open_issue(owner, title="It panics", body="body", labels=("bug",))
    await hub.assign(owner, made.number, add=("wanda",))
    await hub.remark((await hub.holdings()).accounts["wanda"], made.number, "me too")
    await hub.react(owner, "+1", number=made.number)
    told = await gh.read("issue", "view", str(made.number))
    assert (told["title"], told["state"]) == ("It panics", "OPEN")
    assert told["author"]["login"] == OWNER
    assert [(one["name"], one["color"], one["description"]) for one in told["labels"]] == [
        ("bug", "d73a4a", "it is broken")
    ]
    assert [one["login"] for one in told["assignees"]] == ["wanda"]
    assert [(one["author"]["login"], one["body"]) for one in told["comments"]] == [("wanda", "me too")]
    assert told["reactionGroups"][0] == {"content": "THUMBS_UP", "users": {"totalCount": 1}}
    assert told["url"] == f"{PUBLIC}/issues/{made.number}"
    assert (told["closed"], told["closedAt"]) == (False, None)
    (listed,) = await gh.read("issue", "list")
    assert {name: listed[name] for name in listed if name != "comments"} == {
        name: told[name] for name in listed if name != "comments"
    }
    absent = await gh("issue", "view", "77", code=1)
    assert "Could not resolve to an issue or pull request with the number of 77." in absent


async def test_lists_are_filtered_by_state_label_people_and_words(gh: Gh) -> None:
    hub = gh.served.hub
    people = (await hub.holdings()).accounts
    await hub.make_label(people[OWNER], "bug")
    one = await hub.open_issue(people[OWNER], title="The parser panics", body="on `{`", labels=("bug",))
    two = await hub.open_issue(people["wanda"], title="Slow", body="the PARSER is slow, @rita")
    three = await hub.open_issue(people["wanda"], title="Done")
    await hub.assign(people[OWNER], two.number, add=("wanda",))
    await hub.set_state(people[OWNER], three.number, "closed")

    async def listed(*args: str) -> list[int]:
        return [found["number"] for found in await gh.read("issue", "list", *args, fields="number")]

    assert await listed() == [two.number, one.number]
    assert await listed("--state", "all", "--limit", "1") == [three.number]
    assert await listed("--state", "closed") == [three.number]
    assert await listed("--label", "bug", "--state", "all") == [one.number]
    assert await listed("--author", "wanda") == [two.number]
    assert await listed("--assignee", "wanda") == [two.number]
    assert await listed("--mention", "rita") == [two.number]
    words = ("parser in:title,body state:open", "--limit", "10")
    assert sorted(await listed("--search", *words)) == [one.number, two.number]
    assert await listed("--search", '"parser panics" in:title') == [one.number]
    assert await listed("--search", "nosuchword") == []
    searched = await gh.read("search", "issues", "parser", "--repo", REPO, "--state", "open", fields="number,title")
    assert {found["number"] for found in searched} == {one.number, two.number}


async def test_more_issues_than_a_page_are_all_listed_once(gh: Gh) -> None:
    hub = gh.served.hub
    owner = (await hub.holdings()).accounts[OWNER]
    made = [(await hub.open_issue(owner, title=f"number {nth}")).number for nth in range(103)]
    told = await gh.read("issue", "list", "--limit", "500", fields="number")
    assert [one["number"] for one in told] == made[::-1]


async def test_status_tells_what_is_mine(gh: Gh) -> None:
    hub = gh.served.hub
    people = (await hub.holdings()).accounts
    mine = await hub.open_issue(people[OWNER], title="I wrote it")
    theirs = await hub.open_issue(people["wanda"], title="Hers", body=f"what says @{OWNER}?")
    await hub.assign(people[OWNER], mine.number, add=(OWNER,))
    told = await gh.read("issue", "status", fields="number")
    assert [one["number"] for one in told["assigned"]] == [mine.number]
    assert [one["number"] for one in told["createdBy"]] == [mine.number]
    assert [one["number"] for one in told["mentioned"]] == [theirs.number]


async def test_a_locked_issue_takes_no_word_from_others(gh: Gh) -> None:
    number = number_in(await gh("issue", "create", "--title", "Hot", "--body", "b"))
    await gh("issue", "lock", str(number))
    assert (await gh.item(number)).locked
    await gh("issue", "comment", str(number), "--body", "but", login="rita", code=1)
    await gh("issue", "unlock", str(number))
    await gh("issue", "comment", str(number), "--body", "but", login="rita")
    assert [one.author for one in (await gh.item(number)).remarks] == ["rita"]


async def test_who_may_only_read_opens_issues_and_changes_nobody_elses(gh: Gh) -> None:
    number = number_in(await gh("issue", "create", "--title", "Mine", "--body", "b", login="wanda"))
    told = await gh("issue", "close", str(number), login="rita", code=1)
    assert "rita does not have the correct permissions to execute `CloseIssue`" in told
    await gh("issue", "edit", str(number), "--title", "Ours", login="rita", code=1)
    item = await gh.item(number)
    assert (item.title, item.state) == ("Mine", "open")
    own = number_in(await gh("issue", "create", "--title", "Hers", "--body", "b", login="rita"))
    await gh("issue", "close", str(own), login="rita")
    assert (await gh.item(own)).state == "closed"


async def test_what_the_forge_cannot_do_is_refused_and_not_pretended(gh: Gh) -> None:
    number = number_in(await gh("issue", "create", "--title", "Pin me", "--body", "b"))
    assert "Field 'pinIssue' doesn't exist on type 'Mutation'" in await gh("issue", "pin", str(number), code=1)
    assert "'v1' not found" in await gh("issue", "edit", str(number), "--milestone", "v1", code=1)
    # Old ones say only how it is to be confirmed without a terminal.
    await gh("issue", "delete", str(number), "--yes" if gh.new else "--confirm", code=1)
    assert (await gh.item(number)).title == "Pin me"


async def test_an_archived_repository_takes_nothing(gh: Gh) -> None:
    await gh.served.hub.archive(True)
    told = await gh("issue", "create", "--title", "Late", "--body", "b", code=1)
    assert "archived" in told
    assert (await gh.served.hub.holdings()).items == {}


async def test_a_token_without_the_scope_writes_nothing(gh: Gh) -> None:
    token = await gh.served.hub.token(OWNER, scopes=("read:org",))
    told = await gh("issue", "create", "--title", "Sly", "--body", "b", code=1, env={"GH_TOKEN": token})
    assert "has not been granted the required scopes" in told
    assert token not in told
    assert (await gh.served.hub.holdings()).items == {}
