"""git fetch and git push over HTTPS: `git http-backend` on the forge's repository, streamed both ways."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from resolvent.adapters.git import Git, environment
from resolvent.errors import ForgeRefused
from resolvent.forge_server.app_backstage import Backstage
from resolvent.forge_server.door import Admitted, Refusal, admitted
from resolvent.forge_server.smart_http_pushes import Push, pull_refs, ready

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

PATH = re.compile(
    r"/(?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/(?P<service>info/refs|git-upload-pack|git-receive-pack)"
)
CHUNK = 64 << 10
WRITERS = ("write", "maintain", "admin")
SETTINGS = (
    "http.receivepack=true",
    "receive.fsckObjects=true",
    "receive.hideRefs=refs/pull",
    "safe.directory=*",
    # What the forge keeps for itself; claims are everybody's.
    "transfer.hideRefs=refs/resolvent",
    "transfer.hideRefs=!refs/resolvent/claims",
    # As GitHub does: any commit can be asked for, and only a part of what is in it.
    "uploadpack.allowAnySHA1InWant=true",
    "uploadpack.allowFilter=true",
)


class _Said(Exception):
    """An answer in words, which git shows to the person."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.response: Response = PlainTextResponse(f"{text}\n", status, headers=headers)


class SmartHttp:
    """The repository at `/OWNER/NAME.git`, as git speaks to it."""

    def __init__(self, hub: "Hub", backstage: Backstage) -> None:
        self._hub = hub
        self._backstage = backstage
        self._git = Git(hub.forge.path)
        # Not where temporary files are: programs often may not be run there.
        self._hooks = hub.forge.path.parent / "hooks"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            service = self._service(request)
            who = await self._admitted(request, pushing=service == "git-receive-pack")
        except _Said as said:
            await said.response(scope, receive, send)
            return
        scope["state"]["by"] = who.by
        if scope["method"] == "POST" and service == "git-receive-pack":
            await self._push(request, receive, send, who)
            return
        if scope["method"] == "GET" and service == "git-upload-pack":
            await pull_refs(self._hub, self._git)
        process = await self._started(request, {}, ())
        await _converse(process, receive, send)

    def _service(self, request: Request) -> str:
        asked = PATH.fullmatch(request.url.path)
        if asked is None:
            raise _Said(404, "Not Found")
        hub, named = self._hub, f"{asked['owner']}/{asked['name']}".lower()
        if named in {name.lower() for name in self._backstage.formerly}:
            said = _Said(301, "Moved Permanently")
            path = f"/{hub.owner}/{hub.name}.git/{asked['service']}"
            said.response = RedirectResponse(str(request.url.replace(path=path)), 301)
            raise said
        if named != f"{hub.owner}/{hub.name}".lower():
            raise _Said(404, "Repository not found.")
        service = asked["service"]
        if service == "info/refs":
            service = request.query_params.get("service", "")
        expected = "GET" if asked["service"] == "info/refs" else "POST"
        if request.method != expected or service not in ("git-upload-pack", "git-receive-pack"):
            raise _Said(403, "Please upgrade your git client.")
        return service

    async def _admitted(self, request: Request, *, pushing: bool) -> Admitted:
        challenge = {"www-authenticate": 'Basic realm="GitHub"'}
        if "authorization" not in request.headers:
            # Also who only reads: whatever a repository holds, this machine may have other people on it.
            raise _Said(401, "No anonymous write access." if pushing else "Requires authentication", challenge)
        try:
            who = await admitted(self._hub, request)
        except Refusal as refusal:
            said = "Invalid username or token. Password authentication is not supported for Git operations."
            raise _Said(401, said, challenge) from refusal
        if pushing:
            if who.by.permission not in WRITERS or not {"repo", "public_repo"} & set(who.scopes):
                hub = self._hub
                raise _Said(403, f"Permission to {hub.owner}/{hub.name}.git denied to {who.by.login}.")
            if (await self._hub.holdings()).archived:
                raise _Said(403, "This repository was archived so it is read-only.")
            await self._watchful()
        return who

    async def _watchful(self) -> None:
        """Let a push begin only where a hook can look at it."""
        try:
            await asyncio.to_thread(ready, self._hooks)
        except ForgeRefused as error:
            raise _Said(500, f"{error.message}. Who serves this forge can type: {error.hint}") from error

    async def _push(self, request: Request, receive: Receive, send: Send, who: Admitted) -> None:
        async with Push.begun(self._hub, who) as push:
            process = await self._started(request, push.environment(), (f"core.hooksPath={self._hooks}",))
            await _converse(process, receive, push.retelling(send))

    async def _started(self, request: Request, more: dict[str, str], settings: tuple[str, ...]) -> Process:
        headers, asked = request.headers, PATH.fullmatch(request.url.path)
        assert asked is not None
        variables = {
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROJECT_ROOT": str(self._git.git_dir),
            "PATH_INFO": f"/{asked['service']}",
            "QUERY_STRING": request.url.query,
            "REQUEST_METHOD": request.method,
            "REMOTE_USER": request.scope["state"]["by"].login,
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": headers.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            "GIT_PROTOCOL": headers.get("git-protocol", ""),
        }
        # No CONTENT_LENGTH: told one, http-backend spins for ever on a request that ends early.
        told = (part for setting in (*SETTINGS, *settings) for part in ("-c", setting))
        return await asyncio.create_subprocess_exec(
            *self._git.argv(*told, "http-backend"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(variables | more),
            cwd="/",
            umask=0o022,
            # git starts others to do the work, and all of them have to go when the client does.
            start_new_session=True,
            limit=CHUNK,
        )


async def _converse(process: Process, receive: Receive, send: Send) -> None:
    """Let git hear the request and the client hear git, bit by bit; a client that hangs up ends it."""
    assert process.stdin is not None and process.stdout is not None
    feeding = asyncio.ensure_future(_feed(process, receive))
    try:
        await send(_start(await process.stdout.readuntil(b"\r\n\r\n")))
        while block := await process.stdout.read(CHUNK):
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await process.wait()
        await send({"type": "http.response.body", "body": b""})
    except asyncio.IncompleteReadError:
        # It ended without a word: the client hung up, or git is broken and the server says 500.
        await process.wait()
    except BaseException:
        _end(process)
        await process.wait()
        raise
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        process.stdin.close()


async def _feed(process: Process, receive: Receive) -> None:
    assert process.stdin is not None
    while (message := await receive())["type"] != "http.disconnect":
        # git may have heard enough; the rest of what the client says is read all the same.
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(message.get("body", b""))
            await process.stdin.drain()
        if not message.get("more_body", False):
            process.stdin.close()
    process.stdin.close()
    _end(process)


def _end(process: Process) -> None:
    """Tell git, and everything it started, to end; told so it takes its lock files with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def _start(head: bytes) -> dict[str, object]:
    """The head of a CGI answer as ASGI's."""
    status, headers = 200, []
    for line in head.split(b"\r\n"):
        name, found, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        elif found:
            headers.append((name.lower(), value.strip()))
    return {"type": "http.response.start", "status": status, "headers": headers}
