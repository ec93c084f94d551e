"""Git to and from GitHub: what others can see of the token, whose configuration counts, and what is not believed."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.forge_stage import WHO, made
from tests.contract.github_stage import GitHubStage

from resolvent.adapters.git import Git
from resolvent.domain.subject import Synced
from resolvent.errors import ForgeDown, ForgeRefused, HeadMoved, NotFound, UsageError


@pytest.fixture
async def stage(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GitHubStage]:
    async with GitHubStage.set(tmp_path, certified=tmp_path_factory.getbasetemp() / "certified") as stage:
        yield stage


def command_lines() -> list[bytes]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.spec("F9")
async def test_while_git_pushes_nobody_sees_the_token_in_a_command_line(stage: GitHubStage) -> None:
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    stage.goes_wrong("slow", path="git-receive-pack")
    pushing = asyncio.create_task(stage.forge.push(change, source=stage.source, head="topic", expect=None))
    await stage.served.faults.until_held()
    seen = command_lines()
    stage.served.faults.clear()
    await pushing
    assert any(b"git\0" in line and b"push" in line and change.commit.encode() in line for line in seen)
    token = stage.place.token.encode()
    for secret in (token, base64.b64encode(b"x-access-token:" + token)):
        assert not [line for line in seen if secret in line]
    stored = [file for file in stage.source.rglob("*") if file.is_file() and token in file.read_bytes()]
    assert stored == []


async def test_the_environment_of_this_process_has_no_say(stage: GitHubStage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    monkeypatch.setenv("GIT_SSL_CAINFO", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.https://127.0.0.1:9/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", stage.served.url)
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await stage.forge.push(change, source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") == change.commit
    assert os.environ["GIT_CONFIG_COUNT"] == "1"


async def test_a_push_whose_answer_is_lost_is_found_done(stage: GitHubStage) -> None:
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    stage.goes_wrong("lost", method="POST", path="git-receive-pack", times=1)
    await stage.forge.push(change, source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") == change.commit


async def test_a_push_that_did_not_arrive_is_a_forge_that_is_down_and_may_be_tried_again(stage: GitHubStage) -> None:
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    for fault in ({"kind": "cut"}, {"kind": "error", "status": 502}):
        stage.goes_wrong(**fault, path="git-receive-pack")
        with pytest.raises(ForgeDown):
            await stage.forge.push(change, source=stage.source, head="topic", expect=None)
        stage.served.faults.clear()
    await stage.forge.push(change, source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") == change.commit


async def test_a_fetch_that_is_cut_leaves_nothing_and_may_be_tried_again(stage: GitHubStage, tmp_path: Path) -> None:
    ours = await Git.init_bare(tmp_path / "ours.git")
    stage.goes_wrong("cut", path="git-upload-pack")
    with pytest.raises(ForgeDown):
        await stage.forge.fetch(ours.git_dir, "main")
    assert await ours("for-each-ref") == b""
    stage.served.faults.clear()
    assert await stage.forge.fetch(ours.git_dir, "main") == stage.base.commit


async def test_what_is_here_already_is_not_fetched_again(stage: GitHubStage, tmp_path: Path) -> None:
    ours = await Git.init_bare(tmp_path / "ours.git")
    await stage.forge.fetch(ours.git_dir, "main")
    before = len(stage.requests())
    assert await stage.forge.fetch(ours.git_dir, "main") == stage.base.commit
    assert not [seen for seen in stage.requests(before) if "upload-pack" in seen.path + seen.query]


async def test_objects_that_would_do_harm_are_not_taken_in(stage: GitHubStage, tmp_path: Path) -> None:
    theirs = Git(stage.hub.forge.path)
    blob = (await theirs("hash-object", "-w", "--stdin", input=b"[core]\n")).decode().strip()
    inner = (await theirs("mktree", input=f"100644 blob {blob}\tconfig\n".encode())).decode().strip()
    # `mktree` would refuse it.
    entry = b"40000 .git\0" + bytes.fromhex(inner)
    tree = (await theirs("hash-object", "-w", "-t", "tree", "--literally", "--stdin", input=entry)).decode().strip()
    commit = (await theirs("commit-tree", tree, "-p", stage.base.commit, "-m", "x", env=WHO)).decode().strip()
    await theirs("update-ref", "refs/heads/evil", commit)
    ours = await Git.init_bare(tmp_path / "ours.git")
    with pytest.raises(ForgeRefused):
        await stage.forge.fetch(ours.git_dir, "evil")
    assert await ours("for-each-ref") == b""


async def test_a_repository_that_is_not_there_is_not_found(stage: GitHubStage, tmp_path: Path) -> None:
    forge = stage.another(repo="acme/nothing")
    with pytest.raises(NotFound):
        await forge.default_branch()
    empty = await Git.init_bare(tmp_path / "empty.git")
    with pytest.raises(NotFound):
        await forge.fetch(empty.git_dir, stage.base.commit)
    with pytest.raises(NotFound):
        await forge.push(stage.base, source=stage.source, head="topic", expect=None)


async def test_a_branch_that_moved_since_is_not_removed(stage: GitHubStage) -> None:
    one = await made(stage.source, {"a.txt": "1"}, stage.base)
    two = await made(stage.source, {"a.txt": "2"}, one)
    await stage.forge.push(one, source=stage.source, head="topic", expect=None)
    stage.goes_wrong("slow", path="git-receive-pack", times=1)
    removing = asyncio.create_task(stage.forge.delete_branch("topic", expect=one.commit))
    await stage.served.faults.until_held()
    await stage.hub.forge.push(two, source=stage.source, head="topic", expect=one.commit)
    stage.served.faults.clear()
    with pytest.raises(HeadMoved):
        await removing
    assert await stage.forge.head_of("topic") == two.commit


# --- the checkout beside it


async def checkout(stage: GitHubStage, place: Path) -> Path:
    """A person's own clone at the base."""
    for args in (("clone", "--quiet", str(stage.hub.forge.path), str(place)), ("-C", str(place), "status")):
        process = await asyncio.create_subprocess_exec("git", *args, stdout=-3, stderr=-3)
        assert await process.wait() == 0
    return place


async def test_the_checkout_is_compared_with_github_and_nothing_is_brought(stage: GitHubStage, tmp_path: Path) -> None:
    place = await checkout(stage, tmp_path / "clone")
    clean = Synced(branch="main", commit=stage.base.commit)
    assert await stage.forge.sync(place) == clean
    (place / "new.txt").write_text("new")
    assert await stage.forge.sync(place) == clean.model_copy(update={"dirty": True})
    (place / "new.txt").unlink()
    (place / "a.txt").write_text("changed")
    assert (await stage.forge.sync(place)).dirty
    (place / "a.txt").write_text("one\n")
    later = await made(stage.source, {"a.txt": "2"}, stage.base)
    await stage.forge.push(later, source=stage.source, head="main", expect=stage.base.commit)
    assert await stage.forge.sync(place) == Synced(branch="main", commit=later.commit, behind=True)


async def test_what_is_staged_but_not_committed_is_work_that_no_commit_has(stage: GitHubStage, tmp_path: Path) -> None:
    place = await checkout(stage, tmp_path / "clone")
    (place / "a.txt").write_text("staged")
    process = await asyncio.create_subprocess_exec("git", "-C", str(place), "add", "a.txt")
    assert await process.wait() == 0
    assert (await stage.forge.sync(place)).dirty


async def test_what_is_no_checkout_is_said(stage: GitHubStage, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        await stage.forge.sync(tmp_path / "absent")
