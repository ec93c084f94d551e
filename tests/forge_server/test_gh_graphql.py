"""GraphQL itself, asked without a client: what it refuses and in which words, pages, node ids, hostile queries."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLObjectType, get_named_type, is_composite_type, is_leaf_type, is_required_argument
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.forge_server.serving import Served

from resolvent.forge_server.graphql import Asked, answer, pruned
from resolvent.forge_server.graphql.executing import schema
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.hub import Hub, Proposal
from resolvent.forge_server.node_ids import PREFIXES, node_id, node_named

REPOSITORY = 'repository(owner: "acme", name: "widget")'


class Asking:
    """A hub that is asked directly, in somebody's name."""

    def __init__(self, hub: Hub, people: dict[str, Account]) -> None:
        self.hub = hub
        self.people = people

    async def __call__(
        self, query: str, *, login: str = "acme", scopes: tuple[str, ...] | None = None, **variables: Any
    ) -> dict[str, Any]:
        asked = Asked(query, variables, scopes=scopes)
        told = await answer(self.hub, self.people[login], asked, base="https://github.com")
        json.dumps(told)
        return told

    async def refused(self, query: str, **how: Any) -> tuple[str, str]:
        """The type and the words of the only error."""
        (error,) = (await self(query, **how))["errors"]
        return error.get("type", ""), error["message"]

    async def write(self, name: str, said: dict[str, Any], *, asks: str = "clientMutationId", **how: Any) -> Any:
        kind = name[0].upper() + name[1:] + "Input!"
        return await self(f"mutation($input: {kind}) {{ {name}(input: $input) {{ {asks} }} }}", input=said, **how)


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Asking]:
    hub = await Hub.open(tmp_path, owner="acme", name="widget")
    people = {
        "acme": await hub.account("acme", permission="admin"),
        "wanda": await hub.account("wanda", permission="write"),
        "rita": await hub.account("rita", permission="read"),
    }
    yield Asking(hub, people)
    await hub.close()


async def committed(hub: Hub, by: Account, branch: str, *parents: str, text: bytes = b"x") -> str:
    """A branch with one file."""
    tree = await hub.create_tree(by, [("100644", "blob", await hub.create_blob(by, text), "a.txt")])
    made = await hub.create_commit(by, f"change {branch}", tree, parents)
    await hub.create_ref(by, f"refs/heads/{branch}", made.id)
    return made.id


async def proposed(asking: Asking) -> int:
    """A pull request of `feat` onto `main`."""
    hub, owner = asking.hub, asking.people["acme"]
    base = await committed(hub, owner, "main")
    await committed(hub, owner, "feat", base, text=b"y")
    return (await hub.open_pull(owner, Proposal("feat", "main", "T", "b"))).number


async def test_what_is_not_there_is_refused_in_githubs_words(asking: Asking) -> None:
    for asked, words in (
        ('repository(owner: "acme", name: "no") { id }', "a Repository with the name 'acme/no'."),
        (f"{REPOSITORY} {{ pullRequest(number: 7) {{ id }} }}", "a PullRequest with the number of 7."),
        (f"{REPOSITORY} {{ issue(number: 7) {{ id }} }}", "an Issue with the number of 7."),
        ('user(login: "nobody") { id }', "a User with the login of 'nobody'."),
        ('organization(login: "acme") { id }', "an Organization with the login of 'acme'."),
        ('node(id: "I_x") { id }', "a node with the global id of 'I_x'"),
    ):
        assert await asking.refused(f"{{ {asked} }}") == ("NOT_FOUND", f"Could not resolve to {words}")
    told = await asking(f"{{ {REPOSITORY} {{ name pullRequest(number: 7) {{ id }} }} }}")
    assert told["data"] == {"repository": {"name": "widget", "pullRequest": None}}
    assert told["errors"][0]["path"] == ["repository", "pullRequest"]


async def test_pages_hold_together_while_things_are_added(asking: Asking) -> None:
    hub, owner = asking.hub, asking.people["acme"]
    numbers = [(await hub.open_issue(owner, title=f"{nth}")).number for nth in range(5)]
    query = f"""query($after: String) {{ {REPOSITORY} {{
        issues(first: 2, after: $after, orderBy: {{field: CREATED_AT, direction: DESC}}) {{
            totalCount edges {{ cursor node {{ number }} }} pageInfo {{ hasNextPage endCursor }} }} }} }}"""
    seen, after = [], None
    while True:
        page = (await asking(query, after=after))["data"]["repository"]["issues"]
        seen += [edge["node"]["number"] for edge in page["edges"]]
        assert page["pageInfo"]["endCursor"] == page["edges"][-1]["cursor"]
        # Somebody adds one at the front of the list while we turn the page.
        await hub.open_issue(owner, title="more")
        if not page["pageInfo"]["hasNextPage"]:
            break
        after = page["pageInfo"]["endCursor"]
    assert seen == numbers[::-1]


async def test_pages_are_cut_from_both_ends(asking: Asking) -> None:
    hub, owner = asking.hub, asking.people["acme"]
    for nth in range(5):
        await hub.open_issue(owner, title=f"{nth}")

    async def page(bounds: str) -> list[int]:
        told = await asking(f"{{ {REPOSITORY} {{ issues({bounds}) {{ nodes {{ number }} edges {{ cursor }} }} }} }}")
        cursors.extend(edge["cursor"] for edge in told["data"]["repository"]["issues"]["edges"])
        return [one["number"] for one in told["data"]["repository"]["issues"]["nodes"]]

    cursors: list[str] = []
    assert await page("first: 100") == [1, 2, 3, 4, 5]
    assert await page("last: 2") == [4, 5]
    assert await page(f'last: 2, before: "{cursors[4]}"') == [3, 4]
    assert await page(f'first: 2, after: "{cursors[0]}"') == [2, 3]
    assert await page(f'first: 2, after: "{cursors[4]}"') == []
    assert await page("first: 0") == []


@pytest.mark.parametrize(
    ("bounds", "kind"),
    [
        ("", "MISSING_PAGINATION_BOUNDARIES"),
        ("(first: 101)", "EXCESSIVE_PAGINATION"),
        ("(first: -1)", "INVALID_PAGINATION_BOUNDARIES"),
        ('(first: 1, after: "nonsense")', "INVALID_CURSOR_ARGUMENTS"),
        ('(first: 1, after: "Y3Vyc29yOi0xOng=")', "INVALID_CURSOR_ARGUMENTS"),
    ],
)
async def test_a_page_needs_bounds_that_make_sense(asking: Asking, bounds: str, kind: str) -> None:
    told = await asking.refused(f"{{ {REPOSITORY} {{ issues{bounds} {{ nodes {{ id }} }} }} }}")
    assert told[0] == kind


async def test_counting_needs_no_bounds(asking: Asking) -> None:
    told = await asking(f"{{ {REPOSITORY} {{ issues {{ totalCount }} }} }}")
    assert told["data"]["repository"]["issues"] == {"totalCount": 0}


async def test_a_field_that_is_unknown_is_left_out_and_said_so(asking: Asking) -> None:
    told = await asking(f"{{ {REPOSITORY} {{ name stars: nosuch {{ id }} ... on Nothing {{ id }} }} }}")
    assert told["data"] == {"repository": {"name": "widget"}}
    assert [one["message"] for one in told["extensions"]["warnings"]] == ["Repository.nosuch", "… on Nothing"]
    assert pruned(asking.hub) == ("Repository.nosuch", "… on Nothing")
    told = await asking(f"{{ {REPOSITORY} {{ nosuch }} }}")
    assert told["data"] == {"repository": {}}


async def test_a_write_that_is_unknown_is_refused(asking: Asking) -> None:
    told = await asking('mutation { pinIssue(input: {issueId: "x"}) { issue { id } } }')
    assert "data" not in told
    assert told["errors"][0]["message"] == "Field 'pinIssue' doesn't exist on type 'Mutation'"
    words = await asking.refused("{ nosuch }")
    assert words[1] == "Field 'nosuch' doesn't exist on type 'Query'"


async def test_every_node_id_leads_back_to_what_it_names(asking: Asking) -> None:
    number = await proposed(asking)
    hub, wanda = asking.hub, asking.people["wanda"]
    await hub.make_label(wanda, "bug")
    issue = await hub.open_issue(wanda, title="One")
    await hub.remark(wanda, issue.number, "hello")
    query = f"""{{ viewer {{ id }} {REPOSITORY} {{
        id defaultBranchRef {{ id target {{ id }} }} labels(first: 1) {{ nodes {{ id }} }}
        issue(number: {issue.number}) {{ id comments(first: 1) {{ nodes {{ id }} }} }}
        pullRequest(number: {number}) {{ id }} }} }}"""
    ids = re.findall(r'"id": "([^"]+)"', json.dumps((await asking(query))["data"]))
    assert len(ids) == len(set(ids)) == 8
    told = await asking("query($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }", ids=ids)
    assert [one["id"] for one in told["data"]["nodes"]] == ids
    assert {one["__typename"] for one in told["data"]["nodes"]} == {
        *("User", "Repository", "Ref", "Commit", "Label", "Issue", "IssueComment", "PullRequest")
    }
    # What is an issue's is no pull request's, though the numbers are the same.
    swapped = node_id("PullRequest", issue.number)
    assert (await asking.refused(f'{{ node(id: "{swapped}") {{ id }} }}'))[0] == "NOT_FOUND"
    closed = await asking.write("closeIssue", {"issueId": node_id("Issue", number)})
    assert closed["errors"][0]["type"] == "NOT_FOUND"


@given(kind=st.sampled_from(sorted(PREFIXES)), key=st.text())
def test_a_node_id_is_read_as_it_was_written(kind: Any, key: str) -> None:
    key = key.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert node_named(node_id(kind, key)) == ((kind, key) if key else None)


@given(text=st.text() | st.from_regex(r"(I|PR|U)_[A-Za-z0-9_=-]*", fullmatch=True))
def test_what_nobody_wrote_as_a_node_id_names_nothing_or_exactly_itself(text: str) -> None:
    named = node_named(text)
    assert named is None or node_id(*named) == text


async def test_writes_are_refused_without_permission_scope_or_sense(asking: Asking) -> None:
    number = await proposed(asking)
    pull = node_id("PullRequest", number)
    told = await asking.write("mergePullRequest", {"pullRequestId": pull}, login="rita")
    words = "rita does not have the correct permissions to execute `MergePullRequest`"
    assert (told["errors"][0]["type"], told["errors"][0]["message"]) == ("FORBIDDEN", words)
    told = await asking.write("closePullRequest", {"pullRequestId": pull}, scopes=("read:org",))
    assert told["errors"][0]["type"] == "INSUFFICIENT_SCOPES"
    told = await asking.write("enablePullRequestAutoMerge", {"pullRequestId": pull})
    assert told["errors"][0]["message"] == "Auto merge is not allowed for this repository"
    said = {"pullRequestId": pull, "expectedHeadOid": "0" * 40}
    told = await asking.write("mergePullRequest", said)
    assert told["errors"][0] == {
        "type": "UNPROCESSABLE",
        "path": ["mergePullRequest"],
        "locations": [{"line": 1, "column": 44}],
        "message": "Head branch was modified. Review and try the merge again.",
    }
    said = {"repositoryId": node_id("Repository", "acme/widget"), "title": "T", "milestoneId": "MI_x"}
    told = await asking.write("createIssue", said)
    assert told["errors"][0]["message"] == "Could not resolve to a node with the global id of 'MI_x'"
    await asking.hub.archive(True)
    told = await asking.write("addComment", {"subjectId": pull, "body": "late"})
    assert told["errors"][0]["message"] == "Repository was archived so is read-only."
    item = (await asking.hub.holdings()).items[number]
    assert (item.state, item.remarks, len((await asking.hub.holdings()).items)) == ("open", (), 1)


async def test_texts_are_as_long_and_strange_as_github_takes_them(asking: Asking) -> None:
    repository = node_id("Repository", "acme/widget")
    asks = "issue { number title body }"
    body = "🦀" * 65_536
    told = await asking.write(
        "createIssue", {"repositoryId": repository, "title": "<b>&\u202e", "body": body}, asks=asks
    )
    assert told["data"]["createIssue"]["issue"] == {"number": 1, "title": "<b>&\u202e", "body": body}
    for said, words in (
        ({"title": "x" * 257}, "Title is too long (maximum is 256 characters)"),
        ({"title": " \n"}, "Title can't be blank"),
        ({"title": "T", "body": body + "x"}, "Body is too long (maximum is 65536 characters)"),
    ):
        told = await asking.write("createIssue", {"repositoryId": repository, **said})
        assert (told["errors"][0]["type"], told["errors"][0]["message"]) == ("UNPROCESSABLE", words)
    for title in ("two\nlines", "nul\0"):
        told = await asking.write("createIssue", {"repositoryId": repository, "title": title})
        assert told["errors"][0]["type"] == "UNPROCESSABLE"
    assert len((await asking.hub.holdings()).items) == 1


async def test_people_labels_reactions_and_branches_are_written(asking: Asking) -> None:
    number = await proposed(asking)
    hub, wanda = asking.hub, asking.people["wanda"]
    pull, bug = node_id("PullRequest", number), await hub.make_label(wanda, "bug")
    user = node_id("User", "wanda")
    await asking.write("addLabelsToLabelable", {"labelableId": pull, "labelIds": [node_id("Label", bug.id)]})
    await asking.write("addAssigneesToAssignable", {"assignableId": pull, "assigneeIds": [user]})
    await asking.write("requestReviews", {"pullRequestId": pull, "userIds": [user]})
    asks = "reaction { content user { login } } subject { id }"
    for _ in range(2):
        told = await asking.write("addReaction", {"subjectId": pull, "content": "EYES"}, asks=asks)
    assert told["data"]["addReaction"]["reaction"] == {"content": "EYES", "user": {"login": "acme"}}
    item = (await hub.holdings()).items[number]
    assert (item.labels, item.assignees, item.reviewers) == (("bug",), ("wanda",), ("wanda",))
    assert [(one.login, one.content) for one in item.reactions] == [("acme", "eyes")]
    await asking.write("removeAssigneesFromAssignable", {"assignableId": pull, "assigneeIds": [user]})
    await asking.write("removeLabelsFromLabelable", {"labelableId": pull, "labelIds": [node_id("Label", bug.id)]})
    await asking.write("requestReviewsByLogin", {"pullRequestId": pull, "userLogins": []})
    item = (await hub.holdings()).items[number]
    assert (item.labels, item.assignees, item.reviewers) == ((), (), ())
    told = await asking.write("requestReviews", {"pullRequestId": pull, "userIds": [node_id("User", "acme")]})
    assert told["errors"][0]["message"] == "Review cannot be requested from pull request author."
    said = {"pullRequestId": pull, "event": "COMMENT", "threads": [{"path": "a.txt", "line": 1, "body": "why?"}]}
    asks = "pullRequestReview { state comments(first: 1) { nodes { path line body } } }"
    told = await asking.write("addPullRequestReview", said, asks=asks, login="wanda")
    assert told["data"]["addPullRequestReview"]["pullRequestReview"]["comments"]["nodes"] == [
        {"path": "a.txt", "line": 1, "body": "why?"}
    ]
    await asking.write("deleteRef", {"refId": node_id("Ref", "refs/heads/feat")})
    held = await hub.holdings()
    assert "refs/heads/feat" not in held.refs and held.items[number].state == "closed"
    told = await asking.write("deleteRef", {"refId": node_id("Ref", "refs/heads/main")})
    assert told["errors"][0]["message"] == "Cannot delete the default branch"


def everything(kind: GraphQLObjectType, depth: int) -> str:
    """A selection of every field of a type, so far down."""
    chosen = ["__typename"]
    for name, field in kind.fields.items():
        below = get_named_type(field.type)
        if any(is_required_argument(one) for one in field.args.values()):
            continue
        bounds = "(first: 2)" if "first" in field.args else ""
        if is_leaf_type(below):
            chosen.append(name)
        elif is_composite_type(below) and depth:
            possible = [below] if isinstance(below, GraphQLObjectType) else schema().get_possible_types(below)
            inner = " ".join(f"... on {one.name} {{ {everything(one, depth - 1)} }}" for one in possible)
            chosen.append(f"{name}{bounds} {{ {inner} }}")
    return " ".join(chosen)


async def test_every_field_of_the_schema_has_an_answer(asking: Asking) -> None:
    number = await proposed(asking)
    hub, wanda = asking.hub, asking.people["wanda"]
    await hub.make_label(wanda, "bug")
    issue = await hub.open_issue(wanda, title="One", body=f"see #{number}", labels=("bug",))
    for target in (issue.number, number):
        await hub.remark(wanda, target, "hello")
        await hub.assign(wanda, target, add=("wanda",))
        await hub.react(wanda, "heart", number=target)
    await hub.ask_for_review(asking.people["acme"], number, ("rita",))
    said = {"pullRequestId": node_id("PullRequest", number), "event": "APPROVE"}
    said["threads"] = [{"path": "a.txt", "line": 1, "body": "nice"}]
    await asking.write("addPullRequestReview", said, login="wanda")
    head = (await hub.holdings()).items[number].head_commit
    await hub.report(head, "build", conclusion="success")
    await hub.set_status(head, "lint", status="queued")
    told = []
    for name in ("Repository", "Issue", "PullRequest", "User", "CheckRun", "PullRequestReview", "IssueComment"):
        kind = schema().type_map[name]
        assert isinstance(kind, GraphQLObjectType)
        ids = {
            "Repository": node_id("Repository", "acme/widget"),
            "Issue": node_id("Issue", issue.number),
            "PullRequest": node_id("PullRequest", number),
            "User": node_id("User", "wanda"),
            "CheckRun": node_id("CheckRun", (await hub.holdings()).checks[head][0].id),
            "PullRequestReview": node_id("PullRequestReview", (await hub.holdings()).items[number].reviews[0].id),
            "IssueComment": node_id("IssueComment", (await hub.holdings()).items[number].remarks[0].id),
        }
        one = await asking(f'{{ node(id: "{ids[name]}") {{ ... on {name} {{ {everything(kind, 3)} }} }} }}')
        assert "errors" not in one, (name, one["errors"])
        told.append(json.dumps(one["data"]))
    met = set(re.findall(r'"__typename": "(\w+)"', " ".join(told)))
    objects = {one.name for one in schema().type_map.values() if isinstance(one, GraphQLObjectType)}
    never = {name for name in objects if name.startswith("__") or name.endswith(("Payload", "Edge"))}
    # Nobody here is a bot, an organisation, or waits to be merged; only the roots themselves are not inside.
    absent = {"Query", "Mutation", "Bot", "Organization", "AutoMergeRequest", "BranchProtectionRule", "Comparison"}
    assert objects - met - never - absent == {"Reaction", "RefConnection", "SearchResultItemConnection"}


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(schema().type_map["Mutation"].fields)), chosen=st.data())  # type: ignore[attr-defined]
async def test_no_input_breaks_a_write(asking: Asking, name: str, chosen: st.DataObject) -> None:
    fields = schema().type_map[name[0].upper() + name[1:] + "Input"].fields  # type: ignore[attr-defined]
    number = node_id("PullRequest", 1)
    value = HOSTILE | st.sampled_from([number, node_id("Issue", 1), node_id("Repository", "acme/widget")])
    said = chosen.draw(st.fixed_dictionaries(dict.fromkeys(fields, value)))
    told = await asking.write(name, said)
    assert told.get("errors") or told["data"][name]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "{",
        "query A { viewer { login } } query B { viewer { login } }",
        "{ a" * 3000 + "}" * 3000,
        "{ viewer { login } }" + " # ü" * 5,
        "query { ...A } fragment A on Query { ...B } fragment B on Query { ...A }",
        "{ viewer { " + "login " * 30_000 + "} }",
        "subscription { x }",
        "query($x: Nosuch) { viewer { login } }",
        "type X { a: Int }",
        "{ repository(owner: 1, name: {}) { id } }",
    ],
)
async def test_a_strange_query_gets_an_answer(asking: Asking, query: str) -> None:
    told = await asking(query)
    assert told.get("errors") or told["data"]["viewer"] == {"login": "acme"}


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"query": "query($x: String!) { user(login: $x) { id } }", "variables": {"x": "\ud800\0"}}, 200),
        ({"query": "{ viewer { login } }", "variables": None, "operationName": None}, 200),
        ({"query": "{ \ud800 }"}, 200),
        ({}, 200),
        ({"query": 7}, 400),
        ({"query": "{ viewer { login } }", "variables": [1]}, 400),
        ([], 400),
    ],
)
async def test_whatever_is_posted_is_answered_in_json(served: Served, said: Any, status: int) -> None:
    body = json.dumps(said).encode()
    told = await served.client().post(f"{served.url}/api/graphql", content=body)
    assert told.status_code == status
    assert "message" in told.json() or told.json().get("errors") or told.json()["data"]["viewer"]["login"] == "acme"


async def test_a_search_reads_words_phrases_qualifiers_and_parentheses(asking: Asking) -> None:
    hub, people = asking.hub, asking.people
    await hub.make_label(people["wanda"], "good first")
    one = await hub.open_issue(people["wanda"], title="The parser panics", labels=("good first",))
    two = await hub.open_issue(people["rita"], title="Slow", body="The parser, and the printer")
    await hub.set_state(people["acme"], two.number, "closed", reason="not_planned")

    async def found(words: str) -> list[int]:
        search = "search(query: $q, type: ISSUE, first: 9) { issueCount nodes { ... on Issue { number } } }"
        told = await asking(f"query($q: String!) {{ {search} }}", q=words)
        assert told["data"]["search"]["issueCount"] == len(told["data"]["search"]["nodes"])
        return sorted(node["number"] for node in told["data"]["search"]["nodes"])

    both = [one.number, two.number]
    assert await found("parser") == await found("PARSER is:issue repo:acme/widget") == both
    assert await found("parser in:title") == await found("parser -printer") == [one.number]
    assert await found('"the parser, and"') == await found("author:rita") == [two.number]
    assert await found("panics OR printer") == await found("( parser ) AND (panics OR slow)") == both
    assert await found("NOT panics parser") == await found("-label:bug state:closed") == [two.number]
    assert await found('label:"good first"') == await found("no:assignee is:open") == [one.number]
    assert await found('reason:"not planned"') == await found("comments:0 is:closed") == [two.number]
    assert await found("created:>=2020-01-01") == both and await found("created:<2020-01-01") == []
    assert await found("repo:acme/other parser") == await found("is:pr") == await found("") == []
    assert await found("unknown:word") == await found("created:nonsense") == await found('"') == []
    told = await asking('{ search(query: "( parser", type: ISSUE, first: 1) { issueCount } }')
    assert "parenthesis" in told["errors"][0]["message"]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.text() | st.from_regex(r"(\(|\)|-|NOT |OR |AND |is:|created:|\"|\.\.|>|a| ){0,12}", fullmatch=True))
async def test_no_search_breaks(asking: Asking, words: str) -> None:
    await asking("query($q: String!) { search(query: $q, type: ISSUE, first: 1) { issueCount } }", q=words)
