"""Every command in the guides to GitHub and to rehearsals is typed here, and prints what the guide says it prints."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from resolvent.forge_server.hub import Hub
from resolvent.forge_server.serving import Serving, serving
from resolvent.testing.stage import make_project

from .conftest import HONEST
from .process import RESOLVENT, Place
from .test_cli_rehearse import number

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
BIN = Path(sys.executable).parent
MARK = "=== next ==="
WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in
       (("NAME", "Tester"), ("EMAIL", "tester@example.invalid"))}  # fmt: skip
HELPER = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "credential.https://github.com.helper",
    "GIT_CONFIG_VALUE_0": "!gh auth git-credential",
}
QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0"}

needs = pytest.mark.skipif(
    not ((BIN / "gh").exists() and shutil.which("curl") and shutil.which("openssl")),
    reason="gh of this environment, curl and openssl are not all here: make agents",
)


def console(name: str) -> list[tuple[str, str]]:
    """Every command of a guide's console blocks with what it says it prints; empty where it does not say."""
    text = (GUIDE / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


async def typed(commands: list[str], *, at: Path, environ: dict[str, str]) -> list[str]:
    """What each command prints, all typed into one shell that ends at the first that fails."""
    script = "set -e\n" + "\n".join(f"{command}\necho '{MARK}'" for command in commands)
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script,
        cwd=at,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 110)
    printed = out.decode().split(f"{MARK}\n")
    failed = commands[min(len(printed) - 1, len(commands) - 1)]
    assert process.returncode == 0, f"{failed}\n{printed[-1]}\n{err.decode()[-3000:]}"
    return printed[:-1]


def as_github(served: Serving | dict[str, Any], token: str) -> dict[str, str]:
    """What makes gh and git take a forge for github.com."""
    proxy, ca = (served.proxy, str(served.ca)) if isinstance(served, Serving) else (served["proxy"], served["ca"])
    return (
        QUIET
        | HELPER
        | WHO
        | {
            "HTTPS_PROXY": proxy,
            "NO_PROXY": "localhost,127.0.0.1",
            "SSL_CERT_FILE": ca,
            "GIT_SSL_CAINFO": ca,
            "GH_TOKEN": token,
        }
    )


@asynccontextmanager
async def github(place: Place) -> AsyncIterator[tuple[Serving, str]]:
    """github.com, with two issues about one bad value."""
    hub = await Hub.open(place.directory / "github", owner="acme", name="widgets")
    try:
        await hub.forge.sync(place.project)
        await hub.account("fixer", permission="admin")
        customer = await hub.account("customer", permission="read")
        for wanted in (7, 42):
            await number(hub, wanted, customer, title="The value is bad", body="It should be good.")
        async with serving(hub) as served:
            yield served, await hub.token("fixer")
    finally:
        await hub.close()


def furnished(place: Place, *, ca: Path | None = None) -> None:
    """A person's own settings: an honest agent, and the certificates of what plays github.com."""
    own = place.directory / "home/.config/resolvent/config.toml"
    own.parent.mkdir(parents=True)
    forge = f'[forge]\nca = "{ca}"\n' if ca else ""
    own.write_text(f"{forge}[policy]\nvariants = 0\n", encoding="utf-8")
    place.agent(HONEST)


@needs
async def test_the_guide_to_github_can_be_typed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await make_project(place.project, {"value.txt": "bad\n", ".gitignore": "resolvent.local.toml\n"})
    place.git("remote", "add", "origin", "https://github.com/acme/widgets.git")
    commands, printed = zip(*console("github.md"), strict=True)
    elsewhere = {"https://hooks.example.com": "http://127.0.0.1:1"}
    async with github(place) as (served, token):
        furnished(place, ca=served.ca)
        environ = place.environ | as_github(served, token) | {"PATH": f"{BIN}:{os.environ['PATH']}"}
        environ["GH_CONFIG_DIR"] = str(tmp_path / "gh")
        place.git("fetch", "-q", str(served.hub.forge.path), "+main:refs/remotes/origin/main")
        place.git("branch", "-q", "--set-upstream-to=origin/main", "main")
        for real, here in elsewhere.items():
            commands = tuple(command.replace(real, here) for command in commands)
            printed = tuple(text.replace(real, here) for text in printed)
        happened = await typed(list(commands), at=place.project, environ=environ)
        held = await served.hub.holdings()
    for command, text, really in zip(commands, printed, happened, strict=True):
        assert not text or really == text, command
    pulls = [item for item in held.items.values() if item.kind == "pull"]
    assert sorted(item.head for item in pulls) == ["resolvent/issue-42", "resolvent/issue-7"]
    assert [ref for ref in held.refs if "claims" in ref] == [], "what was taken up is given back"


@asynccontextmanager
async def forge_serve(place: Place) -> AsyncIterator[dict[str, Any]]:
    """`resolvent forge serve` as a person starts it; what it says of itself."""
    process = await asyncio.create_subprocess_exec(
        *RESOLVENT, "forge", "serve", "--repo", "acme/widgets", "--port", "0", "--json",
        cwd=place.project, env=place.environ, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        told = await asyncio.wait_for(process.stdout.readline(), 60)
        yield json.loads(told)
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), 30)


@needs
async def test_the_guide_to_rehearsals_can_be_typed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    furnish = {"value.txt": "bad\n", ".gitignore": "resolvent.local.toml\n"}
    await make_project(place.project, furnish)
    furnished(place)
    commands, printed = zip(*console("rehearsal.md"), strict=True)
    environ = place.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    before = commands.index("gh auth status")
    happened = await typed(list(commands[:before]), at=place.project, environ=environ)
    table = re.search(r"```\n(what resolvent would have done.*?)```", (GUIDE / "rehearsal.md").read_text(), re.S)
    assert table and table[1] in happened[-1], happened[-1]
    async with forge_serve(place) as told:
        token = Path(told["token_files"]["acme"]).read_text(encoding="utf-8").strip()
        environ |= as_github(told, token) | {"GH_CONFIG_DIR": str(tmp_path / "gh")}
        port = told["url"].rpartition(":")[2]
        typing = [command.replace(":8443", f":{port}") for command in commands[before:]]
        happened += await typed(typing, at=place.project, environ=environ)
    for command, text, really in zip(commands, printed, happened, strict=True):
        assert not text or really == text, command


async def test_the_example_of_the_guide_to_rehearsals_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (GUIDE / "rehearsal.md").read_text(encoding="utf-8"), re.M | re.S)
    told: dict[str, Any] = {}
    exec(compile(code, "rehearsal.md", "exec"), told)
    await told["test_an_issue_nobody_can_reach_is_declined"](tmp_path)
