"""What may be asked with a token: of this repository, also under a former name, and within its scopes."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from resolvent.forge_server.door import DOCUMENTATION, Admitted, Refusal, not_found

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

READING = ("GET", "HEAD", "OPTIONS")
REPOSITORY = re.compile(r"/repos/(?P<owner>[^/]+)/(?P<name>[^/]+)(?P<rest>/.*)?")


def led_on(hub: "Hub", request: Request, formerly: Iterable[str]) -> Response | None:
    """Where a repository is asked for under a former name: the way to its present one."""
    asked = REPOSITORY.fullmatch(_path(request))
    if asked is None or f"{asked['owner']}/{asked['name']}".lower() not in {name.lower() for name in formerly}:
        return None
    path = f"{request.scope.get('root_path', '')}/repos/{hub.owner}/{hub.name}{asked['rest'] or ''}"
    url = str(request.url.replace(path=path))
    said = {"message": "Moved Permanently", "url": url, "documentation_url": DOCUMENTATION}
    return JSONResponse(said, 301 if request.method in READING else 307, headers={"location": url})


def allowed(hub: "Hub", request: Request, who: Admitted) -> None:
    """Let through what may be asked of this repository by this token; Refusal otherwise."""
    path = _path(request)
    asked = REPOSITORY.fullmatch(path)
    if asked is None:
        return
    if (asked["owner"].lower(), asked["name"].lower()) != (hub.owner.lower(), hub.name.lower()):
        raise not_found()
    if request.method in READING:
        return
    if not {"repo", "public_repo"} & set(who.scopes):
        raise _unscoped(who)


def _unscoped(who: Admitted) -> Refusal:
    if who.integration:
        said = "Resource not accessible by personal access token"
        return Refusal(403, said, headers={"x-accepted-github-permissions": "issues=write; pull_requests=write"})
    # A classic token is not even told that what it may not touch is there.
    refusal = not_found()
    refusal.headers["x-accepted-oauth-scopes"] = "public_repo, repo"
    return refusal


def _path(request: Request) -> str:
    return str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))
