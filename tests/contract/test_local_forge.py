"""What only the local forge does: it lives beside a user's checkout, on this machine, and heals after a crash."""

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.forge_stage import LocalStage, head_change, made, proposed

from resolvent.adapters.forges.local import LocalForge
from resolvent.adapters.forges.local_git import Refs
from resolvent.adapters.forges.local_merging import Merging, merge
from resolvent.adapters.forges.local_schema import SCHEMA
from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Store
from resolvent.domain.change import Change
from resolvent.domain.subject import MergeMethod, PullRequest
from resolvent.errors import ForgeRefused, UsageError

USER = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{role}_{what}": "user" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Checkout:
    """A user's own repository, used with the user's own git."""

    def __init__(self, root: Path, *init: str) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self("init", "--quiet", "--initial-branch=main", *init)

    def __call__(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.root, env=USER, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, name: str = "a.txt", text: str = "one\n") -> str:
        (self.root / name).write_text(text)
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "-m", f"write {name}")
        return self("rev-parse", "HEAD")

    def type(self, line: str) -> None:
        subprocess.run(["sh", "-ec", line], cwd=self.root, env=USER, check=True, capture_output=True)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(f"sqlite:///{tmp_path}/forge.db")
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def forge(store: Store, tmp_path: Path) -> LocalForge:
    return await LocalForge.open(store, tmp_path / "state dir's")


@pytest.fixture
async def stage(store: Store, tmp_path: Path) -> LocalStage:
    return await LocalStage.set(store, tmp_path)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "my work; it's `here`")


async def proposed_on_main(forge: LocalForge, tmp_path: Path, body: str = "") -> PullRequest:
    """An open pull request that adds b.txt to what the forge's main holds."""
    ours = await Git.init_bare(tmp_path / "repo.git")
    tip = await forge.fetch(ours.git_dir, "main")
    change = await made(ours.git_dir, {"b.txt": "b\n"}, Change(commit=tip, tree=tip))
    await forge.push(change, source=ours.git_dir, head="resolvent/issue-1", expect=None)
    return await forge.open_pull_request(head="resolvent/issue-1", base="main", title="Add b", body=body)


# --- sync


async def test_the_first_sync_brings_the_branch_that_head_names(forge: LocalForge, checkout: Checkout) -> None:
    checkout("symbolic-ref", "HEAD", "refs/heads/trunk")
    commit = checkout.commit()
    synced = await forge.sync(checkout.root)
    assert (synced.branch, synced.commit, synced.dirty, synced.behind) == ("trunk", commit, False, False)
    assert (await forge.default_branch(), await forge.head_of("trunk")) == ("trunk", commit)
    assert await forge.head_of("main") is None


async def test_a_checkout_that_is_ahead_fast_forwards_the_forge(forge: LocalForge, checkout: Checkout) -> None:
    checkout.commit()
    await forge.sync(checkout.root)
    newer = checkout.commit(text="two\n")
    assert (await forge.sync(checkout.root)).commit == newer == await forge.head_of("main")
    assert (await forge.sync(checkout.root)).commit == newer


async def test_a_forge_that_is_ahead_stays_and_the_checkout_is_behind(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit()
    await forge.sync(checkout.root)
    pull = await proposed_on_main(forge, tmp_path)
    merged = await forge.merge(pull, expect=head_change(pull))
    synced = await forge.sync(checkout.root)
    assert (synced.commit, synced.behind) == (merged.merge_commit, True)
    assert await forge.head_of("main") == merged.merge_commit


async def test_diverged_histories_are_an_error_whose_hint_typed_as_it_is_heals_them(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit()
    await forge.sync(checkout.root)
    pull = await proposed_on_main(forge, tmp_path)
    merged = await forge.merge(pull, expect=head_change(pull))
    checkout.commit("c.txt")
    with pytest.raises(UsageError, match="diverged") as caught:
        await forge.sync(checkout.root)
    assert await forge.head_of("main") == merged.merge_commit
    checkout.type(caught.value.hint)
    assert (await forge.sync(checkout.root)).commit == checkout("rev-parse", "main")
    assert (checkout.root / "b.txt").exists()


@pytest.mark.spec("F1")
async def test_a_pull_request_the_user_merged_by_hand_reads_as_merged_and_closes_its_issue(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    issue = await forge.create_issue("One", "", author="user")
    checkout.commit()
    await forge.sync(checkout.root)
    pull = await proposed_on_main(forge, tmp_path, body=f"Fixes #{issue.number}")
    checkout.type(f"git fetch {shlex.quote(str(forge.path))} {pull.head} && git merge --quiet FETCH_HEAD")
    await forge.sync(checkout.root)
    assert (await forge.pull_request(pull.url)).state == "merged"
    assert (await forge.issue(issue.url)).state == "closed"


async def test_a_detached_head_or_one_of_our_heads_is_not_taken_for_the_default(
    forge: LocalForge, checkout: Checkout
) -> None:
    first = checkout.commit()
    main = checkout.commit(text="two\n")
    checkout("checkout", "--quiet", "--detach", first)
    assert (await forge.sync(checkout.root)).branch == "main"
    checkout("checkout", "--quiet", "-b", "resolvent/issue-1")
    checkout.commit(text="three\n")
    synced = await forge.sync(checkout.root)
    assert (synced.branch, synced.commit) == ("main", main)
    assert await forge.head_of("resolvent/issue-1") is None


async def test_without_any_usable_branch_the_next_command_is_named(forge: LocalForge, checkout: Checkout) -> None:
    checkout.commit()
    checkout("checkout", "--quiet", "--detach")
    checkout("branch", "--quiet", "--move", "main", "other")
    with pytest.raises(UsageError) as caught:
        await forge.sync(checkout.root)
    checkout.type(caught.value.hint)
    assert (await forge.sync(checkout.root)).branch == "main"


async def test_a_missing_or_empty_repository_is_a_usage_error_and_its_hint_works(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="not a directory") as caught:
        await forge.sync(tmp_path / "absent")
    assert caught.value.hint.startswith("git clone")
    plain = tmp_path / "plain dir"
    plain.mkdir()
    for root, what in ((plain, "not a git repository"), (checkout.root, "no commits")):
        (root / "file").write_text("text")
        with pytest.raises(UsageError, match=what) as caught:
            await forge.sync(root)
        checkout.type(caught.value.hint)
    await forge.sync(checkout.root)


async def test_a_broken_or_shallow_repository_is_a_usage_error_and_changes_nothing(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit()
    checkout.commit(text="two\n")
    checkout.type(f'git clone --quiet --depth 1 "file://$PWD" {tmp_path}/shallow')
    with pytest.raises(UsageError, match="shallow"):
        await forge.sync(tmp_path / "shallow")
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be read"):
        await forge.sync(tmp_path / "broken")
    assert await forge.head_of("main") is None


async def test_a_subdirectory_a_linked_worktree_and_a_bare_repository_are_all_understood(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    commit = checkout.commit()
    below = checkout.root / "some" / "where"
    below.mkdir(parents=True)
    checkout("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    checkout("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    for place in (below, tmp_path / "linked", tmp_path / "bare.git"):
        synced = await forge.sync(place)
        assert (synced.commit, synced.dirty) == (commit, False)
    (tmp_path / "linked" / "a.txt").write_text("changed")
    assert (await forge.sync(tmp_path / "linked")).dirty
    assert not (await forge.sync(checkout.root)).dirty


@pytest.mark.spec("R6")
async def test_a_dirty_tree_is_reported_and_never_an_error(forge: LocalForge, checkout: Checkout) -> None:
    (checkout.root / ".gitignore").write_text("*.log\n")
    commit = checkout.commit()
    (checkout.root / "x.log").write_text("ignored")
    (checkout.root / ".git" / "info" / "exclude").write_text("private\n")
    (checkout.root / "private").write_text("ignored too")
    os.utime(checkout.root / "a.txt", (1, 1))
    assert not (await forge.sync(checkout.root)).dirty
    (checkout.root / "a.txt").write_text("edited\n")
    assert (await forge.sync(checkout.root)).dirty
    checkout("add", "a.txt")
    assert (await forge.sync(checkout.root)).dirty
    checkout("reset", "--quiet", "--hard")
    (checkout.root / "new.txt").write_text("untracked\n")
    assert (await forge.sync(checkout.root)).dirty
    (checkout.root / "new.txt").unlink()
    (checkout.root / "a.txt").unlink()
    synced = await forge.sync(checkout.root)
    assert synced.dirty and synced.commit == commit
    checkout("reset", "--quiet", "--hard")
    (checkout.root / ".git" / "index").write_bytes(b"garbage")
    assert (await forge.sync(checkout.root)).dirty


async def test_nothing_of_the_checkout_runs_or_changes_while_it_is_read(
    forge: LocalForge, checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    checkout.commit()
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    inner = Checkout(checkout.root / "inner")
    (inner.root / ".gitattributes").write_text("* filter=evil\n")
    inner.commit()
    checkout("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.root), "inner")
    checkout.commit()
    inner("config", "filter.evil.clean", str(trap))
    os.utime(inner.root / "a.txt", (1, 1))
    keys = ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.evil.command", "diff.external")
    for key in (*keys, "core.fsmonitor", "uploadpack.packObjectsHook", "core.alternateRefsCommand", "core.pager"):
        checkout("config", key, str(trap))
    hooks = checkout.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc", "update", "post-update"):
        (hooks / hook).symlink_to(trap)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(trap))
    assert not (await forge.sync(checkout.root)).dirty
    (checkout.root / "a.txt").write_text("edited\n")
    before = {path: path.read_bytes() for path in checkout.root.rglob("*") if path.is_file()}
    assert (await forge.sync(checkout.root)).dirty
    assert {path: path.read_bytes() for path in checkout.root.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "sprung").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_checkout_that_belongs_to_someone_else_can_be_read(forge: LocalForge, checkout: Checkout) -> None:
    commit = checkout.commit()
    for path in (checkout.root, *checkout.root.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    assert (await forge.sync(checkout.root)).commit == commit


# --- pull requests and merges


async def test_the_checkout_line_typed_as_it_is_shows_the_pull_request(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit()
    await forge.sync(checkout.root)
    pull = await proposed_on_main(forge, tmp_path)
    checkout.type(forge.fetch_line(pull))
    assert checkout("rev-parse", "HEAD") == pull.head_commit
    assert (checkout.root / "b.txt").read_text() == "b\n"


async def test_the_line_of_a_merged_pull_request_typed_as_it_is_brings_it_into_the_checkout(
    forge: LocalForge, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit()
    await forge.sync(checkout.root)
    pull = await proposed_on_main(forge, tmp_path)
    merged = await forge.merge(pull, expect=head_change(pull), method="squash")
    checkout.type(forge.fetch_line(merged))
    assert checkout("rev-parse", "main") == merged.merge_commit
    assert not (await forge.sync(checkout.root)).behind


async def test_a_crash_between_the_merge_and_its_row_is_healed_by_the_next_who_opens_the_forge(
    stage: LocalStage, store: Store
) -> None:
    issue = await stage.forge.open_issue(title="One", body="")
    pull = await proposed(stage, body=f"Fixes #{issue.number}")
    await merge(Refs(Git(stage.forge.path)), pull, commit=pull.head_commit)
    (row,) = await store.read("SELECT state FROM forge_items WHERE number = :number", number=pull.number)
    assert row["state"] == "open"
    again = await LocalForge.open(store, stage.forge.path.parent)
    assert (await again.issue(issue.url)).state == "closed"
    merged = await again.pull_request(pull.url)
    assert (merged.state, merged.merge_commit) == ("merged", await again.head_of("main"))
    assert await again.merge(pull, expect=head_change(pull)) == merged


async def test_a_base_that_moved_without_its_record_is_recorded_and_not_merged_again(stage: LocalStage) -> None:
    pull = await proposed(stage)
    git = Git(stage.forge.path)
    merged = await stage.forge.merge(pull, expect=head_change(pull))
    await git("update-ref", "-d", f"refs/resolvent/merged/{pull.number}")
    assert (await Refs(git).read())["refs/heads/main"] == merged.merge_commit
    await merge(Refs(git), pull, commit=pull.head_commit)
    assert await stage.forge.pull_request(pull.url) == merged


async def test_merging_the_same_commits_makes_the_same_merge_commit_by_a_fixed_identity(
    stage: LocalStage, store: Store
) -> None:
    pull = await proposed(stage)
    git = Git(stage.forge.path)
    first = await stage.forge.merge(pull, expect=head_change(pull))
    for ref in (f"refs/resolvent/merged/{pull.number}", f"refs/resolvent/last-head/{pull.number}"):
        await git("update-ref", "-d", ref)
    await git("update-ref", "refs/heads/main", stage.base.commit)
    await merge(Refs(git), pull, commit=pull.head_commit)
    assert await stage.forge.head_of("main") == first.merge_commit
    said = (await git("show", "-s", "--format=%an <%ae>|%cn <%ce>|%B", first.merge_commit)).decode()
    us = "Resolvent <resolvent@localhost>"
    assert said.strip() == f"{us}|{us}|Merge pull request #{pull.number} from {pull.head}\n\nChange a"


@pytest.mark.parametrize("method", ["squash", "rebase"])
async def test_squashing_or_rebasing_the_same_commits_makes_the_same_commits(
    stage: LocalStage, method: MergeMethod
) -> None:
    one = await made(stage.source, {"b.txt": "b"}, stage.base)
    two = await made(stage.source, {"b.txt": "bb"}, one)
    await stage.forge.push(two, source=stage.source, head="topic", expect=None)
    pull = await stage.forge.open_pull_request(head="topic", base="main", title="B", body="")
    newer = await made(stage.source, {"c.txt": "c"}, stage.base)
    await stage.forge.push(newer, source=stage.source, head="main", expect=stage.base.commit)
    git = Git(stage.forge.path)
    first = await stage.forge.merge(pull, expect=two, method=method)
    await git("update-ref", "-d", f"refs/resolvent/merged/{pull.number}")
    await git("update-ref", "refs/heads/main", newer.commit)
    await merge(Refs(git), pull, commit=two.commit, how=Merging(method))
    assert await stage.forge.head_of("main") == first.merge_commit


async def test_a_merge_in_a_branch_is_not_rebased_and_what_the_base_has_already_is_left_out(stage: LocalStage) -> None:
    forge = stage.forge
    one = await made(stage.source, {"b.txt": "b"}, stage.base, message="both have it")
    two = await made(stage.source, {"d.txt": "d"}, one, message="only here")
    await forge.push(two, source=stage.source, head="topic", expect=None)
    pull = await forge.open_pull_request(head="topic", base="main", title="B", body="")
    same = await made(stage.source, {"b.txt": "b"}, stage.base, message="the same elsewhere")
    await forge.push(same, source=stage.source, head="main", expect=stage.base.commit)
    merged = await forge.merge(pull, expect=two, method="rebase")
    said = await Git(forge.path)("log", "--format=%s", f"{same.commit}..{merged.merge_commit}")
    assert said == b"only here\n"
    git = Git(stage.source)
    tree = (await git("rev-parse", f"{two.commit}^{{tree}}")).decode().strip()
    mixed = await git("commit-tree", tree, "-p", stage.base.commit, "-p", two.commit, "-m", "x", env=USER)
    change = Change(commit=mixed.decode().strip(), tree=tree)
    await forge.push(change, source=stage.source, head="mixed", expect=None)
    other = await forge.open_pull_request(head="mixed", base="main", title="Mixed", body="")
    with pytest.raises(ForgeRefused, match="2 parents"):
        await forge.merge(other, expect=change, method="rebase")
    assert await forge.head_of("main") == merged.merge_commit


async def test_a_pull_request_whose_branch_was_deleted_is_closed(stage: LocalStage) -> None:
    pull = await proposed(stage)
    await Git(stage.forge.path)("update-ref", "-d", f"refs/heads/{pull.head}")
    assert (await stage.forge.pull_request(pull.url)).state == "closed"
    with pytest.raises(ForgeRefused):
        await stage.forge.merge(pull, expect=head_change(pull))


async def test_a_tree_that_git_calls_dangerous_is_not_accepted(stage: LocalStage) -> None:
    git = Git(stage.source)
    inner = (await git("rev-parse", f"{stage.base.commit}^{{tree}}")).strip()
    tree = await git("mktree", input=b"040000 tree " + inner + b"\t.git\n")
    commit = (await git("commit-tree", tree.decode().strip(), "-m", "x", env=USER)).decode().strip()
    with pytest.raises(ForgeRefused):
        await stage.forge.push(Change(commit=commit, tree=commit), source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") is None


async def test_reviews_name_the_commit_they_are_about(stage: LocalStage) -> None:
    pull = await proposed(stage)
    await stage.forge.review(pull, "ada", verdict="request_changes", body="`no`")
    more = await made(stage.source, {"b.txt": "b"}, head_change(pull))
    await stage.forge.push(more, source=stage.source, head=pull.head, expect=pull.head_commit)
    await stage.forge.review(pull, "bob", verdict="approve")
    read = [(one.author, one.verdict, one.body, one.commit) for one in await stage.forge.reviews(pull)]
    assert read == [("ada", "request_changes", "`no`", pull.head_commit), ("bob", "approve", "", more.commit)]


# --- issues and checks


async def test_issues_are_written_in_anyones_name_labelled_and_closed(forge: LocalForge) -> None:
    one = await forge.create_issue("One", "text", labels=("b", "a"), author="user")
    two = await forge.create_issue("Two", "")
    assert (one.author, one.labels, two.author) == ("user", ("a", "b"), "resolvent")
    for _ in range(2):
        await forge.set_state(one.key, "closed")
    assert [issue.number for issue in await forge.issues()] == [2]
    assert [issue.number for issue in await forge.issues("closed")] == [1]
    assert [issue.number for issue in await forge.issues("all")] == [1, 2]


async def test_somebody_else_writes_to_the_same_forge_in_a_name_of_their_own(stage: LocalStage) -> None:
    forge, ada = stage.forge, stage.forge.acting_as("ada")
    issue = await ada.open_issue(title="One", body="")
    await ada.comment(issue.key, "mine")
    await ada.react(issue.key, "+1")
    await forge.comment(issue.key, "ours")
    assert (issue.author, await ada.login(), await forge.login()) == ("ada", "ada", "resolvent")
    assert [comment.author for comment in await forge.comments(issue.key)] == ["ada", "resolvent"]
    assert await stage.reactions(issue.key) == (("ada", "+1"),)
    assert await ada.trusted() == ("ada", "maintainer")
    assert [await ada.permission(login) for login in ("resolvent", "maintainer", "ada")] == ["admin", "write", "none"]
    with pytest.raises(ForgeRefused):
        forge.acting_as(" ")


async def test_a_claim_that_another_program_wrote_is_understood_and_given_back_by_its_holder(stage: LocalStage) -> None:
    git = Git(stage.forge.path)
    tree = (await git("rev-parse", f"{stage.base.commit}^{{tree}}")).decode().strip()
    said = (await git("commit-tree", tree, "-m", "host-b", env=USER)).decode().strip()
    await git("update-ref", "refs/resolvent/claims/issue-1", said)
    assert await stage.forge.claim("issue-1", "host-a") == "host-b"
    await stage.forge.release("issue-1", "host-a")
    assert await stage.forge.claim("issue-1", "host-a") == "host-b"
    await stage.forge.release("issue-1", "host-b")
    assert await stage.forge.claim("issue-1", "host-a") == "host-a"


OLD_ROWS = """
INSERT INTO forge_items (kind, title, body, author) VALUES ('issue', 'Old', 'words', 'ada')
INSERT INTO forge_items (kind, title, body, author, state) VALUES ('issue', 'Older', '', 'ada', 'closed')
INSERT INTO forge_items (kind, title, body, author, head, base) VALUES ('pull', 'P', '', 'ada', 'topic', 'main')
INSERT INTO forge_labels (number, name) VALUES (1, 'bug')
INSERT INTO forge_comments (number, author, body) VALUES (1, 'bob', 'said')
INSERT INTO forge_reviews (number, author, verdict, body, on_commit) VALUES (3, 'bob', 'approve', '', 'abc')
INSERT INTO forge_required (name) VALUES ('build')
INSERT INTO forge_required (name) VALUES ('lint')
INSERT INTO forge_checks (on_commit, name, state, log) VALUES ('abc', 'build', 'failed', 'broken')
INSERT INTO forge_checks (on_commit, name, state, log) VALUES ('abc', 'lint', 'pending', '')
INSERT INTO forge_reruns (on_commit, name) VALUES ('abc', 'lint')
"""


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_what_an_older_version_wrote_is_read_as_it_was_meant(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = await Store.open(request.getfixturevalue(f"{database}_url"))
    await store.migrate("forge", SCHEMA[:1])
    for line in OLD_ROWS.strip().splitlines():
        await store.write(line)
    forge = await LocalForge.open(store, tmp_path / "state")
    old, older = await forge.issues("all")
    assert (old.title, old.labels, old.state, older.state) == ("Old", ("bug",), "open", "closed")
    assert [(one.author, one.body, one.target) for one in await forge.comments("issue-1")] == [("bob", "said", old.key)]
    build, lint = await forge.required_checks("abc")
    assert (build.state, build.log, build.attempt) == ("failed", "broken", 1)
    assert (lint.state, lint.attempt) == ("pending", 2)
    asked = await anext(forge.reruns())
    assert (asked.name, asked.commit) == ("lint", "abc")
    await forge.report_check("abc", "lint", state="passed")
    assert [check.state for check in await forge.required_checks("abc")] == ["failed", "passed"]
    (pull,) = await forge.pull_requests()
    assert [one.author for one in await forge.reviews(pull)] == ["bob"]
    assert (await forge.open_issue(title="New", body="", labels=("bug",))).number == 4
    await store.close()


async def test_a_report_by_another_process_wakes_who_waits(stage: LocalStage, tmp_path: Path) -> None:
    await stage.forge.require_check("build")
    script = """
import asyncio, sys
from pathlib import Path
from resolvent.adapters.forges.local import LocalForge
from resolvent.adapters.journal.store import Store

async def report(url, directory, commit):
    store = await Store.open(url)
    forge = await LocalForge.open(store, Path(directory))
    await forge.report_check(commit, "build", state="passed", log="from elsewhere")
    await store.close()

asyncio.run(report(*sys.argv[1:]))
"""
    where = (f"sqlite:///{tmp_path}/forge.db", str(stage.forge.path.parent), stage.base.commit)
    with subprocess.Popen([sys.executable, "-c", script, *where]) as other:
        (check,) = await stage.forge.await_checks(stage.base.commit, timeout_s=60)
    assert (check.state, check.log, other.returncode) == ("passed", "from elsewhere", 0)


async def test_a_check_that_is_no_longer_required_releases_who_waits(stage: LocalStage) -> None:
    await stage.forge.require_check("build")
    assert len(await stage.forge.required_checks(stage.base.commit)) == 1
    await stage.forge.unrequire_check("build")
    assert await stage.forge.await_checks(stage.base.commit, timeout_s=60) == ()


@pytest.mark.spec("F1")
async def test_what_was_written_is_there_after_the_forge_is_opened_again(stage: LocalStage, tmp_path: Path) -> None:
    issue = await stage.forge.open_issue(title="One", body="")
    pull = await proposed(stage)
    store = await Store.open(f"sqlite:///{tmp_path}/forge.db")
    again = await LocalForge.open(store, stage.forge.path.parent, login="other")
    assert (await again.issue("1"), await again.pull_request("2")) == (issue, pull)
    assert await again.login() == "other"
    await store.close()
