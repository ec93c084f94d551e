"""Real git over HTTPS: fetch and push, who may, what is refused, and who hears of it."""

import asyncio
import base64
import contextlib
import gzip
import ssl
import stat
import zlib
from pathlib import Path

import pytest
from tests.forge_server.serving import NAME, OWNER, Ended, Served

from resolvent.forge_server import smart_http_pushes
from resolvent.forge_server.holdings import Occurrence
from resolvent.forge_server.hub import Proposal

NONE = "0" * 40
PUBLIC = f"https://github.com/{OWNER}/{NAME}.git"
WORKFLOW = ".github/workflows/ci.yml"
POLL_S = 0.02


async def cloned(served: Served, *, name: str = "clone", login: str | None = OWNER) -> Path:
    """A clone with one commit on `main`, pushed."""
    work = served.home / name
    assert (await served.git("clone", served.clone_url, str(work), login=login)).code == 0
    if not (await served.git("rev-parse", "--verify", "HEAD", cwd=work)).code:
        return work
    await committed(served, work, "a.txt", "one\n")
    assert (await served.git("push", "origin", "HEAD:main", cwd=work)).code == 0
    return work


async def committed(served: Served, work: Path, path: str, text: str | bytes) -> str:
    """The commit that adds or changes a file."""
    file = work / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    await served.git("add", "--all", cwd=work)
    assert (await served.git("commit", "--message", f"change {path}", cwd=work)).code == 0
    return (await served.git("rev-parse", "HEAD", cwd=work)).out.strip()


def heard_by(served: Served) -> list[Occurrence]:
    heard: list[Occurrence] = []

    async def hear(occurrence: Occurrence) -> None:
        heard.append(occurrence)

    served.hub.listen(hear)
    return heard


def refused(ended: Ended, *words: str) -> None:
    assert ended.code != 0
    for word in words:
        assert word in ended.err


@pytest.mark.spec("F10")
async def test_what_is_pushed_can_be_cloned_by_who_may_read(served: Served) -> None:
    work = await cloned(served)
    tip = await committed(served, work, "b.txt", "two\n")
    assert (await served.git("push", "origin", "HEAD:main", cwd=work)).code == 0
    other = served.home / "other"
    assert (await served.git("clone", served.clone_url, str(other), login="rita")).code == 0
    assert (await served.git("rev-parse", "HEAD", cwd=other)).out.strip() == tip
    assert (other / "b.txt").read_text() == "two\n"
    assert (await served.hub.holdings()).refs["refs/heads/main"] == tip


async def test_git_finds_github_dot_com_here_through_the_proxy(served: Served) -> None:
    work = await cloned(served)
    await served.git("remote", "set-url", "origin", PUBLIC, cwd=work)
    tip = await committed(served, work, "b.txt", "two\n")
    ended = await served.git("push", "origin", "HEAD:topic", cwd=work)
    assert ended.code == 0, ended.err
    assert (await served.hub.holdings()).refs["refs/heads/topic"] == tip


async def test_the_protocol_is_the_newest_one(served: Served) -> None:
    await cloned(served)
    helper = '!f() { echo username=x && echo "password=$GH_TOKEN"; }; f'
    asking = ("-c", "protocol.version=2", "-c", f"credential.helper={helper}", "ls-remote", served.clone_url)
    ended = await served.run("git", *asking, env={"GIT_TRACE_PACKET": "1"})
    assert "version 2" in ended.err
    assert "refs/heads/main" in ended.out


async def test_a_pack_larger_than_any_buffer_goes_through_both_ways(served: Served) -> None:
    work = await cloned(served)
    noise = zlib.compress(b"".join(number.to_bytes(8) for number in range(3_000_000)), 1)
    assert len(noise) > 4 << 20
    # A pack that is larger than git's buffer is sent in chunks of no announced length.
    tip = await committed(served, work, "big.bin", noise)
    ended = await served.git("push", "origin", "HEAD:big", cwd=work)
    assert ended.code == 0, ended.err
    other = served.home / "other"
    assert (await served.git("clone", "--branch", "big", served.clone_url, str(other))).code == 0
    assert (await served.git("rev-parse", "HEAD", cwd=other)).out.strip() == tip
    assert (other / "big.bin").read_bytes() == noise


async def test_a_compressed_request_is_understood(served: Served) -> None:
    work = await cloned(served)
    tip = (await served.git("rev-parse", "HEAD", cwd=work)).out.strip()
    wanted = f"0032want {tip}\n00000009done\n".encode()
    headers = {"content-encoding": "gzip", "content-type": "application/x-git-upload-pack-request"}
    answer = await served.client().post(
        f"{served.clone_url}/git-upload-pack", content=gzip.compress(wanted), headers=headers
    )
    assert answer.status_code == 200
    assert answer.content.startswith(b"0008NAK\nPACK")


async def test_a_push_without_a_token_is_asked_for_one(served: Served) -> None:
    answer = await served.client(token="").get(f"{served.clone_url}/info/refs?service=git-receive-pack")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="GitHub"'
    work = await cloned(served)
    await committed(served, work, "b.txt", "two\n")
    refused(await served.git("push", "origin", "HEAD:main", cwd=work, login=None), "could not read Username")


@pytest.mark.parametrize("base", ["", "https://github.com"])
async def test_nothing_is_handed_out_without_a_token(served: Served, base: str) -> None:
    await cloned(served)
    page = f"{base or served.url}/{OWNER}/{NAME}.git"
    refused(await served.git("ls-remote", page, login=None), "could not read Username")
    refused(await served.git("clone", page, str(served.home / "other"), login=None), "could not read Username")
    client = served.client(token="")
    for answer in (
        await client.get(f"{served.clone_url}/info/refs?service=git-upload-pack"),
        await client.post(f"{served.clone_url}/git-upload-pack", content=b"0014command=ls-refs\n0000"),
    ):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="GitHub"'


async def test_a_wrong_token_is_refused_for_pushes_and_for_fetches(served: Served) -> None:
    for service in ("git-receive-pack", "git-upload-pack"):
        answer = await served.client(token="ghp_nobody").get(f"{served.clone_url}/info/refs?service={service}")
        assert answer.status_code == 401
        assert "Invalid username or token" in answer.text


async def test_who_may_only_read_cannot_push(served: Served) -> None:
    work = await cloned(served)
    await committed(served, work, "b.txt", "two\n")
    ended = await served.git("push", "origin", "HEAD:topic", cwd=work, login="rita")
    refused(ended, f"Permission to {OWNER}/{NAME}.git denied to rita.", "403")
    assert "refs/heads/topic" not in (await served.hub.holdings()).refs


async def test_a_token_without_the_scope_cannot_push(served: Served) -> None:
    work = await cloned(served)
    served.tokens["wanda"] = await served.hub.token("wanda", scopes=("read:org",))
    await committed(served, work, "b.txt", "two\n")
    refused(await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda"), "denied to wanda")


async def test_an_archived_repository_takes_no_push(served: Served) -> None:
    work = await cloned(served)
    await served.hub.archive(True)
    await committed(served, work, "b.txt", "two\n")
    refused(
        await served.git("push", "origin", "HEAD:main", cwd=work), "This repository was archived so it is read-only."
    )
    assert (await served.git("fetch", "origin", cwd=work)).code == 0


async def test_another_repository_is_not_found(served: Served) -> None:
    refused(await served.git("ls-remote", f"{served.url}/{OWNER}/other.git"), "Repository not found.")


async def test_a_former_name_leads_to_the_present_one(served: Served) -> None:
    await cloned(served)
    served.serving.backstage.formerly.add("acme/gadget")
    ended = await served.git("ls-remote", f"{served.url}/acme/gadget.git")
    assert ended.code == 0, ended.err
    assert "refs/heads/main" in ended.out


async def test_a_protected_branch_is_pushed_to_by_admins_only(served: Served) -> None:
    work = await cloned(served)
    await served.hub.require(["ci/build"])
    before = (await served.hub.holdings()).refs["refs/heads/main"]
    tip = await committed(served, work, "b.txt", "two\n")
    ended = await served.git("push", "origin", "HEAD:main", "HEAD:topic", cwd=work, login="wanda")
    refused(
        ended,
        "remote: error: GH006: Protected branch update failed for refs/heads/main.",
        'remote: error: Required status check "ci/build" is expected.',
        "! [remote rejected] HEAD -> main (protected branch hook declined)",
        "* [new branch]      HEAD -> topic",
    )
    refs = (await served.hub.holdings()).refs
    assert (refs["refs/heads/main"], refs["refs/heads/topic"]) == (before, tip)
    assert (await served.git("push", "origin", "HEAD:main", cwd=work)).code == 0
    assert (await served.hub.holdings()).refs["refs/heads/main"] == tip


async def test_a_workflow_is_pushed_only_with_the_scope_for_it(served: Served) -> None:
    work = await cloned(served)
    served.tokens["wanda"] = await served.hub.token("wanda", scopes=("repo",))
    await committed(served, work, WORKFLOW, "on: push\n")
    ended = await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda")
    said = f"to create or update workflow `{WORKFLOW}` without `workflow` scope)"
    refused(ended, f"HEAD -> topic (refusing to allow a Personal Access Token {said}")
    assert "refs/heads/topic" not in (await served.hub.holdings()).refs
    served.tokens["wanda"] = await served.hub.token("wanda", scopes=("repo", "workflow"))
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda")).code == 0
    # Nothing of it is new any more, so that who has no such scope can go on from there.
    served.tokens["wanda"] = await served.hub.token("wanda", scopes=("repo",))
    tip = await committed(served, work, "b.txt", "two\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda")).code == 0
    assert (await served.hub.holdings()).refs["refs/heads/topic"] == tip


async def test_the_hook_is_beside_the_forge_and_its_owners_alone(served: Served) -> None:
    await cloned(served)
    hooks = served.hub.forge.path.parent / "hooks"
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in hooks.iterdir()] == [("update", 0o700)]
    assert stat.S_IMODE(hooks.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["mode", "text", "gone"])
async def test_a_hook_that_somebody_damaged_is_mended_before_the_push(served: Served, damage: str) -> None:
    work = await cloned(served)
    hook = served.hub.forge.path.parent / "hooks" / "update"
    if damage == "mode":
        hook.chmod(0o600)
    elif damage == "text":
        hook.write_text("#!/bin/sh\n")
    else:
        hook.unlink()
    await served.hub.require(["ci"])
    await committed(served, work, "b.txt", "two\n")
    refused(await served.git("push", "origin", "HEAD:main", cwd=work, login="wanda"), "GH006")


async def test_a_push_that_no_hook_can_look_at_is_not_taken(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    work = await cloned(served)
    # As where nothing may be run: git goes on without a hook there, and says so to nobody.
    (served.hub.forge.path.parent / "hooks" / "update").unlink()
    monkeypatch.setattr(smart_http_pushes, "OWNERS", 0o600)
    await committed(served, work, "b.txt", "two\n")
    refused(await served.git("push", "origin", "HEAD:topic", cwd=work), "no push is taken", "500")
    assert "refs/heads/topic" not in (await served.hub.holdings()).refs


async def test_what_is_broken_is_not_taken(served: Served) -> None:
    work = await cloned(served)
    blob = (await served.run("git", "hash-object", "-w", "a.txt", cwd=work)).out.strip()
    made = await served.run("sh", "-c", f"printf '100644 blob {blob}\\t.git\\n' | git mktree", cwd=work)
    commit = await served.git("commit-tree", made.out.strip(), "-m", "a trap", cwd=work)
    refused(await served.git("push", "origin", f"{commit.out.strip()}:refs/heads/trap", cwd=work), "hasDotgit")
    assert "refs/heads/trap" not in (await served.hub.holdings()).refs


async def test_a_push_is_heard_of_and_moves_the_pull_request(served: Served) -> None:
    work = await cloned(served)
    first = await committed(served, work, "b.txt", "two\n")
    await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda")
    wanda = (await served.hub.holdings()).accounts["wanda"]
    pull = await served.hub.open_pull(wanda, Proposal(head="topic", base="main", title="Add b"))
    heard = heard_by(served)
    second = await committed(served, work, "c.txt", "three\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work, login="wanda")).code == 0
    told = [(one.kind, one.action, one.by.login) for one in heard]
    assert told == [("push", "", "wanda"), ("pull_request", "synchronize", "wanda")]
    assert (heard[0].ref, heard[0].before, heard[0].after) == ("refs/heads/topic", first, second)
    assert (await served.hub.item(pull.number)).head_commit == second
    assert (await served.git("push", "origin", ":topic", cwd=work)).code == 0
    assert [(one.kind, one.action) for one in heard[2:]] == [("push", ""), ("pull_request", "closed")]
    assert heard[2].after == NONE


async def test_a_push_that_changed_nothing_is_not_heard_of(served: Served) -> None:
    work = await cloned(served)
    heard = heard_by(served)
    assert (await served.git("push", "origin", "HEAD:main", cwd=work)).code == 0
    await served.hub.require(["ci"])
    await committed(served, work, "b.txt", "two\n")
    assert (await served.git("push", "origin", "HEAD:main", cwd=work, login="wanda")).code != 0
    assert heard == []


async def test_the_head_of_a_pull_request_can_be_fetched_by_its_number(served: Served) -> None:
    work = await cloned(served)
    tip = await committed(served, work, "b.txt", "two\n")
    await served.git("push", "origin", "HEAD:topic", cwd=work)
    owner = (await served.hub.holdings()).accounts[OWNER]
    pull = await served.hub.open_pull(owner, Proposal(head="topic", base="main", title="Add b"))
    other = await cloned(served, name="other")
    assert (await served.git("fetch", "origin", f"pull/{pull.number}/head", cwd=other, login="rita")).code == 0
    assert (await served.git("rev-parse", "FETCH_HEAD", cwd=other)).out.strip() == tip
    refused(await served.git("push", "origin", f"HEAD:refs/pull/{pull.number}/head", cwd=work), "hidden ref")


async def test_what_the_forge_keeps_for_itself_is_shown_to_nobody(served: Served) -> None:
    work = await cloned(served)
    await committed(served, work, "b.txt", "two\n")
    await served.git("push", "origin", "HEAD:topic", cwd=work)
    owner = (await served.hub.holdings()).accounts[OWNER]
    pull = await served.hub.open_pull(owner, Proposal(head="topic", base="main", title="Add b"))
    await served.hub.merge(owner, pull.number)
    listed = (await served.git("ls-remote", served.clone_url)).out
    assert f"refs/pull/{pull.number}/head" in listed
    assert "refs/resolvent" not in listed
    ended = await served.git("push", "origin", "HEAD:refs/resolvent/merged/9", cwd=work)
    refused(ended, "hidden ref")


async def test_a_force_push_needs_the_lease_to_be_right(served: Served) -> None:
    work = await cloned(served)
    await served.git("push", "origin", "HEAD:topic", cwd=work)
    await committed(served, work, "b.txt", "two\n")
    ended = await served.git("push", f"--force-with-lease=topic:{NONE}", "origin", "HEAD:topic", cwd=work)
    refused(ended, "stale info")


@pytest.mark.parametrize("path", ["HEAD", "objects/info/packs", "config", "info/refs"])
async def test_files_are_not_handed_out_in_the_old_way(served: Served, path: str) -> None:
    answer = await served.client(token="").get(f"{served.clone_url}/{path}")
    assert answer.status_code in (403, 404)
    assert "git" not in answer.text.lower() or "upgrade" in answer.text


async def test_a_lost_answer_to_a_push_leaves_the_push_done(served: Served) -> None:
    work = await cloned(served)
    tip = await committed(served, work, "b.txt", "two\n")
    served.goes_wrong("lost", method="POST", path="git-receive-pack", times=1)
    before = len(served.requests)
    await served.git("push", "origin", "HEAD:topic", cwd=work)
    assert (await served.hub.holdings()).refs["refs/heads/topic"] == tip
    # curl tries once more by itself on a connection that it had used before; what it then hears is not ours to say.
    assert 0 in [seen.status for seen in served.requests[before:] if seen.path.endswith("/git-receive-pack")]


async def test_pushes_at_the_same_time_are_each_heard_of_once(served: Served) -> None:
    work = await cloned(served)
    heard = heard_by(served)
    names = [f"topic-{number}" for number in range(5)]
    ended = await asyncio.gather(*(served.git("push", "origin", f"HEAD:{name}", cwd=work) for name in names))
    assert [one.code for one in ended] == [0] * len(names)
    assert sorted(one.ref for one in heard) == [f"refs/heads/{name}" for name in names]


async def test_a_client_that_hangs_up_in_the_middle_leaves_nothing_behind(served: Served) -> None:
    work = await cloned(served)
    tip = (await served.git("rev-parse", "HEAD", cwd=work)).out.strip()
    command = f"{NONE} {tip} refs/heads/half\0 report-status\n".encode()
    begun = b"%04x%s0000PACK" % (len(command) + 4, command)
    port = int(served.url.rpartition(":")[2])
    secret = base64.b64encode(f"x:{served.tokens[OWNER]}".encode()).decode()
    trusting = ssl.create_default_context(cafile=served.ca)
    _, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
    head = f"POST /{OWNER}/{NAME}.git/git-receive-pack HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {secret}\r\n"
    kind = "content-type: application/x-git-receive-pack-request\r\ncontent-length: 100000\r\n\r\n"
    writer.write((head + kind).encode() + begun)
    await writer.drain()
    writer.transport.abort()
    assert (await served.git("push", "origin", "HEAD:whole", cwd=work)).code == 0
    refs = (await served.hub.holdings()).refs
    assert "refs/heads/whole" in refs
    assert "refs/heads/half" not in refs
    for _ in range(500):
        if not (left := working_on(served)):
            return
        # Its end is nothing that anybody is told of.
        await asyncio.sleep(POLL_S)
    raise AssertionError(left)


def working_on(served: Served) -> list[str]:
    """The processes of git that serve this forge."""
    wanted, found = f"GIT_PROJECT_ROOT={served.hub.forge.path}".encode(), []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
