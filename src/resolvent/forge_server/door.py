"""Who asks: a token becomes an account, and what goes wrong becomes one of GitHub's answers."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse

from resolvent.errors import ForgeRefused, HeadMoved, NotFound, ResolventError, Unavailable, UsageError
from resolvent.forge_server.holdings import Account

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

DOCUMENTATION = "https://docs.github.com/rest"
# Who shows no token where none is needed, or a signature that the route checks itself.
NOBODY = Account(id=0, login="", permission="none")


class Refusal(Exception):
    """An answer of GitHub's that is no success: its status, its words, and what was wrong with which field."""

    def __init__(
        self, status: int, message: str, *, errors: Sequence[Any] = (), headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)
        self.headers = dict(headers)

    def response(self) -> JSONResponse:
        """As GitHub sends it."""
        said: dict[str, Any] = {"message": self.message}
        if self.errors:
            said["errors"] = self.errors
        said |= {"documentation_url": DOCUMENTATION, "status": str(self.status)}
        return JSONResponse(said, self.status, headers=self.headers)


@dataclass(frozen=True)
class Admitted:
    """Who asks, with which scopes; `integration`: by a token of an App or a fine-grained one, which have none."""

    by: Account
    scopes: tuple[str, ...] = ()
    integration: bool = False


def not_found() -> Refusal:
    """What GitHub says of anything that is not there, or not for you."""
    return Refusal(404, "Not Found")


def refusal_of(error: ResolventError) -> Refusal:
    """The answer for an error of ours; `details['status']` says which where GitHub has one of its own."""
    status = error.details.get("status")
    if isinstance(error, NotFound):
        return not_found()
    if isinstance(error, HeadMoved):
        return Refusal(409, "Head branch was modified. Review and try the merge again.")
    # What is wrong with a field is told in a list; what is wrong with the whole is the message.
    if isinstance(status, int) and not (status == 422 and "field" in error.details):
        return Refusal(status, error.message)
    if isinstance(error, ForgeRefused | UsageError):
        return Refusal(422, "Validation Failed", errors=[_wrong(error)])
    if isinstance(error, Unavailable):
        return Refusal(503, "Service unavailable.")
    return Refusal(500, "Server Error")


def _wrong(error: ResolventError) -> dict[str, str]:
    named: dict[str, str] = {name: str(error.details[name]) for name in ("resource", "field") if name in error.details}
    return {"resource": "Repository", "code": "custom", **named, "message": error.message}


def token_of(asking: HTTPConnection) -> str:
    """The token in the request, however it was sent; empty when there is none."""
    scheme, _, rest = asking.headers.get("authorization", "").strip().partition(" ")
    rest = rest.strip()
    if scheme.lower() in ("token", "bearer"):
        return rest
    if scheme.lower() != "basic":
        return ""
    try:
        user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    # GitHub takes it in either place: `x-access-token:TOKEN` or `TOKEN:x-oauth-basic`.
    return user if password in ("", "x-oauth-basic") else password


async def admitted(hub: "Hub", request: Request) -> Admitted:
    """Who shows this token; Refusal 401 when it is missing or nobody's."""
    token = token_of(request)
    if not token:
        raise Refusal(401, "Requires authentication")
    known = await hub.bearer(token)
    if known is None:
        raise Refusal(401, "Bad credentials")
    return Admitted(known[0], known[1], integration=token.startswith(("ghs_", "github_pat_")))
