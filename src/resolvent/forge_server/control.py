"""What works the rehearsal forge from behind: faults, checks, bots, tokens, and the log of what was asked of it.

    curl --cacert ca.pem -H "authorization: token $TOKEN" https://localhost:8443/_forge/faults \\
         -d '{"kind": "lost", "method": "POST", "path": "/comments", "times": 1}'
"""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from resolvent.domain.model import Value
from resolvent.domain.subject import Permission
from resolvent.forge_server.app_backstage import Backstage
from resolvent.forge_server.bots import BotScript
from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.faults import Fault

Answering = Callable[[Request], Awaitable[Response]]
T = TypeVar("T", bound=Value)
# Our own words for what a check says, beside GitHub's.
WORDS = {"passed": "success", "failed": "failure", "pending": "queued"}


class CheckSaid(Value):
    """What CI is to say of a commit, or of the head of a branch; `required`: every commit needs it, or does not."""

    name: str = Field(min_length=1)
    commit: str = ""
    branch: str = ""
    state: str = ""
    log: str = ""
    # False: a commit status that no workflow ran for.
    run: bool = True
    required: bool | None = None


class TokenAsked(Value):
    """Somebody who gets a new token, and an account if they have none."""

    login: str = Field(min_length=1)
    permission: Permission = "write"
    kind: Literal["User", "Bot"] = "User"
    scopes: tuple[str, ...] = ("repo", "workflow", "read:org")


def control() -> list[Route]:
    """The routes below `/_forge`, for admins of the repository."""
    table: dict[tuple[str, str], Answering] = {
        ("GET", "/log"): _log,
        ("GET", "/faults"): _faults,
        ("POST", "/faults"): _add_fault,
        ("DELETE", "/faults"): _clear_faults,
        ("POST", "/faults/release"): _release_faults,
        ("GET", "/bots"): _bots,
        ("POST", "/bots"): _add_bot,
        ("POST", "/bots/release"): _release_bots,
        ("POST", "/checks"): _check,
        ("POST", "/tokens"): _token,
    }
    return [Route(path, _owned(answering), methods=[method]) for (method, path), answering in table.items()]


def _owned(answering: Answering) -> Answering:
    async def endpoint(request: Request) -> Response:
        if request.state.by.permission != "admin":
            raise not_found()
        return await answering(request)

    return endpoint


async def _said(request: Request, kind: type[T]) -> T:
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        wrong = [{"field": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
        raise Refusal(422, "Validation Failed", errors=wrong) from error


def _backstage(request: Request) -> Backstage:
    backstage: Backstage = request.state.backstage
    return backstage


async def _log(request: Request) -> Response:
    backstage = _backstage(request)
    seen = [vars(one) for one in backstage.requests]
    struck = [{"kind": kind, "request": asked} for kind, asked in backstage.faults.struck]
    return JSONResponse({"requests": seen, "struck": struck})


async def _faults(request: Request) -> Response:
    return JSONResponse([fault.model_dump(mode="json") for fault in _backstage(request).faults.rules])


async def _add_fault(request: Request) -> Response:
    fault = await _said(request, Fault)
    _backstage(request).faults.add(fault)
    return JSONResponse(fault.model_dump(mode="json"), 201)


async def _clear_faults(request: Request) -> Response:
    _backstage(request).faults.clear()
    return Response(status_code=204)


async def _release_faults(request: Request) -> Response:
    _backstage(request).faults.release()
    return Response(status_code=204)


async def _bots(request: Request) -> Response:
    bots = _backstage(request).bots
    scripts = [script.model_dump(mode="json") for script in bots.scripts]
    return JSONResponse({"bots": scripts, "waiting": bots.waiting, "refused": [str(one) for one in bots.refused]})


async def _add_bot(request: Request) -> Response:
    script = await _said(request, BotScript)
    await _backstage(request).bots.add(script)
    return JSONResponse(script.model_dump(mode="json"), 201)


async def _release_bots(request: Request) -> Response:
    _backstage(request).bots.release()
    return Response(status_code=204)


async def _check(request: Request) -> Response:
    hub, said = request.state.hub, await _said(request, CheckSaid)
    holdings = await hub.holdings()
    if said.required is not None:
        others = [name for name in holdings.required if name != said.name]
        await hub.require([*others, said.name] if said.required else others)
    if not said.state:
        return Response(status_code=204)
    commit = said.commit or holdings.refs.get(f"refs/heads/{said.branch or holdings.default_branch}", "")
    if await hub.commit(commit) is None:
        raise Refusal(422, "No commit found for SHA: " + (commit or said.branch))
    word = WORDS.get(said.state, said.state)
    words = {"status": word} if word in ("queued", "in_progress") else {"status": "completed", "conclusion": word}
    check = await (hub.report if said.run else hub.set_status)(commit, said.name, **words, log=said.log)
    return JSONResponse(vars(check), 201)


async def _token(request: Request) -> Response:
    hub, said = request.state.hub, await _said(request, TokenAsked)
    known = (await hub.holdings()).accounts.get(said.login)
    if known is None or "permission" in said.model_fields_set:
        await hub.account(said.login, kind=said.kind, permission=said.permission)
    return JSONResponse({"login": said.login, "token": await hub.token(said.login, scopes=said.scopes)}, 201)
