"""Search for issues and pull requests."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.rest.asking import Asking, route
from resolvent.forge_server.searching import Unreadable, found
from resolvent.forge_server.shapes.issues import issue
from resolvent.forge_server.shapes.repository import repository

LONGEST = 256
# Only so many of the results can be looked at, as on GitHub.
MOST = 1000
_WHOLE = {"incomplete_results": False, "search_type": "lexical"}


def routes() -> list[BaseRoute]:
    return [route("GET", "/search/issues", issues), route("GET", "/search/repositories", repositories)]


def _refusal(message: str, code: str = "invalid") -> Refusal:
    error = {"resource": "Search", "field": "q", "code": code, "message": message}
    return Refusal(422, "Validation Failed", errors=[error])


def _asked(asking: Asking) -> str:
    text = asking.query("q")
    if not text.strip():
        raise _refusal("q is missing", "missing")
    if len(text) > LONGEST:
        raise _refusal(f"The search is longer than {LONGEST} characters.")
    return text


async def issues(asking: Asking) -> Response:
    """What is found in the order of `sort` and `order`, else as the search itself asks for."""
    query = _asked(asking)
    if (sort := asking.query("sort")) in ("created", "updated", "comments"):
        query += f" sort:{sort}-{asking.query('order') or 'desc'}"
    try:
        items = found(asking.sight, query)[:MOST]
    except Unreadable as error:
        raise _refusal(str(error)) from error
    return asking.counted("items", items, lambda item: issue(asking.sight, item) | {"score": 1.0}, **_WHOLE)


async def repositories(asking: Asking) -> Response:
    name = asking.sight.full_name.casefold()
    plain = [word for word in _asked(asking).casefold().split() if ":" not in word]
    shown = [asking.sight] if all(word in name for word in plain) else []
    return asking.counted("items", shown, lambda sight: repository(sight) | {"score": 1.0}, **_WHOLE)
