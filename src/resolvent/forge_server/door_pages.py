"""Lists in pages, with the `Link` header by which clients find the next one."""

import base64
from collections.abc import Sequence
from typing import TypeVar

from starlette.requests import Request

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.holdings import Item

T = TypeVar("T")

PER_PAGE, MOST = 30, 100


def page_of(request: Request) -> tuple[int, int]:
    """The page and how many are on it, read as leniently as GitHub does: what is no number is the default."""
    return max(1, _number(request, "page", 1)), min(MOST, _number(request, "per_page", PER_PAGE) or PER_PAGE)


def paged(request: Request, rows: Sequence[T]) -> tuple[Sequence[T], dict[str, str]]:
    """The rows of the page that was asked for, and the headers that say where the others are."""
    page, size = page_of(request)
    start = (page - 1) * size
    return rows[start : start + size], links(request, total=len(rows))


def links(request: Request, *, total: int) -> dict[str, str]:
    """The `Link` header of this page of so many rows; nothing when they fit on one."""
    page, size = page_of(request)
    last = max(1, -(-total // size))
    relations = []
    if page > 1:
        relations.append((min(page - 1, last), "prev"))
    if page < last:
        relations += [(page + 1, "next"), (last, "last")]
    if page > 1:
        relations.append((1, "first"))
    told = (f'<{request.url.include_query_params(page=number)}>; rel="{name}"' for number, name in relations)
    return {"link": ", ".join(told)} if relations else {}


def after_cursor(request: Request, items: Sequence[Item]) -> tuple[Sequence[Item], dict[str, str]]:
    """The items after the one that `after` names, in order of their numbers, and the header that leads on."""
    if "page" in request.query_params:
        raise Refusal(422, "Pagination with the page parameter is not supported for large datasets")
    _, size = page_of(request)
    if cursor := request.query_params.get("after", ""):
        # It need not be there any more: what comes after it still does.
        at, ascending = _at(cursor), items and items[0].number < items[-1].number
        items = [item for item in items if (item.number > at if ascending else item.number < at)]
    if len(items) <= size:
        return items, {}
    after = base64.urlsafe_b64encode(f"cursor:{items[size - 1].number}".encode()).decode()
    return items[:size], {"link": f'<{request.url.include_query_params(after=after)}>; rel="next"'}


def _at(cursor: str) -> int:
    try:
        return int(base64.urlsafe_b64decode(cursor).removeprefix(b"cursor:")[:10])
    except ValueError as error:
        raise Refusal(422, "The cursor is invalid") from error


def _number(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name, "")
    # Longer ones are no page that anybody has, and int() of a very long one takes its time.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise
