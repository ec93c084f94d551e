"""A query against our schema: pruned, validated, executed over views, answered in GitHub's shape."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from inspect import isawaitable
from typing import Any
from weakref import WeakKeyDictionary

from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    NoUnusedFragmentsRule,
    NoUnusedVariablesRule,
    OverlappingFieldsCanBeMergedRule,
    build_schema,
    execute,
    get_named_type,
    parse,
    specified_rules,
    validate,
)

from resolvent.forge_server.graphql.connections import BOUNDS, Connection, Listing
from resolvent.forge_server.graphql.pruning import prune, told
from resolvent.forge_server.graphql.reading import query
from resolvent.forge_server.graphql.refusals import shaped
from resolvent.forge_server.graphql.scene import Scene
from resolvent.forge_server.graphql.writing import mutation
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.shapes.sight import Sight

# The first GitHub does not enforce and gh breaks; the others are broken by what was pruned.
RULES = [
    rule
    for rule in specified_rules
    if rule not in (OverlappingFieldsCanBeMergedRule, NoUnusedFragmentsRule, NoUnusedVariablesRule)
]
TOKENS = 20_000
PARTS = ("schema", "writing", "words")
_PRUNED: WeakKeyDictionary[Hub, dict[str, None]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Asked:
    """The body of a request; `scopes` are the token's, None when nobody looked."""

    query: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    operation: str | None = None
    scopes: tuple[str, ...] | None = None


@cache
def schema() -> GraphQLSchema:
    """Our schema, built once."""
    texts = [files(__package__).joinpath(f"{part}.graphql").read_text("utf-8") for part in PARTS]
    return build_schema("\n".join(texts), no_location=True)


def pruned(hub: Hub) -> tuple[str, ...]:
    """Every field that anybody asked of this hub and that our schema does not have."""
    return tuple(sorted(_PRUNED.get(hub, ())))


async def answer(hub: Hub, by: Account, asked: Asked, *, base: str) -> dict[str, Any]:
    """What GitHub's GraphQL would say: `data`, `errors`, and under `extensions` what was pruned."""
    try:
        document, dropped, errors = _prepared(asked.query)
    except GraphQLError as e:
        return {"errors": [shaped(e)]}
    except RecursionError:
        return {"errors": [{"message": "The query is nested too deeply."}]}
    _PRUNED.setdefault(hub, {}).update(dict.fromkeys(dropped))
    warned = {"extensions": {"warnings": [{"type": "PRUNED", "message": one} for one in dropped]}} if dropped else {}
    if errors:
        return {"errors": [shaped(one) for one in errors]} | warned
    scene = Scene(hub, by, Sight(await hub.holdings(), base, by), asked.scopes)
    result = execute(
        schema(),
        document,
        query(scene) | mutation(scene),
        scene,
        dict(asked.variables),
        operation_name=asked.operation,
        field_resolver=_resolve,
    )
    executed = await result if isawaitable(result) else result
    return _answered(executed) | warned


@lru_cache(maxsize=128)
def _prepared(text: str) -> tuple[DocumentNode, tuple[str, ...], list[GraphQLError]]:
    """The query that is left, what was taken out of it, and what is wrong with it."""
    document, dropped = prune(schema(), parse(text, max_tokens=TOKENS))
    return document, dropped, validate(schema(), document, RULES)


def _answered(executed: ExecutionResult) -> dict[str, Any]:
    errors = [shaped(one) for one in executed.errors or ()]
    if executed.data is None and errors and not any("path" in one for one in errors):
        # Nothing was executed: the operation or a variable was wrong.
        return {"errors": errors}
    return {"data": told(executed.data)} | ({"errors": errors} if errors else {})


def _resolve(source: Any, info: GraphQLResolveInfo[Scene], **given: Any) -> Any:
    """A field is what its shape has under that name; a listing becomes the page that was asked for."""
    bounds = {name: given.pop(name) for name in BOUNDS if name in given}
    found = source[info.field_name]
    if callable(found):
        found = found(**given)
    if get_named_type(info.return_type).name.endswith("Connection"):
        return _page(found, info.field_name, bounds)
    return found


def _page(listed: Any, name: str, bounds: dict[str, Any]) -> Any:
    if isawaitable(listed):
        return _page_later(listed, name, bounds)
    if isinstance(listed, Listing):
        return Connection(name, listed.listed, **bounds).shape() | listed.fields
    return Connection(name, listed, **bounds).shape()


async def _page_later(listed: Any, name: str, bounds: dict[str, Any]) -> Any:
    return _page(await listed, name, bounds)
