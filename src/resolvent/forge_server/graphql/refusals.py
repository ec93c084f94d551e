"""What GraphQL says when it cannot: GitHub's types and words."""

import re
from typing import Any

from graphql import GraphQLError

from resolvent.errors import HeadMoved, NotFound, ResolventError

HEAD_MODIFIED = "Head branch was modified. Review and try the merge again."
_UNKNOWN_FIELD = re.compile(r"Cannot query field '(\w+)' on type '(\w+)'")


def refused(kind: str, message: str) -> GraphQLError:
    """An error of one of GitHub's types: NOT_FOUND, FORBIDDEN, UNPROCESSABLE, …"""
    return GraphQLError(message, extensions={"type": kind})


def no_node(node: str) -> GraphQLError:
    return refused("NOT_FOUND", f"Could not resolve to a node with the global id of '{node}'")


def shaped(error: GraphQLError) -> dict[str, Any]:
    """One error as GitHub writes it; what is neither a refusal nor one of ours is a fault of ours, and rises."""
    cause = error.original_error
    if isinstance(cause, ResolventError):
        message = HEAD_MODIFIED if isinstance(cause, HeadMoved) else cause.message
        extensions: dict[str, Any] = {"type": _kind(cause)}
    elif cause is not None and not isinstance(cause, GraphQLError):
        raise cause
    else:
        extensions, message = _worded(error)
    kind = extensions.pop("type", None)
    said: dict[str, Any] = {"type": kind} if kind else {}
    if error.path is not None:
        said["path"] = list(error.path)
    if extensions:
        said["extensions"] = extensions
    said["locations"] = [{"line": place.line, "column": place.column} for place in error.locations or ()]
    return said | {"message": message}


def _kind(error: ResolventError) -> str:
    if isinstance(error, NotFound):
        return "NOT_FOUND"
    return "FORBIDDEN" if error.details.get("status") == 403 else "UNPROCESSABLE"


def _worded(error: GraphQLError) -> tuple[dict[str, Any], str]:
    """What the library says, in the words that clients of GitHub look for."""
    unknown = _UNKNOWN_FIELD.match(error.message)
    if unknown is None:
        return dict(error.extensions or {}), error.message
    field, kind = unknown.groups()
    code = {"code": "undefinedField", "typeName": kind, "fieldName": field}
    return code, f"Field '{field}' doesn't exist on type '{kind}'"
