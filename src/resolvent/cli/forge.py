"""resolvent forge: the forge on this machine, served as GitHub."""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resolvent.cli.options import Directory, Json
from resolvent.cli.root import help_when_bare
from resolvent.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub
    from resolvent.forge_server.serving import Serving
    from resolvent.forge_server.serving_tokens import KeptToken

app = typer.Typer(
    help="The forge on this machine, served as GitHub.",
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=help_when_bare,
)
# Logins that an enterprise manages end in `_` and its short name.
REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}/[A-Za-z0-9._-]{1,100}")


@app.command("serve")
def serve(
    port: Annotated[int, typer.Option(metavar="N", help="Where to listen; 0 takes a free port.")] = 8443,
    repo: Annotated[
        str, typer.Option(metavar="OWNER/NAME", help="What the repository is called there.", show_default=False)
    ] = "",
    kept: Annotated[
        Path | None,
        typer.Option("--directory", metavar="DIR", help="Serve the forge kept there instead.", show_default=False),
    ] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Serve the local forge as GitHub: REST, GraphQL and git over HTTPS, for the real gh and git.

    It listens on this machine only, with a certificate of its own, and a proxy leads github.com to it. What it prints
    are the lines to type. Nothing reaches the real github.com. Ctrl-C ends it.
    """
    from resolvent.cli.place import run

    if not 0 <= port <= 65535:
        raise UsageError(f"{port} is no port", hint="resolvent forge serve --port 0")
    if repo and not REPO.fullmatch(repo):
        raise UsageError(f"{repo!r} is no repository", hint="resolvent forge serve --repo OWNER/NAME")
    run(_serve(directory, kept, (port, repo), json=json))


async def _serve(directory: Path | None, kept: Path | None, named: tuple[int, str], *, json: bool) -> None:
    import asyncio

    from resolvent.cli.forge_environment import credential_helper
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit

    try:
        from resolvent.forge_server.serving import serving
        from resolvent.forge_server.serving_tokens import kept_token
    except ModuleNotFoundError as missing:
        told = f"serving the forge needs the library {missing.name}"
        raise ConfigError(told, hint="pip install '.[rehearsal]'  # where you cloned Resolvent") from missing
    port, repo = named
    async with _hub(directory, kept, repo) as hub:
        tokens = [await kept_token(hub, hub.owner, "admin"), await kept_token(hub, "resolvent", "write")]
        async with serving(hub, port=port, proxy_port=port + 1 if 0 < port < 65535 else 0) as served:
            ended = _until_interrupted(asyncio.get_running_loop())
            helper = await asyncio.to_thread(credential_helper, served)
            if json:
                emit(_document(served, tokens, helper), lines=True)
            else:
                stdout().say(*_lines(served, tokens, helper))
                # Whoever started us by a pipe waits for these lines.
                sys.stdout.flush()
            await ended.wait()


@asynccontextmanager
async def _hub(directory: Path | None, kept: Path | None, repo: str) -> "AsyncIterator[Hub]":
    """The hub of the repository one stands in, or of a directory; closed again."""
    from resolvent.adapters.journal.store import Store
    from resolvent.cli.place import opened
    from resolvent.forge_server.hub import Hub

    if kept is not None:
        owner, name = (repo or f"{_login()}/{_named(kept.absolute().name)}").split("/")
        hub = await Hub.open(kept.absolute(), owner=owner, name=name)
        try:
            yield hub
        finally:
            await hub.close()
        return
    async with opened(directory) as opened_app:
        home = opened_app.home
        if home.settings.forge.kind != "local":
            raise _elsewhere(repo or home.settings.forge.repo, home.state / "served")
        # What the checkout holds is what people expect to clone.
        await (await home.local_forge()).sync(home.repository)
        owner, name = (repo or f"{_login()}/{_named(home.repository.resolve().name)}").split("/")
        store = await Store.open(home.store_url)
        try:
            yield await Hub.over(store, home.state / "forge", owner=owner, name=name, clock=home.clock)
        finally:
            await store.close()


def _elsewhere(repo: str, fresh: Path) -> UsageError:
    return UsageError(
        f"the issues of this repository are at {repo}: there is no forge of it here, but a new one can be served",
        hint=f"resolvent forge serve --directory {quote(str(fresh))} --repo {quote(repo)}",
    )


def _login() -> str:
    from resolvent.cli.words import person

    return re.sub(r"[^A-Za-z0-9-]+", "-", person()).strip("-")[:39] or "someone"


def _named(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:100] or "repository"


def _until_interrupted(loop: Any) -> Any:
    import asyncio
    import signal

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended


def _document(served: "Serving", tokens: "list[KeptToken]", helper: str) -> dict[str, Any]:
    from resolvent.cli.forge_environment import environment

    return {
        "repo": f"{served.hub.owner}/{served.hub.name}",
        "url": served.url,
        "api": f"{served.url}/api/v3",
        "proxy": served.proxy,
        "ca": str(served.ca),
        # Where they are, not what they are: this is for programs, whose output is kept.
        "token_files": {one.login: str(one.file) for one in tokens},
        "environment": environment(served, helper),
    }


def _lines(served: "Serving", tokens: "list[KeptToken]", helper: str) -> list[str]:
    from resolvent.cli.forge_environment import cloning, environment, exports
    from resolvent.cli.terminal import stdout

    repo, ca, owner = f"{served.hub.owner}/{served.hub.name}", quote(str(served.ca)), tokens[0]
    paint, token = stdout().paint, f'"$(cat {quote(str(owner.file))})"'
    made = [f"  {one.login}: {one.token}   kept in {one.file}" for one in tokens if one.fresh]
    return [
        paint(f"{repo} is served at {served.url}", "bold"),
        *(["", "new tokens, shown this once:", *made] if made else []),
        "",
        "as github.com, for real gh and git, in another terminal:",
        *(f"  {line}" for line in exports(environment(served, helper))),
        f'  export GH_TOKEN={token} GH_CONFIG_DIR="$(mktemp -d)"',
        f"  git clone https://github.com/{repo} && cd {served.hub.name} && gh issue list",
        "",
        "directly:",
        f"  {cloning(served, helper)}",
        # By standard input: what is in a command line is seen by everybody on the machine.
        f"  echo user={served.hub.owner}:{token} | curl --cacert {ca} --config - {served.url}/api/v3/repos/{repo}",
        "",
        "Ctrl-C ends it",
    ]
