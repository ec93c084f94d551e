"""The rest of real `gh`, old and new: api, auth, labels, the repository, and git with gh's credentials."""

import json
import shlex
from collections.abc import AsyncIterator

import pytest
from tests.forge_server.gh_stage import PROGRAMS, PUBLIC, REPO, Gh, number_in
from tests.forge_server.gh_unknown import known_here
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.forge_server.graphql import pruned
from resolvent.forge_server.hub import Proposal


@pytest.fixture(params=PROGRAMS)
async def gh(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Gh]:
    ready = await Gh.ready(served, request.param)
    yield ready
    assert set(pruned(served.hub)) <= known_here(ready)


async def test_api_reads_and_writes_by_rest_and_graphql(gh: Gh) -> None:
    assert (await gh("api", "user", "--jq", ".login", login="wanda")).strip() == "wanda"
    await gh("api", f"repos/{REPO}/issues", "-f", "title=By REST", "-f", "body=b")
    (number,) = (await gh.served.hub.holdings()).items
    assert (await gh.item(number)).title == "By REST"
    asked = "query($owner: String!, $name: String!) { repository(owner: $owner, name: $name) { id isArchived } }"
    words = ("-f", f"query={asked}", "-f", f"owner={OWNER}", "-f", f"name={NAME}", "--jq", ".data.repository.id")
    repository = (await gh("api", "graphql", *words)).strip()
    write = 'mutation($id: ID!) { createIssue(input: {repositoryId: $id, title: "By GraphQL"}) { issue { number } } }'
    made = json.loads(await gh("api", "graphql", "-f", f"query={write}", "-f", f"id={repository}"))
    assert (await gh.item(made["data"]["createIssue"]["issue"]["number"])).title == "By GraphQL"
    absent = '{ repository(owner: "acme", name: "nosuch") { id } }'
    told = await gh("api", "graphql", "-f", f"query={absent}", code=1)
    assert "Could not resolve to a Repository with the name 'acme/nosuch'." in told
    assert "Not Found" in await gh("api", "repos/acme/nosuch", code=1)


async def test_api_follows_every_page(gh: Gh) -> None:
    hub = gh.served.hub
    owner = (await hub.holdings()).accounts[OWNER]
    numbers = [(await hub.open_issue(owner, title=f"number {nth}")).number for nth in range(7)]
    listed = await gh("api", f"repos/{REPO}/issues?per_page=3", "--paginate", "--jq", ".[].number")
    assert [int(line) for line in listed.split()] == numbers[::-1]
    asked = """query($endCursor: String) { repository(owner: "acme", name: "widget") {
        issues(first: 3, after: $endCursor) { nodes { number } pageInfo { hasNextPage endCursor } } } }"""
    words = ("--paginate", "--jq", ".data.repository.issues.nodes[].number")
    told = await gh("api", "graphql", "-f", f"query={asked}", *words)
    assert [int(line) for line in told.split()] == numbers


async def test_auth_status_names_who_it_is_and_a_wrong_token_is_nobody(gh: Gh) -> None:
    ended = await gh.served.run(gh.program, "auth", "status", cwd=gh.work, login="wanda")
    assert ended.code == 0 and "wanda" in ended.out + ended.err
    told = await gh("auth", "status", code=1, env={"GH_TOKEN": "ghp_nobody"})
    assert "github.com" in told and "ghp_nobody" not in told
    refused = await gh("issue", "list", code=1, env={"GH_TOKEN": "ghp_nobody"})
    assert "401" in refused


async def test_git_pushes_and_clones_with_the_credentials_of_gh(gh: Gh) -> None:
    helper = f"!{shlex.quote(gh.program)} auth git-credential"
    (gh.served.home / ".gitconfig").unlink()
    await gh.git("config", "--global", "credential.https://github.com.helper", helper)
    head = await gh.branch("feat/🦀")
    assert (await gh.served.hub.holdings()).refs["refs/heads/feat/🦀"] == head
    await gh("repo", "clone", REPO, "other")
    assert (gh.work / "other" / "a.txt").read_text() == "one\n"
    for login, token in (("rita", gh.served.tokens["rita"]), (OWNER, "ghp_nobody")):
        words = ("push", "origin", "HEAD:sly")
        ended = await gh.served.run("git", *words, cwd=gh.work, login=login, env={"GH_TOKEN": token})
        assert ended.code != 0 and token not in ended.out + ended.err
    assert "refs/heads/sly" not in (await gh.served.hub.holdings()).refs


async def test_labels_are_made_and_listed(gh: Gh) -> None:
    await gh("label", "create", "needs work", "--color", "ff0000", "--description", "not yet")
    label = (await gh.served.hub.holdings()).labels["needs work"]
    assert (label.color, label.description) == ("ff0000", "not yet")
    assert "already exists" in await gh("label", "create", "needs work", code=1)
    await gh("label", "create", "needs work", "--force", "--color", "00ff00")
    assert (await gh.served.hub.holdings()).labels["needs work"].color == "00ff00"
    listed = await gh.read("label", "list")
    assert "needs work" in [one["name"] for one in listed]
    assert [one["name"] for one in await gh.read("label", "list", "--search", "work", fields="name")] == ["needs work"]


async def test_the_repository_is_told_of(gh: Gh) -> None:
    assert REPO in await gh("repo", "view")
    told = await gh.read("repo", "view", REPO)
    assert (told["nameWithOwner"], told["url"], told["isArchived"]) == (REPO, PUBLIC, False)
    assert (told["defaultBranchRef"]["name"], told["viewerPermission"]) == ("main", "ADMIN")
    assert (await gh.read("repo", "view", REPO, fields="viewerPermission", login="rita"))["viewerPermission"] == "READ"
    listed = json.loads(await gh("repo", "list", OWNER, "--json", "nameWithOwner"))
    assert listed == [{"nameWithOwner": REPO}]
    assert "Could not resolve to a Repository" in await gh("repo", "view", "acme/nosuch", code=1)


async def test_a_search_finds_pull_requests_too(gh: Gh) -> None:
    await gh.branch("feat")
    number = number_in(await gh("pr", "create", "--title", "Parse faster", "--body", "b"))
    await gh("issue", "create", "--title", "Parse slower", "--body", "b")
    (found,) = json.loads(await gh("search", "prs", "parse", "--repo", REPO, "--json", "number,title,state"))
    assert found == {"number": number, "title": "Parse faster", "state": "open"}
    told = await gh.read("search", "issues", "parse slower")
    assert [one["title"] for one in told] == ["Parse slower"]


async def test_as_an_enterprise_it_is_asked_first_what_it_can_do(gh: Gh) -> None:
    host = gh.served.url.removeprefix("https://")
    env = {"GH_HOST": host, "GH_ENTERPRISE_TOKEN": gh.served.tokens["wanda"], "GH_REPO": f"{host}/{REPO}"}
    url = await gh("issue", "create", "--title", "From inside", "--body", "b", env=env)
    number = number_in(url)
    assert url.strip() == f"https://{host}/{REPO}/issues/{number}"
    await gh("issue", "close", str(number), "--reason", "not planned", env=env)
    item = await gh.item(number)
    assert (item.author, item.state, item.reason) == ("wanda", "closed", "not_planned")
    fields = "number,state,author"
    (told,) = json.loads(await gh("issue", "list", "--state", "closed", "--json", fields, env=env))
    assert (told["number"], told["state"], told["author"]["login"]) == (number, "CLOSED", "wanda")
    head = await gh.branch("feat")
    # To make one, gh looks for a remote of that host, and an old one never finds a host with a port.
    owner = (await gh.served.hub.holdings()).accounts[OWNER]
    pull = (await gh.served.hub.open_pull(owner, Proposal("feat", "main", "T", "b"))).number
    await gh.served.hub.report(head, "build", conclusion="success")
    assert "build\tpass" in await gh("pr", "checks", str(pull), env=env)
    await gh("pr", "merge", str(pull), "--squash", env=env)
    assert (await gh.item(pull)).state == "merged"
