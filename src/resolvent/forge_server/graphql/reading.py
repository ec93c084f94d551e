"""What can be asked for: the fields of Query."""

from typing import Any

from resolvent.forge_server.graphql.accounts import account, known_login
from resolvent.forge_server.graphql.finding import node
from resolvent.forge_server.graphql.items import item_shape
from resolvent.forge_server.graphql.refusals import refused
from resolvent.forge_server.graphql.repository import repository, repository_named
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.searching import Unreadable, found


def query(scene: Scene) -> Shape:
    """The root of everything that is read."""

    async def nodes(ids: list[str]) -> list[Shape]:
        return [await node(scene, id) for id in ids]

    return {
        "__typename": "Query",
        "viewer": lambda: account(scene, scene.by.login),
        "user": lambda login: known_login(scene, login, ("User",)),
        "organization": lambda login: known_login(scene, login, ("Organization",)),
        "repositoryOwner": lambda login: _owner(scene, login),
        "repository": lambda **asked: repository_named(scene, asked["owner"], asked["name"]),
        "node": lambda id: node(scene, id),
        "nodes": nodes,
        "search": lambda **asked: _search(scene, asked),
    }


def _owner(scene: Scene, login: str) -> Shape | None:
    known = {name.lower(): name for name, one in scene.holdings.accounts.items() if one.kind != "Bot"}
    return account(scene, known[login.lower()]) if login.lower() in known else None


def _search(scene: Scene, asked: dict[str, Any]) -> list[Shape]:
    words = asked["query"]
    if asked["type"] == "USER":
        logins = [one.login for one in scene.holdings.accounts.values() if one.kind == "User"]
        return [account(scene, login) for login in logins if words.lower() in login.lower()]
    if asked["type"] == "REPOSITORY":
        return [repository(scene)] if words.lower() in scene.sight.full_name.lower() else []
    try:
        return [item_shape(scene, item) for item in found(scene.sight, words)]
    except Unreadable as e:
        raise refused("INVALID_QUERY", f"The search query is invalid: {e}.") from e
