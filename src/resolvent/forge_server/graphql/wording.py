"""The texts, labels and people in an input, checked as GitHub checks them."""

from collections.abc import Iterable
from typing import Any

from graphql import GraphQLError

from resolvent.adapters.forges.local_words import MAX_BODY, MAX_TITLE
from resolvent.forge_server.graphql.finding import label_of, number_of
from resolvent.forge_server.graphql.refusals import no_node, refused
from resolvent.forge_server.graphql.scene import Scene
from resolvent.forge_server.node_ids import node_named

# What this forge has not got: asking for it is refused as what is not there.
_ABSENT = ("milestoneId", "projectIds", "projectV2Ids", "issueTypeId", "parentIssueId", "duplicateIssueId", "teamIds")


def unprocessable(message: str) -> GraphQLError:
    return refused("UNPROCESSABLE", message)


def titled(text: str) -> str:
    """A title that can be written."""
    title = text.strip()
    if not title:
        raise unprocessable("Title can't be blank")
    if len(title) > MAX_TITLE:
        raise unprocessable(f"Title is too long (maximum is {MAX_TITLE} characters)")
    return title


def bodied(text: str | None, *, blank: bool = True) -> str:
    """A body that can be written."""
    body = text or ""
    if not blank and not body.strip():
        raise unprocessable("Body can't be blank")
    if len(body) > MAX_BODY:
        raise unprocessable(f"Body is too long (maximum is {MAX_BODY} characters)")
    return body


def check_absent(said: dict[str, Any]) -> None:
    """Nothing is asked for that this forge has not got."""
    for name in _ABSENT:
        if wanted := said.get(name):
            raise no_node(wanted if isinstance(wanted, str) else wanted[0])


def label_names(scene: Scene, ids: Iterable[str]) -> list[str]:
    """The labels of these node ids."""
    names = []
    for id in ids:
        known = label_of(scene, number_of(id, "Label"))
        if known is None:
            raise no_node(id)
        names.append(known.name)
    return names


def logins(scene: Scene, ids: Iterable[str]) -> list[str]:
    """The accounts of these node ids."""
    found = []
    for id in ids:
        named = node_named(id)
        if named is None or named[0] not in ("User", "Bot") or named[1] not in scene.holdings.accounts:
            raise no_node(id)
        found.append(named[1])
    return found


def known_logins(scene: Scene, names: Iterable[str]) -> list[str]:
    """Accounts as somebody wrote their logins."""
    known = {login.lower(): login for login in scene.holdings.accounts}
    found = []
    for name in names:
        if name.lower() not in known:
            raise refused("NOT_FOUND", f"Could not resolve to a User with the login of '{name}'.")
        found.append(known[name.lower()])
    return found
