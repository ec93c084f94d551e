"""The GitHub adapter where GitHub says no, says nothing, says it late, or has moved; over real HTTPS."""

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.forge_stage import head_change, made, proposed
from tests.contract.github_stage import LOGIN, OWNER, REPO, GitHubStage

from resolvent.adapters.forges.github import GitHubForge
from resolvent.adapters.git import Git
from resolvent.domain.subject import Labelling, PullRequest, RequiredCheck
from resolvent.errors import ForgeDown, ForgeRefused, HeadMoved, NotFound, ResolventError, UsageError
from resolvent.forge_server.hub import Merging

WRONG = "ghp_000000000000000000000000000000000000"


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certified")


@pytest.fixture
async def stage(tmp_path: Path, certified: Path) -> AsyncIterator[GitHubStage]:
    async with GitHubStage.set(tmp_path, certified=certified) as stage:
        yield stage


async def refused(work: Awaitable[object], kind: type[ResolventError] = ForgeRefused) -> ResolventError:
    with pytest.raises(kind) as caught:
        await work
    assert caught.value.message and "\n" not in caught.value.message
    return caught.value


# --- opening


def test_importing_the_adapter_imports_nothing_heavy() -> None:
    code = "import sys, resolvent.adapters.forges.github as g; g.GitHubForge(g.GitHubPlace(repo='a/b', token='t'));"
    code += "print(sorted({'githubkit', 'httpx', 'githubkit_schemas'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


async def test_opening_asks_nothing(stage: GitHubStage) -> None:
    await (await GitHubForge.open(stage.place)).close()
    assert stage.requests() == []


# --- who we are


@pytest.mark.spec("F9")
async def test_a_wrong_token_is_refused_with_how_to_make_one_and_is_told_to_nobody(
    stage: GitHubStage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    forge = stage.another(token=WRONG)
    for work in (
        forge.login(),
        forge.issue("1"),
        forge.open_issue(title="T", body=""),
        forge.push(stage.base, source=stage.source, head="topic", expect=None),
    ):
        error = await refused(work)
        assert error.details["auth"] is True and "token" in error.hint
        said = f"{error!r} {error.details} {error.__cause__!r} {error.__cause__} {vars(error.__cause__ or error)}"
        assert WRONG not in said
    assert WRONG not in caplog.text


async def test_a_token_without_the_scope_is_told_which_one_it_lacks(stage: GitHubStage) -> None:
    forge = stage.another(token=await stage.hub.token(LOGIN, scopes=("read:org",)))
    error = await refused(forge.open_issue(title="T", body=""))
    assert error.details["auth"] is True and error.details["scope"] == "repo" and "gh auth refresh" in error.hint


async def test_who_may_only_read_is_told_so_and_nothing_is_written(stage: GitHubStage) -> None:
    await stage.hub.account("reader", permission="read")
    forge = stage.another(token=await stage.hub.token("reader"))
    issue = await stage.forge.open_issue(title="T", body="")
    await refused(forge.label(issue.key, add=("x",)))
    error = await refused(forge.push(stage.base, source=stage.source, head="topic", expect=None))
    assert error.details["auth"] is True
    assert await stage.forge.head_of("topic") is None and (await stage.forge.issue(str(issue.number))).labels == ()


async def test_an_app_is_its_bot_and_is_lent_a_token_it_uses_for_git_too(stage: GitHubStage, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    from resolvent.forge_server.rest.apps import register

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.Encoding.PEM
    private = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    public = key.public_key().public_bytes(form, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    app = await register(stage.hub, "resolver", public_key=public)
    forge = stage.another(token="", app=str(app.id), installation=app.installation, private_key=private)
    assert await forge.login() == "resolver[bot]"
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await forge.push(change, source=stage.source, head="topic", expect=None)
    opened = await forge.open_issue(title="By the App", body="<!-- marker -->")
    assert opened.author == "resolver[bot]"
    assert await forge.search_issues('"<!-- marker -->"') == (opened,)
    lent = [seen for seen in stage.requests() if seen.path.endswith("/access_tokens")]
    assert len(lent) == 1

    wrong = stage.another(token="", app=str(app.id), installation=app.installation + 1, private_key=private)
    error = await refused(wrong.issue("1"), ResolventError)
    assert isinstance(error, ForgeRefused | NotFound)
    unkeyed = stage.another(token="", app=str(app.id), installation=app.installation, private_key="not a key")
    await refused(unkeyed.login(), UsageError)


async def test_it_works_as_github_com_through_a_proxy(stage: GitHubStage, tmp_path: Path) -> None:
    forge = stage.another(api="", proxy=stage.served.proxy)
    issue = await forge.open_issue(title="T", body="")
    assert await forge.issue(str(issue.number)) == issue
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await forge.push(change, source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") == change.commit
    assert await forge.fetch(stage.source, "topic") == change.commit


async def test_a_certificate_nobody_vouches_for_is_refused_with_the_setting_to_change(stage: GitHubStage) -> None:
    forge = stage.another(ca="")
    for work in (forge.login(), forge.required_checks(stage.base.commit)):
        assert "forge.ca" in (await refused(work)).hint
    assert stage.requests() == []


# --- what the repository does not allow


async def test_an_archived_repository_is_read_and_not_written(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    await stage.hub.archive(True)
    assert await stage.forge.issue(str(issue.number)) == issue
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    for work in (
        stage.forge.comment(issue.key, "text"),
        stage.forge.push(change, source=stage.source, head="topic", expect=None),
    ):
        error = await refused(work)
        assert error.details["archived"] is True and "unarchive" in error.hint
    assert await stage.forge.comments(issue.key) == () and await stage.forge.head_of("topic") is None


async def test_a_protected_branch_is_not_pushed_to(stage: GitHubStage) -> None:
    await stage.hub.require(["build"])
    await stage.hub.account("writer", permission="write")
    forge = stage.another(token=await stage.hub.token("writer"))
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    error = await refused(forge.push(change, source=stage.source, head="main", expect=stage.base.commit))
    assert "protected" in error.message.lower() and error.hint and not isinstance(error, HeadMoved)
    assert await stage.forge.head_of("main") == stage.base.commit


async def test_a_workflow_is_not_pushed_by_a_token_that_may_not(stage: GitHubStage) -> None:
    forge = stage.another(token=await stage.hub.token(LOGIN, scopes=("repo",)))
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    tree = await workflow_tree(stage, change.tree)
    error = await refused(forge.push(tree, source=stage.source, head="topic", expect=None))
    assert error.details == {"auth": True, "scope": "workflow"} and error.hint == "gh auth refresh --scopes workflow"


async def workflow_tree(stage: GitHubStage, tree: str):  # type: ignore[no-untyped-def]
    from tests.contract.forge_stage import WHO

    from resolvent.adapters.git import Git
    from resolvent.domain.change import Change

    git = Git(stage.source)
    blob = (await git("hash-object", "-w", "--stdin", input=b"on: push\n")).decode().strip()
    for name in ("ci.yml", "workflows", ".github"):
        entry = f"{'100644 blob' if name == 'ci.yml' else '040000 tree'} {blob}\t{name}\n"
        blob = (await git("mktree", input=entry.encode())).decode().strip()
    commit = await git("commit-tree", blob, "-p", stage.base.commit, "-m", "ci", env=WHO)
    return Change(commit=commit.decode().strip(), tree=blob)


async def test_a_head_that_is_deleted_closes_its_pull_request_and_it_is_not_merged(stage: GitHubStage) -> None:
    pull = await proposed(stage)
    await stage.forge.delete_branch(pull.head, expect=pull.head_commit)
    await refused(stage.forge.merge(pull, expect=head_change(pull)))
    gone = await stage.forge.pull_request(str(pull.number))
    assert (gone.state, gone.head_commit) == ("closed", pull.head_commit)


async def test_a_closed_issue_is_found_closed_and_not_searched(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="unusual", body="")
    await stage.closes(issue.key)
    assert (await stage.forge.issue(str(issue.number))).state == "closed"
    assert await stage.forge.search_issues("unusual") == ()


async def test_the_default_branch_is_the_one_of_this_moment(stage: GitHubStage) -> None:
    assert await stage.forge.default_branch() == "main"
    await stage.hub.rename_default("trunk")
    assert await stage.forge.default_branch() == "trunk"
    assert await stage.forge.head_of("trunk") == stage.base.commit
    assert await stage.forge.required_checks(stage.base.commit) == ()


async def test_reads_follow_a_renamed_repository_and_writes_say_its_new_name(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    said = await stage.forge.comment(issue.key, "text")
    stage.served.backstage.formerly.add("acme/oldname")
    forge = stage.another(repo="acme/oldname")
    assert await forge.issue(str(issue.number)) == await stage.forge.issue(str(issue.number))
    assert await forge.comments(issue.key) == (said,)
    assert await forge.default_branch() == "main"
    error = await refused(forge.comment(issue.key, "other"))
    assert error.details["moved"] is True and error.hint == f'set forge.repo = "{REPO}"'
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await refused(forge.push(change, source=stage.source, head="topic", expect=None))
    assert await forge.fetch(stage.source, "main") == stage.base.commit
    assert await stage.forge.comments(issue.key) == (said,) and await stage.forge.head_of("topic") is None


async def test_an_issue_that_was_transferred_is_not_found_and_nothing_of_the_other_repository_is_ours(
    stage: GitHubStage,
) -> None:
    one, two = [await stage.forge.open_issue(title=title, body="") for title in ("One", "Two")]
    said = await stage.forge.comment(two.key, "text")
    # The same number there, and that of another issue of ours.
    for there in (two.number, one.number):
        assert two.number is not None
        stage.served.backstage.transferred[two.number] = f"acme/other#{there}"
        for work in (
            lambda: stage.forge.issue(str(two.number)),
            lambda: stage.forge.comments(two.key),
            lambda: stage.forge.comment_at(said.url),
            lambda: stage.forge.set_state(two.key, "closed"),
            lambda: stage.forge.label(two.key, add=("x",)),
            lambda: stage.another(cache=None).comments(two.key),
            lambda: stage.another(cache=None).comment(two.key, "more"),
        ):
            assert "acme/widgets" in (await refused(work(), NotFound)).message
        # Where it was known before there is no read that would tell; the write tells itself.
        error = await refused(stage.forge.comment(two.key, "more"))
        assert error.details["moved"] is True and "another repository" in error.message
    stage.served.backstage.transferred.clear()
    assert await stage.forge.comments(two.key) == (said,) and await stage.forge.issue(str(one.number)) == one


async def test_a_pull_request_under_the_former_name_is_read_and_one_of_another_repository_is_not(
    stage: GitHubStage,
) -> None:
    pull = await proposed(stage)
    stage.served.backstage.formerly.add("acme/oldname")
    forge = stage.another(repo="acme/oldname")
    assert await forge.pull_request(str(pull.number)) == pull
    api, ours = forge._api, f"{stage.place.api}/repos/acme/oldname/pulls/{pull.number}"
    there = f"{stage.place.api}/repos/{REPO}/pulls/{pull.number}"
    assert await api._ours(ours, there) and await api._ours(
        ours, there.upper().replace(stage.place.api.upper(), stage.place.api)
    )
    for other in (there.replace("widgets", "widgets2"), f"{stage.place.api}/repositories/1/pulls/{pull.number}"):
        assert not await api._ours(ours, other)


async def test_a_fetch_is_led_to_the_new_name_by_the_api_and_not_by_git(stage: GitHubStage, tmp_path: Path) -> None:
    stage.served.backstage.formerly.add("acme/oldname")
    forge = stage.another(repo="acme/oldname")
    ours = await Git.init_bare(tmp_path / "ours.git")
    assert await forge.fetch(ours.git_dir, "main") == stage.base.commit
    seen = [one.path for one in stage.requests()]
    led = seen.index("/acme/oldname.git/info/refs")
    assert seen[led + 1 :][:3] == ["/api/v3/repos/acme/oldname", f"/api/v3/repos/{REPO}", f"/{REPO}.git/info/refs"]


# --- much, and strange


async def test_a_hundred_pages_are_read_whole_and_in_order(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    owner = await stage.account(OWNER)
    assert issue.number is not None
    for at in range(100):
        await stage.hub.remark(owner, issue.number, f"number {at}")
    forge = GitHubForge(stage.place, page=1)
    before = len(stage.requests())
    assert [one.body for one in await forge.comments(issue.key)] == [f"number {at}" for at in range(100)]
    pages = [seen for seen in stage.requests(before) if seen.path.endswith("/comments")]
    # And once more, in case that one was deleted meanwhile and the next ones moved up; the last one is full, and what
    # was kept of it does not tell whether there is another.
    assert [seen.status for seen in pages] == [200] * 100 + [304] * 100 + [200]
    await forge.close()


async def test_what_comes_after_a_full_page_is_seen_although_that_page_did_not_change(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    forge = GitHubForge(stage.place, page=2)
    for text in ("one", "two"):
        await forge.comment(issue.key, text)
    assert len(await forge.comments(issue.key)) == 2
    await stage.says(OWNER, issue.key, "three")
    assert [one.body for one in await forge.comments(issue.key)] == ["one", "two", "three"]
    await forge.close()


async def test_by_cursor_a_full_last_page_is_the_last_and_what_comes_after_it_later_is_seen(stage: GitHubStage) -> None:
    stage.served.backstage.cursors = True
    forge = GitHubForge(stage.place, page=2)
    for at in range(4):
        await forge.open_issue(title=f"number {at}", body="")
    for new in ([], ["number 4"], ["number 5"]):
        for title in new:
            await stage.forge.open_issue(title=title, body="")
        before = len(stage.requests())
        listed = await forge.issues()
        assert [issue.title for issue in listed] == [f"number {at}" for at in range(len(listed))]
        assert listed[-1].title == (new or ["number 3"])[-1]
        asked = stage.requests(before)
        assert len(asked) <= 5 and {seen.status for seen in asked} <= {200, 304}
        assert all("page=" not in seen.query.replace("per_page=", "") for seen in asked)
    await forge.close()


@pytest.mark.parametrize("listing", ["issues", "pulls", "comments"])
async def test_one_that_leaves_a_listing_between_two_pages_takes_no_other_with_it(
    stage: GitHubStage, listing: str
) -> None:
    forge = GitHubForge(stage.place, page=2)
    owner = await stage.account(OWNER)
    issue = await stage.hub.open_issue(owner, title="T", body="")
    remarks = [await stage.hub.remark(owner, issue.number, f"number {at}") for at in range(5)]
    issues = [issue.number, *[(await stage.hub.open_issue(owner, title="T", body="")).number for _ in range(4)]]
    pulls = [await proposed(stage, f"topic-{at}", text=f"{at}") for at in range(5)]
    reading: dict[str, Callable[[], Awaitable[Any]]] = {
        "issues": forge.issues,
        "pulls": lambda: forge.pull_requests(state="open"),
        "comments": lambda: forge.comments(f"issue-{issue.number}"),
    }
    stage.goes_wrong("slow", path="[?&]page=2", times=1)
    waiting = asyncio.create_task(reading[listing]())
    await stage.served.faults.until_held()
    await stage.hub.set_state(owner, issues[0], "closed")
    await stage.hub.set_state(owner, pulls[-1].number, "closed")
    await stage.hub.delete_remark(owner, remarks[0].id)
    stage.served.faults.clear()
    found = {int(getattr(one, "number", 0) or getattr(one, "id", 0)) for one in await waiting}
    stays = {
        "issues": issues[1:],
        "pulls": [pull.number for pull in pulls[:-1]],
        "comments": [r.id for r in remarks[1:]],
    }
    assert set(stays[listing]) <= found
    await forge.close()


async def test_where_many_issues_are_open_ours_and_others_are_still_found(stage: GitHubStage) -> None:
    owner = await stage.account(OWNER)
    theirs = await stage.hub.open_issue(owner, title="Needle of theirs", body="")
    ours = await stage.forge.open_issue(title="Needle of ours", body="")
    for at in range(101):
        await stage.hub.open_issue(owner, title=f"Hay {at}", body="")
    found = await stage.forge.search_issues("needle")
    assert [issue.number for issue in found] == [theirs.number, ours.number]
    assert any(seen.path.endswith("/search/issues") for seen in stage.requests())


async def test_a_search_takes_nothing_in_its_words_for_a_command(stage: GitHubStage) -> None:
    owner = await stage.account(OWNER)
    closed = await stage.hub.open_issue(owner, title="is:closed repo:other/x 'quoted'", body="")
    for at in range(100):
        await stage.hub.open_issue(owner, title=f"Hay {at}", body="")
    found = await stage.forge.search_issues("is:closed repo:other/x")
    assert [issue.number for issue in found] == [closed.number]
    assert await stage.forge.search_issues('"' + "long " * 2000 + '"') == ()


@pytest.mark.parametrize(
    "text", ["🙂👩‍👩‍👧", "<script>&amp;</script>", "a\u2028b", "%00%2e%2e/", "x" * 65536, "🙂" * 65536]
)
async def test_texts_of_every_kind_come_back_as_they_were(stage: GitHubStage, text: str) -> None:
    issue = await stage.forge.open_issue(title="T", body=text)
    assert (await stage.forge.issue(str(issue.number))).body == text
    assert (await stage.forge.comment(issue.key, text)).body == text


async def test_a_text_longer_than_github_takes_is_not_sent(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    before = len(stage.requests())
    for work in (
        stage.forge.comment(issue.key, "x" * 65537),
        stage.forge.open_issue(title="T", body="x" * 65537),
        stage.forge.open_pull_request(head="a", base="main", title="T", body="x" * 65537),
    ):
        assert "65536" in (await refused(work)).message
    assert len(stage.requests()) == before


@pytest.mark.parametrize("label", ["needs: a/b", "ü 🙂", "100%", "..x", "a?b#c"])
async def test_labels_of_every_kind_are_given_and_taken(stage: GitHubStage, label: str) -> None:
    issue = await stage.forge.open_issue(title="T", body="", labels=("stays",))
    await stage.forge.label(issue.key, add=(label,))
    assert set((await stage.forge.issue(str(issue.number))).labels) == {"stays", label}
    await stage.forge.label(issue.key, remove=(label, "absent", "..", ""))
    assert (await stage.forge.issue(str(issue.number))).labels == ("stays",)


# --- faults


async def test_a_read_is_tried_again_and_a_write_is_not(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    for fault in ({"kind": "error", "status": 502}, {"kind": "cut"}):
        stage.goes_wrong(**fault, method="GET", path="/issues/", times=2)
        assert await stage.forge.issue(str(issue.number)) == issue
        stage.served.faults.clear()
    before = len(stage.requests())
    stage.goes_wrong("error", status=502, method="POST", times=1)
    await refused(stage.forge.comment(issue.key, "text"), ForgeDown)
    assert [seen.status for seen in stage.requests(before) if seen.method == "POST"] == [502]
    assert await stage.forge.comments(issue.key) == ()


async def test_a_forge_that_stays_down_is_down(stage: GitHubStage) -> None:
    stage.goes_wrong("error", status=503)
    for work in (stage.forge.login(), stage.forge.comments("issue-1"), stage.forge.head_of("main")):
        await refused(work, ForgeDown)
    await refused(stage.forge.push(stage.base, source=stage.source, head="t", expect=None), ForgeDown)
    stage.served.faults.clear()
    assert await stage.forge.login() == LOGIN


async def test_an_answer_without_sense_names_the_field(stage: GitHubStage) -> None:
    stage.goes_wrong("malformed", times=1)
    error = await refused(stage.forge.default_branch(), ForgeDown)
    assert "with sense" in error.message and "JSON" in error.message
    # And it was not kept as if it had any.
    assert await stage.forge.default_branch() == "main"


@pytest.mark.spec("F8")
async def test_after_a_secondary_limit_nothing_is_sent_before_its_time(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    stage.goes_wrong("secondary", retry_after=120, method="POST", times=1)
    first = await refused(stage.forge.comment(issue.key, "text"), ForgeDown)
    before = len(stage.requests())
    for work in (stage.forge.issue(str(issue.number)), stage.forge.comment(issue.key, "text")):
        error = await refused(work, ForgeDown)
        assert error.details["until"] == first.details["until"]
    assert len(stage.requests()) == before


async def test_content_that_comes_too_quickly_is_written_later_and_reads_go_on(stage: GitHubStage) -> None:
    pull = await proposed(stage)
    for path in ("/comments", "/graphql"):
        forge = stage.another(cache=None)
        stage.goes_wrong("hasty", method="POST", path=path, times=1)
        began = time.time()
        error = await refused(
            forge.set_draft(pull, True) if path == "/graphql" else forge.comment(pull.key, "text"), ForgeDown
        )
        assert float(str(error.details["until"])) >= began + 60
        before = len(stage.requests())
        await refused(forge.open_issue(title="T", body=""), ForgeDown)
        assert len(stage.requests()) == before
        assert (await forge.pull_request(str(pull.number))).number == pull.number


@pytest.mark.parametrize("kind", ["primary", "secondary"])
async def test_a_limit_that_graphql_tells_with_status_200_holds_for_everybody(stage: GitHubStage, kind: str) -> None:
    pull = await proposed(stage)
    stage.goes_wrong(kind, path="/graphql", retry_after=120, times=1)
    began = time.time()
    error = await refused(stage.forge.set_draft(pull, True), ForgeDown)
    assert [seen.status for seen in stage.requests() if seen.path.endswith("/graphql")] == [200]
    assert float(str(error.details["until"])) >= began + 119
    before = len(stage.requests())
    again = await refused(stage.forge._api.query("{ viewer { login } }", {}), ForgeDown)
    if kind == "secondary":
        await refused(stage.forge.issue("1"), ForgeDown)
    assert again.details["until"] == error.details["until"] and len(stage.requests()) == before


async def test_a_spent_limit_says_until_when(stage: GitHubStage) -> None:
    rate = stage.served.backstage.rates.exhaust(LOGIN)
    error = await refused(stage.forge.default_branch(), ForgeDown)
    assert abs(float(str(error.details["until"])) - rate.reset) < 5
    before = len(stage.requests())
    await refused(stage.forge.open_issue(title="T", body=""), ForgeDown)
    assert len(stage.requests()) == before


@pytest.mark.spec("F8")
async def test_below_the_reserve_a_read_waits_and_a_write_goes(stage: GitHubStage) -> None:
    forge = stage.another(reserve=500, cache=None)
    issue = await forge.open_issue(title="T", body="")
    await forge.comment(issue.key, "first")
    rate = stage.served.backstage.rates.of(LOGIN, "core")
    rate.used = rate.limit - 400
    await forge.comment(issue.key, "second")
    assert "until" in (await refused(forge.issue(str(issue.number)), ForgeDown)).details
    await forge.comment(issue.key, "third")
    rate.used = 0
    assert len(await stage.forge.comments(issue.key)) == 3


async def given(stage: GitHubStage, pull: PullRequest) -> tuple[str, ...]:
    return (await stage.forge.pull_request(str(pull.number))).labels


async def is_(stage: GitHubStage, pull: PullRequest, **said: object) -> bool:
    now = await stage.forge.pull_request(str(pull.number))
    return all(getattr(now, name) == value for name, value in said.items())


Written = Callable[[GitHubStage, PullRequest], Awaitable[object]]
WRITES: dict[str, tuple[str, Written, Callable[[GitHubStage, PullRequest], Awaitable[object]]]] = {
    "open_issue": (
        "POST",
        lambda stage, pull: stage.forge.open_issue(title="New", body="marker"),
        lambda stage, pull: stage.forge.search_issues("marker"),
    ),
    "comment": (
        "POST",
        lambda stage, pull: stage.forge.comment(pull.key, "text"),
        lambda stage, pull: stage.forge.comments(pull.key),
    ),
    "label": (
        "POST",
        lambda stage, pull: stage.forge.label(pull.key, add=("x",)),
        given,
    ),
    "react": (
        "POST",
        lambda stage, pull: stage.forge.react(pull.key, "eyes"),
        lambda stage, pull: stage.reactions(pull.key),
    ),
    "set_state": (
        "PATCH",
        lambda stage, pull: stage.forge.set_state(pull.key, "closed"),
        lambda stage, pull: is_(stage, pull, state="closed"),
    ),
    "set_draft": (
        "POST",
        lambda stage, pull: stage.forge.set_draft(pull, True),
        lambda stage, pull: is_(stage, pull, draft=True),
    ),
    "ask_for_review": (
        "POST",
        lambda stage, pull: stage.forge.ask_for_review(pull, [OWNER]),
        lambda stage, pull: stage.asked(pull),
    ),
    "merge": (
        "PUT",
        lambda stage, pull: stage.forge.merge(pull, expect=head_change(pull)),
        lambda stage, pull: is_(stage, pull, state="merged"),
    ),
}


@pytest.mark.parametrize("verb", WRITES)
async def test_of_a_write_whose_answer_is_lost_we_know_nothing_but_it_is_there(stage: GitHubStage, verb: str) -> None:
    method, write, look = WRITES[verb]
    pull = await proposed(stage)
    assert not await look(stage, pull)
    stage.goes_wrong("lost", method=method, path="api", times=1)
    await refused(write(stage, pull), ForgeDown)
    assert await look(stage, pull)
    # Whoever looks first does not write it twice, and whoever asks again for a state finds it so.
    if verb in ("label", "react", "set_state", "set_draft", "ask_for_review", "merge"):
        await write(stage, pull)
        assert await look(stage, pull)


async def test_an_edit_whose_answer_is_lost_is_there(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    said = await stage.forge.comment(issue.key, "first")
    stage.goes_wrong("lost", method="PATCH", times=1)
    await refused(stage.forge.edit_comment(said, "second"), ForgeDown)
    assert [one.body for one in await stage.forge.comments(issue.key)] == ["second"]


async def test_a_pull_request_whose_answer_is_lost_is_there_and_the_next_try_names_it(stage: GitHubStage) -> None:
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await stage.forge.push(change, source=stage.source, head="topic", expect=None)
    stage.goes_wrong("lost", method="POST", path="/pulls", times=1)
    opening = {"head": "topic", "base": "main", "title": "T", "body": ""}
    await refused(stage.forge.open_pull_request(**opening), ForgeDown)
    (pull,) = await stage.forge.pull_requests(head="topic")
    error = await refused(stage.forge.open_pull_request(**opening))
    assert error.details["number"] == pull.number


async def test_a_branch_that_not_all_of_github_has_heard_of_yet_is_tried_again(stage: GitHubStage) -> None:
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await stage.forge.push(change, source=stage.source, head="topic", expect=None)
    wrong = {"resource": "PullRequest", "field": "head", "code": "invalid"}
    said = {"message": "Validation Failed", "errors": [wrong]}
    stage.goes_wrong("error", status=422, said=said, method="POST", path="/pulls", times=1)
    opening = {"base": "main", "title": "T", "body": ""}
    await refused(stage.forge.open_pull_request(head="topic", **opening), ForgeDown)
    assert (await stage.forge.open_pull_request(head="topic", **opening)).head == "topic"
    await refused(stage.forge.open_pull_request(head="absent", **opening))


@pytest.mark.parametrize("status", [405, 409])
async def test_what_github_does_not_merge_because_it_is_merged_is_merged(stage: GitHubStage, status: int) -> None:
    pull = await proposed(stage)
    stage.goes_wrong("belied", status=status, said={"message": "Pull Request is not mergeable"}, method="PUT", times=1)
    merged = await stage.forge.merge(pull, expect=head_change(pull))
    assert merged.state == "merged" and merged.merge_commit == await stage.forge.head_of("main")


async def test_what_was_merged_meanwhile_at_another_head_is_not_what_was_meant(stage: GitHubStage) -> None:
    pull = await proposed(stage)
    stage.goes_wrong("slow", method="PUT", times=1)
    merging = asyncio.create_task(stage.forge.merge(pull, expect=head_change(pull)))
    await stage.served.faults.until_held()
    more = await made(stage.source, {"a.txt": "3"}, head_change(pull))
    await stage.hub.forge.push(more, source=stage.source, head=pull.head, expect=pull.head_commit)
    await stage.hub.merge(await stage.account(OWNER), pull.number, Merging("merge"), expect=more.commit)
    stage.served.faults.clear()
    await refused(merging, HeadMoved)


async def test_a_claim_whose_answer_is_lost_is_ours_when_asked_again(stage: GitHubStage) -> None:
    stage.goes_wrong("lost", method="POST", path="/git/refs", times=1)
    await refused(stage.forge.claim("issue-1", "host-a"), ForgeDown)
    assert await stage.forge.claim("issue-1", "host-a") == "host-a"
    stage.goes_wrong("lost", method="POST", path="/git-receive-pack", times=1)
    await stage.forge.release("issue-1", "host-a")
    assert await stage.forge.claim("issue-1", "host-b") == "host-b"
    await stage.forge.release("issue-1", "host-a")
    assert await stage.forge.claim("issue-1", "host-c") == "host-b"
    stage.goes_wrong("error", method="POST", path="/git-receive-pack", times=1)
    await refused(stage.forge.release("issue-1", "host-b"), ForgeDown)
    assert await stage.forge.holder("issue-1") == "host-b"


async def test_who_gives_a_claim_back_slowly_does_not_take_away_the_next_one(stage: GitHubStage) -> None:
    await stage.forge.claim("issue-1", "host-a")
    stage.goes_wrong("slow", method="DELETE|POST", path="/git/refs/|/git-receive-pack", times=1)
    releasing = asyncio.create_task(stage.forge.release("issue-1", "host-a"))
    async with asyncio.timeout(30):
        await stage.served.faults.until_held()
        await stage.hub.forge.release("issue-1", "host-a")
        await stage.hub.forge.claim("issue-1", "host-b")
        stage.served.faults.clear()
        await releasing
    assert await stage.forge.holder("issue-1") == "host-b"


async def test_the_events_tell_who_put_a_label_on_last_and_when(stage: GitHubStage) -> None:
    issue = await stage.hub.open_issue(await stage.account(OWNER), title="T", labels=["Bug", "other"])
    target = f"issue-{issue.number}"
    first = await stage.forge.labelling(target, "bug")
    assert (first.by, first.at > 0) == (OWNER, True)
    await stage.hub.account("tri", permission="triage")
    await stage.hub.label(await stage.account("tri"), issue.number, remove=["Bug"])
    assert await stage.forge.labelling(target, "bug") == Labelling()
    stage.later(5)
    await stage.hub.label(await stage.account("tri"), issue.number, add=["Bug"])
    second = await stage.forge.labelling(target, "bug")
    assert (second.by, second.at > first.at) == ("tri", True)
    with pytest.raises(NotFound):
        await stage.forge.labelling("issue-99", "bug")


async def test_a_repository_without_commits_has_no_branch_and_says_what_to_do(stage: GitHubStage) -> None:
    said = {"message": "Git Repository is empty."}
    stage.goes_wrong("error", status=409, said=said, method="GET", path="/git/ref/")
    assert await stage.forge.head_of("main") is None
    with pytest.raises(ForgeRefused, match="has no commits") as error:
        await stage.forge.sync(stage.source)
    assert error.value.hint.startswith("git push ")


async def test_a_label_is_taken_away_although_the_first_answer_is_lost(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="", labels=("x",))
    stage.goes_wrong("lost", method="DELETE", times=1)
    await stage.forge.label(issue.key, remove=("x",))
    assert (await stage.forge.issue(str(issue.number))).labels == ()


# --- what is asked


async def test_what_did_not_change_is_asked_for_again_and_costs_nothing(stage: GitHubStage) -> None:
    issue = await stage.forge.open_issue(title="T", body="")
    await stage.forge.comment(issue.key, "text")
    rate = stage.served.backstage.rates.of(LOGIN, "core")
    await stage.forge.issue(str(issue.number))
    await stage.forge.comments(issue.key)
    before, used = len(stage.requests()), rate.used
    for _ in range(3):
        await stage.forge.issue(str(issue.number))
        await stage.forge.comments(issue.key)
    assert [seen.status for seen in stage.requests(before)] == [304] * 6 and rate.used == used
    # And after a restart, and never without asking.
    again = stage.another()
    await stage.says(OWNER, issue.key, "more")
    before = len(stage.requests())
    assert len(await again.comments(issue.key)) == 2
    await again.comments(issue.key)
    assert 304 in [seen.status for seen in stage.requests(before)]


@pytest.mark.spec("F9")
async def test_the_token_is_in_no_file_of_the_cache(stage: GitHubStage) -> None:
    await stage.forge.login()
    await stage.forge.issues()
    await stage.forge.close()
    assert stage.place.cache is not None
    files = list(stage.place.cache.rglob("*"))
    assert files and all(stage.place.token.encode() not in file.read_bytes() for file in files)


async def test_a_listing_is_not_followed_to_another_server(stage: GitHubStage) -> None:
    forge = stage.forge
    with pytest.raises(ForgeDown, match="elsewhere"):
        forge._api._near("https://evil.example/api/v3/repos/acme/widgets/issues?page=2")


# --- checks


async def test_a_word_of_ci_is_passed_pending_or_failed_as_github_counts_it(stage: GitHubStage) -> None:
    words = {"success": "passed", "neutral": "passed", "skipped": "passed", "failure": "failed", "cancelled": "failed"}
    words |= {"timed_out": "failed", "action_required": "failed", "stale": "failed"}
    await stage.requires(*words, "status", "absent")
    for word in words:
        await stage.hub.report(stage.base.commit, word, status="completed", conclusion=word, log=f"said {word}")
    await stage.hub.set_status(stage.base.commit, "status", status="completed", conclusion="failure", log="in words")
    checks = {check.name: check for check in await stage.forge.required_checks(stage.base.commit)}
    assert {name: check.state for name, check in checks.items()} == words | {"status": "failed", "absent": "pending"}
    assert checks["failure"].log.strip() == "said failure" and not checks["success"].log
    assert "/actions/runs/" in checks["failure"].url
    error = await refused(stage.forge.rerun(checks["status"]))
    assert "status" in error.message
    await refused(stage.forge.rerun(checks["absent"]))


async def test_of_a_long_log_the_end_is_kept(stage: GitHubStage) -> None:
    await stage.requires("build")
    log = "".join(f"\x1b[32mline {at}\x1b[0m\n" for at in range(100_000)) + "the end\n"
    await stage.reports(stage.base.commit, "build", "failed", log=log)
    (check,) = await stage.forge.required_checks(stage.base.commit)
    assert len(check.log) <= 65536 and check.log.endswith("line 99999\nthe end\n") and "\x1b" not in check.log


async def test_who_waits_for_ci_is_woken_by_news(stage: GitHubStage) -> None:
    forge = stage.another(poll_s=3600.0)
    await stage.requires("build")
    looked = asyncio.Event()
    seen, words = forge._checks, forge._checks._words

    async def looking(*asked: Any) -> Any:
        found = await words(*asked)
        looked.set()
        return found

    seen._words = looking  # type: ignore[method-assign]
    waiting = asyncio.create_task(forge.await_checks(stage.base.commit, timeout_s=3600))
    await looked.wait()
    await stage.reports(stage.base.commit, "build", "passed")
    forge.nudge(stage.base.commit)
    async with asyncio.timeout(30):
        assert [check.state for check in await waiting] == ["passed"]


async def test_a_check_that_ci_does_not_let_us_run_again_is_refused(stage: GitHubStage) -> None:
    await stage.requires("build")
    await stage.reports(stage.base.commit, "build", "failed")
    await stage.hub.account("reader", permission="read")
    forge = stage.another(token=await stage.hub.token("reader"))
    (check,) = await forge.required_checks(stage.base.commit)
    await refused(forge.rerun(check))
    with pytest.raises(NotFound):
        await forge.rerun(RequiredCheck(name="x", commit=stage.base.commit, state="failed"))


async def test_news_of_others_do_not_make_the_old_word_of_a_rerun_its_new_one(stage: GitHubStage) -> None:
    await stage.requires("build")
    await stage.reports(stage.base.commit, "build", "failed")
    (check,) = await stage.forge.required_checks(stage.base.commit)
    checks, words, looks = stage.forge._checks, stage.forge._checks._words, 0
    old = await words(stage.base.commit, {"build": frozenset()})

    async def late(*asked: Any) -> Any:
        nonlocal looks
        looks += 1
        checks.nudge(stage.base.commit)
        return old if looks < 100 else await words(*asked)

    checks._words = late  # type: ignore[method-assign]
    await stage.forge.rerun(check)
    assert looks >= 100
