"""What real `gh` asks for and this forge has not got is known exactly, for every version."""

import pytest
from tests.forge_server.gh_stage import PROGRAMS, REPO, Gh, number_in
from tests.forge_server.gh_unknown import known_here
from tests.forge_server.serving import OWNER, Served

from resolvent.forge_server.graphql import pruned


@pytest.mark.parametrize("program", PROGRAMS)
async def test_exactly_what_is_known_is_pruned_when_everything_is_asked_for(served: Served, program: str) -> None:
    gh = await Gh.ready(served, program)
    await gh("label", "create", "bug")
    issue = str(number_in(await gh("issue", "create", "--title", "One", "--body", "b")))
    await gh.branch("feat")
    pull = str(number_in(await gh("pr", "create", "--title", "Two", "--body", "b")))
    for command in (
        ("issue", "view", issue),
        ("issue", "list"),
        ("issue", "status"),
        ("pr", "view", pull),
        ("pr", "list"),
        ("pr", "status"),
        ("repo", "view", REPO),
        ("label", "list"),
    ):
        await gh.read(*command)
    await gh("issue", "view", issue, "--comments")
    await gh("issue", "edit", issue, "--milestone", "v1", code=1)
    await gh("issue", "pin", issue, code=1)
    await gh("issue", "delete", issue, "--yes" if gh.new else "--confirm", code=1)
    assert "not currently available" in await gh("issue", "develop", "--list", issue, code=1)
    await gh("pr", "status")
    # A review can be asked of teams, which only organisations have.
    await served.hub.account(OWNER, kind="Organization", permission="admin")
    await gh("pr", "edit", pull, "--add-reviewer", "wanda")
    assert set(pruned(served.hub)) == known_here(gh)
