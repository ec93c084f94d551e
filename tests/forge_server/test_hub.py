"""The hub behind the rehearsal forge: what is written there is held, told of, and refused as GitHub does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.contract.forge_stage import PassingClock, made

from resolvent.adapters.forges.local import LocalForge
from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Store
from resolvent.domain.change import Change
from resolvent.errors import ForgeRefused, HeadMoved, NotFound
from resolvent.forge_server.holdings import Account, Item, Occurrence
from resolvent.forge_server.hub import Hub, Merging, Noted, Opining, Proposal


class Scene:
    """A hub with one commit, four people, and a record of what it told."""

    def __init__(self, hub: Hub, source: Path, base: Change) -> None:
        self.hub = hub
        self.source = source
        self.base = base
        self.people: dict[str, Account] = {}
        self.heard: list[Occurrence] = []
        hub.listen(self._hear)

    async def _hear(self, occurrence: Occurrence) -> None:
        self.heard.append(occurrence)

    def told(self) -> list[str]:
        """What was told since this was last asked, in short."""
        said = [f"{one.kind} {one.action}".strip() for one in self.heard]
        self.heard.clear()
        return said

    async def pushed(self, head: str, text: str = "two\n", *, onto: Change | None = None) -> Change:
        """Somebody pushes a commit as git does: nothing but the ref moves."""
        change = await made(self.source, {"a.txt": text}, onto or self.base)
        to = (str(self.hub.forge.path), f"+{change.commit}:refs/heads/{head}")
        await Git(self.source)("push", "--quiet", *to, env={"GIT_ALLOW_PROTOCOL": "file"})
        return change

    async def proposed(self, head: str = "topic", text: str = "two\n", *, body: str = "") -> Item:
        await self.pushed(head, text)
        return await self.hub.open_pull(self.people["wanda"], Proposal(head, "main", "Change a", body))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    source = (await Git.init_bare(tmp_path / "source.git")).git_dir
    base = await made(source, {"a.txt": "one\n"})
    hub = await Hub.open(tmp_path / "hub", owner="acme", name="widget", clock=PassingClock())
    scene = Scene(hub, source, base)
    await hub.forge.push(base, source=source, head="main", expect=None)
    scene.people["acme"] = (await hub.holdings()).accounts["acme"]
    for login, permission in (("wanda", "write"), ("tina", "triage"), ("rita", "read")):
        scene.people[login] = await hub.account(login, permission=permission)
    try:
        yield scene
    finally:
        await hub.close()


# --- what is held


async def test_nothing_is_read_again_until_something_was_written_or_a_ref_moved(scene: Scene) -> None:
    hub = scene.hub
    first = await hub.holdings()
    assert await hub.holdings() is first
    await hub.open_issue(scene.people["rita"], title="One")
    second = await hub.holdings()
    assert second.version != first.version and await hub.holdings() is second
    pushed = await scene.pushed("topic")
    third = await hub.holdings()
    assert third.version not in (first.version, second.version)
    assert third.refs["refs/heads/topic"] == pushed.commit
    await Git(hub.forge.path)("pack-refs", "--all")
    assert await hub.holdings() is third
    await hub.rename_default("trunk")
    assert (await hub.holdings()).default_branch == "trunk"
    assert await hub.forge.default_branch() == "trunk"


async def test_what_another_process_writes_to_the_same_forge_is_seen(scene: Scene) -> None:
    store = await Store.open(scene.hub.store.url)
    other = await LocalForge.open(store, scene.hub.forge.path.parent)
    await scene.hub.holdings()
    issue = await other.create_issue("From elsewhere", "", labels=("bug",), author="customer")
    held = await scene.hub.holdings()
    assert held.items[issue.number or 0].author == "customer"
    assert (held.accounts["customer"].permission, held.labels["bug"].color) == ("read", "ededed")
    await store.close()


async def test_everything_is_there_after_the_hub_is_opened_again(scene: Scene) -> None:
    hub, wanda = scene.hub, scene.people["wanda"]
    item = await scene.proposed()
    await hub.remark(wanda, item.number, "text")
    await hub.report(item.head_commit, "ci", conclusion="success")
    token = await hub.token("wanda", scopes=("repo",))
    await hub.set_note("hooks", "[]")
    held = await hub.holdings()
    again = await Hub.open(hub.forge.path.parent, owner="acme", name="widget")
    assert await again.holdings() == held
    assert await again.bearer(token) == (wanda, ("repo",))
    assert await again.note("hooks") == "[]"
    await again.close()


# --- accounts and tokens


async def test_a_token_is_known_again_and_kept_nowhere(scene: Scene, tmp_path: Path) -> None:
    hub = scene.hub
    token = await hub.token("rita", scopes=("repo", "read:org"))
    assert await hub.bearer(token) == (scene.people["rita"], ("repo", "read:org"))
    assert await hub.bearer(token[:-1]) is await hub.bearer("") is await hub.bearer("\ud800") is None
    await hub.store.read("SELECT 1 AS one")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "hub").rglob("*") if path.is_file())
    assert token.encode() not in kept
    with pytest.raises(NotFound):
        await hub.token("nobody")


async def test_an_account_keeps_its_number_when_its_permission_changes(scene: Scene) -> None:
    before = scene.people["rita"]
    after = await scene.hub.account("rita", permission="admin")
    assert (after.id, after.permission) == (before.id, "admin")
    assert await scene.hub.forge.permission("rita") == "admin"


# --- who may do what

FORBIDDEN: dict[str, Callable[[Hub, Account, Item], Awaitable[object]]] = {
    "label": lambda hub, by, item: hub.label(by, item.number, add=["x"]),
    "assign": lambda hub, by, item: hub.assign(by, item.number, add=["rita"]),
    "close": lambda hub, by, item: hub.set_state(by, item.number, "closed"),
    "edit": lambda hub, by, item: hub.edit_item(by, item.number, title="Other"),
    "merge": lambda hub, by, item: hub.merge(by, item.number),
    "make a label": lambda hub, by, item: hub.make_label(by, "x"),
    "make ready": lambda hub, by, item: hub.set_draft(by, item.number, True),
    "create a ref": lambda hub, by, item: hub.create_ref(by, "refs/heads/x", item.head_commit),
    "delete a ref": lambda hub, by, item: hub.delete_ref(by, "refs/heads/topic"),
    "commit": lambda hub, by, item: hub.create_commit(by, "x", item.head_commit),
}


@pytest.mark.parametrize("what", FORBIDDEN)
async def test_who_may_only_read_changes_nothing_of_others(scene: Scene, what: str) -> None:
    item = await scene.proposed()
    before = await scene.hub.holdings()
    with pytest.raises(ForgeRefused) as caught:
        await FORBIDDEN[what](scene.hub, scene.people["rita"], item)
    assert caught.value.details["status"] == 403
    assert await scene.hub.holdings() is before


async def test_who_may_only_read_still_reports_comments_reacts_reviews_and_closes_their_own(scene: Scene) -> None:
    hub, rita = scene.hub, scene.people["rita"]
    issue = await hub.open_issue(rita, title="Mine", labels=["ignored"])
    assert issue.labels == ()
    remark = await hub.remark(rita, issue.number, "text")
    assert (await hub.edit_remark(rita, remark.id, "other")).body == "other"
    assert (await hub.react(rita, "heart", remark=remark.id)).content == "heart"
    assert (await hub.set_state(rita, issue.number, "closed", reason="not_planned")).reason == "not_planned"
    pull = await scene.proposed()
    assert (await hub.opine(rita, pull.number, Opining("approve"))).commit == pull.head_commit
    theirs = await hub.remark(scene.people["wanda"], issue.number, "theirs")
    for forbidden in (hub.edit_remark(rita, theirs.id, "no"), hub.delete_remark(rita, theirs.id)):
        with pytest.raises(ForgeRefused):
            await forbidden


async def test_an_archived_repository_takes_nothing_from_anybody(scene: Scene) -> None:
    hub, owner = scene.hub, scene.people["acme"]
    issue = await hub.open_issue(owner, title="One")
    await hub.archive(True)
    for write in (hub.open_issue(owner, title="Two"), hub.remark(owner, issue.number, "text")):
        with pytest.raises(ForgeRefused, match="archived"):
            await write
    await hub.archive(False)
    await hub.remark(owner, issue.number, "text")


# --- what is told


async def test_the_life_of_an_issue_is_told_in_the_words_of_webhooks(scene: Scene) -> None:
    hub, tina = scene.hub, scene.people["tina"]
    issue = await hub.open_issue(tina, title="One", labels=["bug"])
    assert scene.told() == ["issues opened", "issues labeled"]
    await hub.set_labels(tina, issue.number, ["p1"])
    assert [one.label for one in scene.heard] == ["bug", "p1"]
    assert scene.told() == ["issues unlabeled", "issues labeled"]
    await hub.label(tina, issue.number, add=["p1"], remove=["bug"])
    await hub.edit_item(tina, issue.number, title="One")
    await hub.set_state(tina, issue.number, "open")
    assert scene.told() == []
    await hub.edit_item(tina, issue.number, title="Two", body="words")
    await hub.assign(tina, issue.number, add=["rita", "nobody"])
    remark = await hub.remark(tina, issue.number, "text")
    await hub.edit_remark(tina, remark.id, "other")
    await hub.delete_remark(tina, remark.id)
    await hub.set_state(tina, issue.number, "closed")
    last = await hub.set_state(tina, issue.number, "open")
    assert scene.heard[-1].item == last and scene.heard[-1].by == tina
    comments = [f"issue_comment {action}" for action in ("created", "edited", "deleted")]
    assert scene.told() == ["issues edited", "issues assigned", *comments, "issues closed", "issues reopened"]
    assert (last.assignees, last.remarks, last.reason) == (("rita",), (), "reopened")


async def test_the_life_of_a_pull_request_is_told_in_the_words_of_webhooks(scene: Scene) -> None:
    hub, wanda = scene.hub, scene.people["wanda"]
    issue = await hub.open_issue(wanda, title="One")
    pull = await scene.proposed(body=f"Fixes #{issue.number}")
    scene.told()
    await hub.set_draft(wanda, pull.number, True)
    await hub.set_draft(wanda, pull.number, False)
    await hub.ask_for_review(wanda, pull.number, ["rita"])
    assert scene.told() == [
        f"pull_request {action}" for action in ("converted_to_draft", "ready_for_review", "review_requested")
    ]
    review = Opining("request_changes", "no", remarks=[Noted("a.txt", 1, "why?")])
    await hub.opine(scene.people["rita"], pull.number, review)
    assert (await hub.item(pull.number)).reviewers == ()
    before = await hub.holdings()
    change = await scene.pushed("topic", "three\n")
    await hub.pushed(wanda, before.refs)
    await hub.report(change.commit, "ci", status="in_progress")
    await hub.report(change.commit, "ci", conclusion="success")
    await hub.merge(wanda, pull.number, Merging("squash", title="All of it", message="in one"), expect=change.commit)
    assert scene.told() == [
        "pull_request_review submitted",
        "pull_request_review_comment created",
        "push",
        "pull_request synchronize",
        "check_run created",
        "check_run completed",
        "pull_request closed",
        "push",
        "issues closed",
    ]
    merged = await hub.item(pull.number)
    assert (merged.state, merged.merged_by, merged.base_commit) == ("merged", "wanda", scene.base.commit)
    commit = await hub.commit(merged.merge_commit)
    assert commit and commit.message.strip() == "All of it\n\nin one"
    assert (await hub.commits(merged))[0].id == merged.head_commit


async def test_a_push_that_removes_a_head_closes_its_pull_request_and_one_that_brings_it_to_the_base_merges_it(
    scene: Scene,
) -> None:
    hub, wanda = scene.hub, scene.people["wanda"]
    gone, landed = await scene.proposed("gone"), await scene.proposed("landed", "three\n")
    scene.told()
    before = (await hub.holdings()).refs
    git = Git(hub.forge.path)
    await git("update-ref", "-d", "refs/heads/gone")
    await git("update-ref", "refs/heads/main", landed.head_commit)
    await hub.pushed(wanda, before)
    assert sorted(scene.told()) == ["pull_request closed", "pull_request closed", "push", "push"]
    closed, merged = await hub.item(gone.number), await hub.item(landed.number)
    assert (closed.state, closed.head_commit) == ("closed", gone.head_commit)
    assert (merged.state, merged.merged_by) == ("merged", "wanda")


async def test_who_listens_may_write_and_hears_of_that_too(scene: Scene) -> None:
    hub = scene.hub

    async def answer(occurrence: Occurrence) -> None:
        if occurrence.remark and "@bot" in occurrence.remark.body:
            await hub.remark(scene.people["acme"], occurrence.remark.number, "yes?")

    hub.listen(answer)
    issue = await hub.open_issue(scene.people["rita"], title="One")
    await hub.remark(scene.people["rita"], issue.number, "@bot")
    assert [remark.body for remark in (await hub.item(issue.number)).remarks] == ["@bot", "yes?"]
    assert scene.told() == ["issues opened", "issue_comment created", "issue_comment created"]


async def test_every_write_about_an_item_moves_its_time(scene: Scene) -> None:
    hub, wanda = scene.hub, scene.people["wanda"]
    number = (await scene.proposed()).number
    clock = hub.clock
    assert isinstance(clock, PassingClock)
    remark = await hub.remark(wanda, number, "text")
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: hub.edit_item(wanda, number, body="other"),
        lambda: hub.label(wanda, number, add=["bug"]),
        lambda: hub.assign(wanda, number, add=["rita"]),
        lambda: hub.edit_remark(wanda, remark.id, "other"),
        lambda: hub.delete_remark(wanda, remark.id),
        lambda: hub.ask_for_review(wanda, number, ["rita"]),
        lambda: hub.opine(scene.people["tina"], number, Opining("comment", "hm")),
        lambda: hub.set_draft(wanda, number, True),
        lambda: hub.set_state(wanda, number, "closed"),
        lambda: hub.set_state(wanda, number, "open"),
    ]
    for write in writes:
        before = (await hub.item(number)).updated_at
        clock.passed += 10
        await write()
        assert (await hub.item(number)).updated_at >= before + 10
    await hub.label(wanda, number, add=["bug"])
    assert (await hub.item(number)).created_at < before


# --- git


async def test_what_differs_is_told_file_by_file_whatever_they_are_called(scene: Scene) -> None:
    hub = scene.hub
    files = {"gone.txt": "g\n", "old name.txt": "same\n" * 20, "bin": "\0\1", 'ü\t"x".txt': "x\n"}
    one = await made(scene.source, files, scene.base)
    listed = (await Git(scene.source)("ls-tree", "-z", one.commit)).split(b"\0")
    kept = [line.replace(b"old name.txt", b"new name.txt") for line in listed if line and b"gone.txt" not in line]
    await hub.forge.push(one, source=scene.source, head="topic", expect=None)
    wanda = scene.people["wanda"]
    made_tree = await hub.create_tree(wanda, [_entry(line) for line in kept])
    commit = await hub.create_commit(wanda, "moved", made_tree, [one.commit])
    changed = {file.path: file for file in await hub.files(one.commit, commit.id)}
    assert (changed["gone.txt"].status, changed["gone.txt"].removed) == ("removed", 1)
    assert (changed["new name.txt"].status, changed["new name.txt"].previous) == ("renamed", "old name.txt")
    first = {file.path: (file.status, file.added) for file in await hub.files(scene.base.commit, one.commit)}
    assert first["bin"] == ("added", 0) and first['ü\t"x".txt'] == ("added", 1)
    assert await hub.contents(one.commit, 'ü\t"x".txt') == b"x\n"
    assert "rename from old name.txt" in await hub.patch(one.commit, commit.id)
    for nothing in ("", "main", "-x", "0" * 40, scene.base.commit[:10]):
        assert await hub.commit(nothing) is None
        assert await hub.files(nothing, one.commit) == ()
        assert await hub.contents(nothing, "a.txt") is None
    assert await hub.contents(one.commit, "../a.txt") is await hub.contents(one.commit, "") is None


def _entry(line: bytes) -> tuple[str, str, str, str]:
    mode, type, rest = line.decode().split(" ", 2)
    id, name = rest.split("\t", 1)
    return mode, type, id, name


async def test_refs_are_made_moved_forwards_and_removed_and_what_is_ours_to_keep_is_nobodys_to_write(
    scene: Scene,
) -> None:
    hub, wanda = scene.hub, scene.people["wanda"]
    change = await scene.pushed("topic")
    await hub.create_ref(wanda, "refs/heads/other", scene.base.commit)
    with pytest.raises(ForgeRefused, match="already exists"):
        await hub.create_ref(wanda, "refs/heads/other", scene.base.commit)
    await hub.update_ref(wanda, "refs/heads/other", change.commit)
    with pytest.raises(ForgeRefused, match="fast forward"):
        await hub.update_ref(wanda, "refs/heads/other", scene.base.commit)
    await hub.update_ref(wanda, "refs/heads/other", scene.base.commit, force=True)
    await hub.delete_ref(wanda, "refs/heads/other")
    with pytest.raises(ForgeRefused, match="does not exist"):
        await hub.delete_ref(wanda, "refs/heads/other")
    await hub.create_ref(wanda, "refs/resolvent/claims/issue-1", change.commit)
    await hub.create_ref(wanda, "refs/tags/v1", change.commit)
    before = await hub.holdings()
    refused = ["refs/resolvent/merged/1", "HEAD", "refs/heads/", "refs/heads/a..b", "refs/heads/x\ny", "-d", ""]
    for ref in (*refused, "refs/heads/main/under", "refs/heads/\0"):
        with pytest.raises(ForgeRefused):
            await hub.create_ref(wanda, ref, change.commit)
    for commit in ("0" * 40, "main", "", "f" * 40):
        with pytest.raises(ForgeRefused):
            await hub.create_ref(wanda, "refs/heads/new", commit)
    with pytest.raises(ForgeRefused):
        await hub.delete_ref(wanda, "refs/heads/main")
    assert await hub.holdings() is before


async def test_what_cannot_be_merged_says_so_with_githubs_status(scene: Scene) -> None:
    hub, wanda = scene.hub, scene.people["wanda"]
    one, two = await scene.proposed("one", "one way\n"), await scene.proposed("two", "another way\n")
    assert await hub.mergeable(one) and await hub.mergeable(two)
    with pytest.raises(HeadMoved):
        await hub.merge(wanda, two.number, expect=one.head_commit)
    await hub.merge(wanda, one.number)
    assert not await hub.mergeable(await hub.item(two.number))
    for number in (one.number, two.number):
        with pytest.raises(ForgeRefused) as caught:
            await hub.merge(wanda, number)
        assert caught.value.details["status"] == 405
    with pytest.raises(NotFound):
        await hub.merge(wanda, 99)


# --- checks


async def test_a_rerun_is_another_attempt_of_the_same_run_and_the_newest_is_last(scene: Scene) -> None:
    hub, commit = scene.hub, scene.base.commit
    first = await hub.report(commit, "ci", conclusion="failure", log="broken")
    other = await hub.report(commit, "lint", conclusion="skipped")
    again = await hub.rerun(first.id)
    assert (again.run, again.attempt, again.status, again.log) == (first.run, 2, "queued", "")
    await hub.report(commit, "ci", conclusion="success")
    held = (await hub.holdings()).checks[commit]
    assert [(run.name, run.attempt, run.conclusion) for run in held] == [
        ("ci", 1, "failure"),
        ("lint", 1, "skipped"),
        ("ci", 2, "success"),
    ]
    assert other.run != first.run
    status = await hub.set_status(commit, "external", status="in_progress")
    assert (status.run, status.status) == (0, "in_progress")
    await hub.require(["ci", "lint", "external"])
    assert [check.state for check in await hub.forge.required_checks(commit)] == ["passed", "pending", "passed"]
    await hub.require(["ci"])
    assert (await hub.holdings()).required == ("ci",)
    for wrong in ({"status": "done"}, {"conclusion": ""}, {"status": "queued", "conclusion": "success"}):
        with pytest.raises(ForgeRefused):
            await hub.report(commit, "ci", **wrong)
    with pytest.raises(NotFound):
        await hub.rerun(999)


async def test_many_who_write_at_once_lose_nothing(scene: Scene) -> None:
    hub, rita = scene.hub, scene.people["rita"]
    issue = await hub.open_issue(rita, title="One")
    await asyncio.gather(*(hub.remark(rita, issue.number, f"remark {n}") for n in range(10)))
    held = (await hub.item(issue.number)).remarks
    assert {remark.body for remark in held} == {f"remark {n}" for n in range(10)}
    assert len([one for one in scene.told() if one == "issue_comment created"]) == 10
