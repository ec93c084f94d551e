"""An agent that was given credentials opens its pull request itself, with the real `gh`, from inside of its box."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvicorn
from tests.playbooks.scenes import CLEAN, design

from resolvent.forge_server.app import application
from resolvent.testing.demo_story import write_story
from resolvent.testing.rehearsal import LOGIN, NAME, OWNER, Rehearsing, rehearsing
from resolvent.testing.stage import Stage

GH = Path("/usr/bin/gh")
# It commits and pushes the change and opens a pull request, then a second one that nobody asked for.
AGENT = """\
set -e
if [ "$RESOLVENT_STEP" = analyze ]; then cat "$GIVEN/analysis"; exit; fi
exec 3>&1 >&2
printf 'good\\n' > value.txt
git config user.name agent && git config user.email agent@localhost
git checkout -q -b agent/fix && git commit -q -a -m 'Make it good'
gh api user --jq .login
git config credential.helper '!gh auth git-credential'
push() { git push -q "$FORGE" "HEAD:refs/heads/$1"; }
push agent/fix
gh pr create --repo acme/widgets --head agent/fix --base main --title 'Make it good' --body 'Fixes #1' > "$HOME/first"
git commit -q --allow-empty -m 'and once more' && push agent/second
gh pr create --repo acme/widgets --head agent/second --base main --title 'And again' --body 'Fixes #1' > "$HOME/second"
number=$(sed 's|.*/||' "$HOME/first")
printf '%s\\n' IMPLEMENTATION_SUCCESS "PR_URL=$(cat "$HOME/first")" "PR_NUMBER=$number" PR_HEAD_BRANCH=agent/fix >&3
"""


@asynccontextmanager
async def beside(rehearsal: Rehearsing, socket: Path) -> AsyncIterator[None]:
    """The same forge at a socket: Go's clients take no proxy to this machine, and a box has no other way out."""
    app = application(rehearsal.held, base=rehearsal.url)
    server = uvicorn.Server(uvicorn.Config(app, uds=str(socket), log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0)
        socket.chmod(0o666)
        yield
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving


def given(place: Path, rehearsal: Rehearsing, socket: Path) -> dict[str, str]:
    """What the maintainer gives this one agent: a login of `gh`, and the way to the forge."""
    hosts = f"github.com:\n  user: {LOGIN}\n  oauth_token: {rehearsal.token}\n  git_protocol: https\n"
    host = rehearsal.url.removeprefix("https://")
    for name, text in {
        "gh/hosts.yml": hosts + hosts.replace("github.com", host),
        "gh/config.yml": f"http_unix_socket: {socket}\nprompt: disabled\n",
        "agent.sh": AGENT,
        "analysis": f"{design()}\n",
        "ca.pem": rehearsal.ca.read_text(encoding="utf-8"),
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    return {
        "GIVEN": str(place),
        "GH_CONFIG_DIR": str(place / "gh"),
        "GH_PROMPT_DISABLED": "1",
        "GH_NO_UPDATE_NOTIFIER": "1",
        "GIT_SSL_CAINFO": str(place / "ca.pem"),
        "GIT_TERMINAL_PROMPT": "0",
        "FORGE": f"{rehearsal.url}/{OWNER}/{NAME}.git",
    }


@pytest.mark.skipif(not GH.exists(), reason="gh is not installed: sudo apt-get install --yes gh")
@pytest.mark.conforms("S0.13", "S0.14")
@pytest.mark.spec("F6")
async def test_a_pull_request_it_opened_is_adopted_and_a_second_one_is_closed_with_a_note(tmp_path: Path) -> None:
    place, socket = tmp_path / "given", tmp_path / "given" / "forge.sock"
    place.mkdir()
    async with rehearsing(tmp_path / "forge") as rehearsal, beside(rehearsal, socket):
        variables = given(place, rehearsal, socket)
        host = rehearsal.url.removeprefix("https://")
        stage = await Stage.set_up(
            tmp_path,
            overrides=(
                'agents.author.use="command"',
                f'agents.author.command=["/bin/sh", "{place / "agent.sh"}"]',
                f"agents.author.variables={_table(variables)}",
                f"agents.author.reads={json.dumps([str(place)])}",
                f'sandbox.network=["private!{host}"]',
                "policy.variants=0",
                "policy.minimise=off",
            ),
            rehearsal=rehearsal,
        )
        try:
            write_story(tmp_path / "story.json", [CLEAN])
            played = await stage.go_on(await stage.submit())
            assert played.outcome == "proven", played.document["reason"]
            first, second = sorted(await (await stage.app.home.forge()).pull_requests(), key=lambda pull: pull.number)
            assert (first.head, first.state, first.author) == ("agent/fix", "open", LOGIN)
            assert played.document["pull_request"]["number"] == first.number
            assert first.head_commit == played.document["change"]
            assert (second.head, second.state) == ("agent/second", "closed")
            (note,) = await stage.comments(second.key)
            assert f"#{first.number} is the pull request of this issue" in note.body
        finally:
            await stage.close()


def _table(variables: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items()) + "}"
