"""What doctor says of GitHub, word for word, on a forge that has each of these faults."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.forges.github_refusals import Answer
from resolvent.cli.doctor import _print
from resolvent.cli.github_probing import github_probes, judged
from resolvent.cli.github_standing import Gh, standing
from resolvent.cli.hook_probing import hooked
from resolvent.forge_server.faults import Fault
from resolvent.testing.rehearsal import TOKEN, Rehearsing, rehearsing
from resolvent.testing.stage import make_project
from resolvent.wiring import Home

SECRET = "HOOK_SECRET"
GH = Path(sys.executable).parent / "gh"


@dataclass
class Clinic:
    """A forge, and doctor's look at it."""

    rehearsal: Rehearsing
    directory: Path
    printed: pytest.CaptureFixture[str]

    def home(self, *overrides: str, **variables: str) -> Home:
        environ = {"HOME": str(self.directory), "RESOLVENT_HOME": str(self.directory / "state")}
        environ |= self.rehearsal.environment | {SECRET: "s3cret"} | variables
        return Home.of(self.directory / "project", environ=environ, overrides=(*self.rehearsal.settings, *overrides))

    async def look(self, *overrides: str, **variables: str) -> str:
        """What doctor prints of the forge."""
        home = self.home(*overrides, **variables)
        try:
            return self.shown(await github_probes(home))
        finally:
            await home.close()

    def shown(self, probes: list[dict[str, Any]]) -> str:
        _print(probes)
        out = self.printed.readouterr().out
        assert self.rehearsal.token not in out and "s3cret" not in out
        return re.sub(r"localhost:\d+", "HOST", out.replace(str(self.directory), "DIR"))

    async def seen(self, *overrides: str) -> Any:
        """The answers of a sound forge, to be changed by a test."""
        home = self.home(*overrides)
        place = home.github_place()
        return place, home, await standing(place, home.clock, hooks=True)


@asynccontextmanager
async def clinic(tmp_path: Path, printed: pytest.CaptureFixture[str]) -> AsyncIterator[Clinic]:
    await make_project(tmp_path / "project", {"value.txt": "bad\n"})
    async with rehearsing(tmp_path / "forge") as rehearsal:
        await rehearsal.held.forge.sync(tmp_path / "project")
        await rehearsal.held.require(["build", "test"])
        yield Clinic(rehearsal, tmp_path, printed)


@pytest.fixture
async def sick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Clinic]:
    async with clinic(tmp_path, capsys) as made:
        yield made


WRONG_TOKEN = """\
 ✗  forge token  HOST does not accept the token in $FORGE_TOKEN_OF_THE_REHEARSAL
     next: export FORGE_TOKEN_OF_THE_REHEARSAL=$(gh auth token --hostname HOST), or make one: https://HOST/settings/personal-access-tokens/new
"""
NO_SCOPE = """\
 ✗  forge token   the token in $FORGE_TOKEN_OF_THE_REHEARSAL lacks the scope repo; it has: read:org
     next: gh auth refresh --hostname HOST --scopes repo,workflow, then: export FORGE_TOKEN_OF_THE_REHEARSAL=$(gh auth token --hostname HOST)
"""  # noqa: E501
NO_WORKFLOW = """\
 ✓  forge token   $FORGE_TOKEN_OF_THE_REHEARSAL, with the scopes repo
 ●  forge token   it lacks the scope workflow: a change to .github/workflows cannot be pushed, even if a person allows it
     next: gh auth refresh --hostname HOST --scopes workflow
"""  # noqa: E501
READER = """\
 ✗  forge role    reader may not push to acme/widgets: it has the role read
     next: an admin types: GH_HOST=HOST gh api --method PUT repos/acme/widgets/collaborators/reader -f permission=push
"""
NO_HOOK = """       nobody listens at 127.0.0.1:1 now
     next: resolvent serve
 ✗  intake hook   acme/widgets has no webhook that ends in /webhook
     next: GH_HOST=HOST gh api repos/acme/widgets/hooks -f name=web -f 'events[]=issues' -f 'events[]=issue_comment' -f 'events[]=pull_request' -f 'events[]=check_run' -f 'events[]=status' -f 'config[url]=https://YOUR-HOST/webhook' -f 'config[content_type]=json' -f "config[secret]=$HOOK_SECRET"
"""  # noqa: E501
WRONG_HOOK = """\
 ✗  intake hook   http://127.0.0.1:1/webhook is switched off
     next: GH_HOST=HOST gh api --method PATCH repos/acme/widgets/hooks/1 -F active=true
 ✗  intake hook   http://127.0.0.1:1/webhook is not signed
     next: GH_HOST=HOST gh api --method PATCH repos/acme/widgets/hooks/1/config -f "secret=$HOOK_SECRET"
 ✗  intake hook   http://127.0.0.1:1/webhook does not send JSON
     next: GH_HOST=HOST gh api --method PATCH repos/acme/widgets/hooks/1/config -f content_type=json
 ✗  intake hook   http://127.0.0.1:1/webhook does not tell of issue_comment, pull_request, check_run, status
     next: GH_HOST=HOST gh api --method PATCH repos/acme/widgets/hooks/1 -f 'add_events[]=issue_comment' -f 'add_events[]=pull_request' -f 'add_events[]=check_run' -f 'add_events[]=status'
 ✗  intake hook   http://127.0.0.1:1/webhook failed: its last delivery was not answered: failed to connect to host
     next: mend it, then: GH_HOST=HOST gh api --method POST repos/acme/widgets/hooks/1/pings
 ●  intake hook   http://127.0.0.1:1/webhook is called without looking at its certificate
     next: GH_HOST=HOST gh api --method PATCH repos/acme/widgets/hooks/1/config -f insecure_ssl=0
"""  # noqa: E501
UNSEEN_HOOKS = """\
 ●  intake hook   the webhooks of the repository cannot be seen with this token
     next: gh auth refresh --hostname HOST --scopes admin:repo_hook, or look there: https://HOST/acme/widgets/settings/hooks
"""
FINE = """\
 ●  forge token  $FORGE_TOKEN_OF_THE_REHEARSAL, fine-grained: it reads what a run needs; what it may write is seen when it writes
     next: see that it has contents: write, issues: write, pull requests: write, checks: read, statuses: read, actions: write: https://HOST/settings/personal-access-tokens
"""  # noqa: E501
SOUND = """\
 ✓  forge         github, https://HOST/acme/widgets as resolvent
 ✓  forge token   $FORGE_TOKEN_OF_THE_REHEARSAL, with the scopes read:org, repo, workflow
 ✓  forge role    resolvent has the role admin
 ✓  forge branch  main: required checks: build, test
 ✓  forge merge   never: people merge what is proven
 ✓  forge limits  4,999 of 5,000 API calls of this hour are left, 500 of them for others
 ✓  intake        the label resolvent or @resolvent by who may write; asked for every 60s while `resolvent serve` runs
"""


async def test_a_sound_forge_is_told_in_full(sick: Clinic) -> None:
    assert await sick.look() == SOUND


async def test_doctor_writes_nothing_to_the_forge(sick: Clinic) -> None:
    await sick.look('intake.listen="127.0.0.1:1"', f'intake.secret="${SECRET}"')
    assert {(seen.method, seen.status < 500) for seen in sick.rehearsal.serving.requests} == {("GET", True)}


async def test_a_token_that_is_not_accepted(sick: Clinic) -> None:
    wrong = {TOKEN: "ghp_wrong"}
    assert await sick.look(**wrong) == WRONG_TOKEN


async def test_a_token_that_is_not_set(sick: Clinic) -> None:
    unset = {TOKEN: ""}
    assert (
        await sick.look(**unset)
        == """\
 ✗  forge  forge.token is read from $FORGE_TOKEN_OF_THE_REHEARSAL, which is not set
     next: export FORGE_TOKEN_OF_THE_REHEARSAL=…
"""
    )


async def test_a_token_without_the_scopes_that_writing_takes(sick: Clinic) -> None:
    narrow = {TOKEN: await sick.rehearsal.held.token("resolvent", scopes=("read:org",))}
    assert NO_SCOPE in await sick.look(**narrow)
    narrow = {TOKEN: await sick.rehearsal.held.token("resolvent", scopes=("repo",))}
    assert NO_WORKFLOW in await sick.look(**narrow)


async def test_a_login_that_may_only_read(sick: Clinic) -> None:
    await sick.rehearsal.held.account("reader", permission="read")
    reading = {TOKEN: await sick.rehearsal.held.token("reader")}
    said = await sick.look(**reading)
    assert READER in said
    assert " ✓  forge branch  main: required checks: build, test\n" in said, "the rules are for everybody to see"


async def test_a_repository_that_is_archived(sick: Clinic) -> None:
    await sick.rehearsal.held.archive(True)
    assert (
        """\
 ✗  forge         acme/widgets is archived: nothing can be written there
     next: gh repo unarchive HOST/acme/widgets
"""
        in await sick.look()
    )


async def test_a_repository_that_is_not_there(sick: Clinic) -> None:
    assert (
        await sick.look('forge.repo="acme/gadgets"')
        == """\
 ✗  forge  acme/gadgets is not there, or this token does not see it
     next: look with your own: gh repo view HOST/acme/gadgets; then add it to the token
"""
    )


async def test_a_repository_that_has_another_name_now(sick: Clinic) -> None:
    sick.rehearsal.serving.backstage.formerly.add("acme/gizmos")
    assert (
        await sick.look('forge.repo="acme/gizmos"')
        == """\
 ✗  forge  acme/gizmos has another name now, and nothing is written to where it was
     next: set forge.repo to what this says: GH_HOST=HOST gh api repos/acme/gizmos --jq .full_name
"""
    )


async def test_a_branch_without_required_checks(sick: Clinic) -> None:
    await sick.rehearsal.held.require([])
    assert (
        """\
 ●  forge branch  main: no required checks, so nothing of CI is waited for
     next: https://HOST/acme/widgets/settings/rules/new?target=branch, or set checks.ci_required = false
"""
        in await sick.look()
    )
    assert " ✓  forge branch  main: no required checks\n" in await sick.look("checks.ci_required=false")


async def test_a_server_whose_certificate_nobody_knows(sick: Clinic) -> None:
    assert (
        await sick.look('forge.ca=""')
        == """\
 ✗  forge  GitHub's certificate is not one we know
     next: set forge.ca = "/path/to/its/ca.pem" if it is a server of your own
"""
    )


async def test_a_server_that_does_not_answer(sick: Clinic) -> None:
    sick.rehearsal.serving.faults.add(Fault(kind="cut"))
    assert re.fullmatch(r" ✗  forge  GitHub gave no answer to /user: \w+\n", await sick.look())


async def test_a_server_that_answers_nonsense(sick: Clinic) -> None:
    sick.rehearsal.serving.faults.add(Fault(kind="error", status=500, path="/user$"))
    assert " ✗  forge token  the token in $FORGE_TOKEN_OF_THE_REHEARSAL does not say whose it is: " in await sick.look()
    sick.rehearsal.serving.faults.clear()
    sick.rehearsal.serving.faults.add(Fault(kind="malformed", path="/rate_limit|/protection|/rules/"))
    said = await sick.look()
    assert "✓  forge role    resolvent has the role admin" in said and "forge limits" not in said


async def test_an_app_is_told_by_its_installation(sick: Clinic) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    from resolvent.forge_server.rest.apps import register

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    public = (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )
    app = await register(sick.rehearsal.held, "helper", public_key=public)
    said = [f'forge.app="{app.id}"', f"forge.installation={app.installation}", 'forge.private_key="$APP_KEY"']
    told = await sick.look('forge.token=""', *said, APP_KEY=private)
    assert " ✓  forge         github, https://HOST/acme/widgets as helper[bot]\n" in told
    assert " ✓  forge token   the App helper, installed on acme/widgets\n" in told
    said[1] = "forge.installation=999"
    assert (
        await sick.look('forge.token=""', *said, APP_KEY=private)
        == f"""\
 ✗  forge token  HOST knows no installation 999 of the App {app.id}, or not by the key in $APP_KEY
     next: look up both numbers and make a new key: https://HOST/settings/apps
"""
    )
    assert "forge.private_key holds no RSA private key" in await sick.look('forge.token=""', *said, APP_KEY="x")


LISTEN = ('intake.listen="127.0.0.1:1"', f'intake.secret="${SECRET}"')


async def test_webhooks_that_nobody_sends(sick: Clinic) -> None:
    assert (await sick.look(*LISTEN)).partition(" ●  intake ")[2] == NO_HOOK


async def test_a_webhook_that_is_wrong_in_every_way(sick: Clinic) -> None:
    hooks = sick.rehearsal.serving.backstage.hooks
    await hooks.add(
        "http://127.0.0.1:1/webhook", events=("issues",), content_type="form", insecure_ssl=True, active=False
    )
    await hooks.idle()
    told = (await sick.look(*LISTEN)).splitlines()
    begun = next(at for at, line in enumerate(told) if "intake hook" in line)
    assert "\n".join(told[begun:]) + "\n" == WRONG_HOOK


@pytest.mark.skipif(not GH.exists(), reason="gh is not in this environment: make agents")
async def test_what_doctor_says_to_type_mends_a_webhook(sick: Clinic) -> None:
    hooks = sick.rehearsal.serving.backstage.hooks
    await hooks.add("http://127.0.0.1:1/webhook", events=("issues",), content_type="form", active=False)
    await hooks.idle()
    home = sick.home(*LISTEN, 'forge.api=""', HTTPS_PROXY=sick.rehearsal.serving.proxy)
    fixes = [probe["fix"] for probe in await github_probes(home) if probe["name"] == "intake hook"]
    mending = [fix for fix in fixes if fix.startswith("gh api ")]
    assert len(mending) == 4, fixes
    environ = {
        "PATH": f"{GH.parent}:/usr/bin:/bin",
        "HOME": str(sick.directory),
        "SSL_CERT_FILE": str(sick.rehearsal.ca),
        "HTTPS_PROXY": sick.rehearsal.serving.proxy,
        "GH_TOKEN": sick.rehearsal.token,
        SECRET: "s3cret",
    }
    script = "set -e\n" + "\n".join(mending)
    process = await asyncio.create_subprocess_exec("bash", "-c", script, env=environ, stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0
    (hook,) = await hooks.all()
    assert (hook.active, hook.content_type, hook.secret) == (True, "json", "s3cret")
    assert set(hook.events) == {"issues", "issue_comment", "pull_request", "check_run", "status"}
    left = [probe["found"] for probe in await github_probes(home) if probe["name"] == "intake hook"]
    assert left == ["http://127.0.0.1:1/webhook failed: its last delivery was not answered: failed to connect to host"]
    await home.close()


async def test_a_webhook_that_reaches_us(sick: Clinic) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        hooks = sick.rehearsal.serving.backstage.hooks
        await hooks.add(f"http://127.0.0.1:{port}/webhook", secret="s3cret", events=("*",))
        await hooks.idle()
        told = await sick.look(f'intake.listen="127.0.0.1:{port}"', f'intake.secret="${SECRET}"')
    assert f" ✓  intake        webhooks are listened for at 127.0.0.1:{port}\n" in told
    assert f" ✓  intake hook   http://127.0.0.1:{port}/webhook: its last delivery was answered with 200\n" in told


async def test_webhooks_without_a_secret_or_a_way_to_see_them(sick: Clinic) -> None:
    assert (
        """\
 ✗  intake        webhooks are listened for, but nothing signs them
     next: set intake.secret = "$RESOLVENT_WEBHOOK_SECRET"
"""
        in await sick.look('intake.listen="127.0.0.1:1"')
    )
    unset = {SECRET: ""}
    assert (
        """\
 ✗  intake        intake.secret is read from $HOOK_SECRET, which is not set
     next: export HOOK_SECRET=$(openssl rand -hex 32), and give the webhook the same
"""
        in await sick.look(*LISTEN, **unset)
    )
    await sick.rehearsal.held.account("writer", permission="write")
    writing = {TOKEN: await sick.rehearsal.held.token("writer")}
    assert UNSEEN_HOOKS in await sick.look(*LISTEN, **writing)
    assert "nobody tells of new issues" in await sick.look("intake.poll=0")
    assert "nothing is taken up by itself" in await sick.look('intake.label=""', 'intake.mention=""')


# --- what the rehearsal forge never says, said in its place


def changed(answer: Answer, **said: object) -> Answer:
    import json

    return replace(answer, body=json.dumps({**answer.said, **said}).encode())


def rule(kind: str, **parameters: object) -> Answer:
    import json

    body = json.dumps([{"type": kind, "parameters": parameters}]).encode()
    return Answer("GET", "/rules", 200, {}, body)


async def test_ways_to_merge_that_are_not_allowed(sick: Clinic) -> None:
    place, home, seen = await sick.seen("policy.merge=auto")

    def told(seen: Any, method: str) -> str:
        policy = home.settings.policy.model_copy(update={"merge_method": method})
        settings = home.settings.model_copy(update={"policy": policy})
        return sick.shown([one for one in judged(seen, place, settings, now=0.0) if "merge" in one["name"]])

    assert told(seen, "squash") == " ✓  forge merge  auto, by squash\n"
    no_squash = replace(seen, repo=changed(seen.repo, allow_squash_merge=False))
    assert (
        told(no_squash, "squash")
        == """\
 ✗  forge merge  acme/widgets does not merge by squash
     next: set policy.merge_method = "merge", or: gh repo edit HOST/acme/widgets --enable-squash-merge
"""
    )
    linear = replace(seen, rules=rule("required_linear_history"))
    assert (
        told(linear, "merge")
        == """\
 ✗  forge merge  main keeps a linear history: it takes no merge commit
     next: set policy.merge_method = "squash"
"""
    )


async def test_approvals_that_a_merge_waits_for(sick: Clinic) -> None:
    place, home, seen = await sick.seen("policy.merge=auto")
    seen = replace(seen, rules=rule("pull_request", required_approving_review_count=2))
    branch = [one for one in judged(seen, place, home.settings, now=0.0) if one["name"] == "forge branch"]
    assert (
        sick.shown(branch)
        == """\
 ✓  forge branch  main: required checks: build, test; 2 approving reviews
 ●  forge branch  main takes nothing without 2 approving reviews, so what is merged waits for people
     next: name them in policy.reviewers, or set policy.merge = "never"
"""
    )


async def test_single_sign_on_issues_switched_off_and_an_end_in_sight(sick: Clinic) -> None:
    place, home, seen = await sick.seen()
    sso = Answer("GET", "/repos", 403, {"x-github-sso": "required; url=https://github.com/orgs/acme/sso?x=1"})
    assert (
        sick.shown(list(judged(replace(seen, repo=sso), place, home.settings, now=0.0)))
        == """\
 ✗  forge token  acme wants the token authorised by single sign-on
     next: open https://github.com/orgs/acme/sso?x=1
"""
    )
    silent = replace(seen, repo=changed(seen.repo, has_issues=False))
    assert sick.shown(list(judged(silent, place, home.settings, now=0.0))).startswith("""\
 ✗  forge         acme/widgets has no issues
     next: gh repo edit HOST/acme/widgets --enable-issues
""")
    ends = {**seen.me.headers, "github-authentication-token-expiration": "2026-01-05 12:00:00 UTC"}
    ending = replace(seen, me=replace(seen.me, headers=ends))
    assert """\
 ●  forge token   it expires at 2026-01-05 12:00 UTC, in 3h00m
     next: make a new one in time, and put it in $FORGE_TOKEN_OF_THE_REHEARSAL
""" in sick.shown(list(judged(ending, place, home.settings, now=1767603600.0)))


async def test_a_limit_that_is_nearly_spent(sick: Clinic) -> None:
    place, home, seen = await sick.seen()
    core = {"limit": 5000, "remaining": 321, "reset": 1000 + 754, "used": 4679}
    spent = replace(seen, limits=changed(seen.limits, resources={"core": core}), ahead=0.0)
    told = [one for one in judged(spent, place, home.settings, now=1000.0) if one["name"] == "forge limits"]
    assert (
        sick.shown(told)
        == """\
 ●  forge limits  321 of 5,000 API calls of this hour are left, 500 of them for others: reading waits for 12m34s
     next: GH_HOST=HOST gh api rate_limit
"""
    )


async def test_a_clock_that_is_wrong(sick: Clinic) -> None:
    place, home, seen = await sick.seen()
    told = sick.shown(list(judged(replace(seen, ahead=312.0), place, home.settings, now=0.0)))
    assert told.endswith("""\
 ●  forge clock   the clock of this machine is 5m12s behind that of HOST
     next: sudo timedatectl set-ntp true
""")


async def test_a_fine_grained_token_is_told_by_what_it_may_read(sick: Clinic) -> None:
    place, home, seen = await sick.seen()
    bare = {name: value for name, value in seen.me.headers.items() if name != "x-oauth-scopes"}
    reads = dict.fromkeys(("issues", "pull requests", "contents", "checks"), Answer("GET", "/", 200, {}))
    fine = replace(seen, me=replace(seen.me, headers=bare), reads=reads)

    def told(seen: Any) -> str:
        return sick.shown([one for one in judged(seen, place, home.settings, now=0.0) if one["name"] == "forge token"])

    wanted = "contents: write, issues: write, pull requests: write, checks: read, statuses: read, actions: write"
    assert told(fine) == FINE
    fine.reads["checks"] = Answer("GET", "/", 403, {})  # type: ignore[index]
    assert (
        told(fine)
        == f"""\
 ✗  forge token  the token in $FORGE_TOKEN_OF_THE_REHEARSAL may not read checks
     next: give it {wanted}: https://HOST/settings/personal-access-tokens
"""
    )


@pytest.mark.parametrize("junk", [b"", b"null", b"[1, [2], null]", b'{"resources": 3}', b'"x"', b"{", b"\xff" * 9])
async def test_answers_of_the_wrong_shape_break_nothing(sick: Clinic, junk: bytes) -> None:
    place, home, seen = await sick.seen("policy.merge=auto")
    for name in ("me", "repo", "protection", "rules", "limits", "hooks"):
        strange = replace(seen, **{name: Answer("GET", "/", 200, {"x-oauth-scopes": ","}, junk)})
        probes = [*judged(strange, place, home.settings, now=0.0), *hooked(strange, home.settings, Gh(place.where))]
        assert probes and all(probe["fix"] for probe in probes if probe["state"] == "fault")
