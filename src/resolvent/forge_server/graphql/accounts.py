"""People, bots and organisations."""

from typing import Any

from resolvent.forge_server.graphql.refusals import refused
from resolvent.forge_server.graphql.scene import Scene, Shape
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.sight import instant


def account(scene: Scene, login: str) -> Shape:
    """Somebody with a login: User, Bot or Organization."""
    known = scene.sight.account(login)
    return {
        "__typename": known.kind,
        "id": node_id(known.kind, login),
        "databaseId": known.id,
        "login": login,
        "name": login,
        "email": "",
        "url": f"{scene.sight.base}/{login}",
        "resourcePath": f"/{login}",
        "avatarUrl": lambda **_: f"{scene.sight.base}/avatars/u/{known.id}",
        "createdAt": instant(scene.holdings.created_at),
        "isViewer": login == scene.by.login,
        "repositories": lambda **asked: _owned(scene, login, asked),
        "repository": lambda **asked: _owned_as(scene, login, asked["name"]),
    }


def author(scene: Scene, login: str) -> Shape | None:
    """Who wrote something; None when nobody is named."""
    return account(scene, login) if login else None


def known_login(scene: Scene, login: str, kinds: tuple[str, ...] = ("User", "Organization")) -> Shape:
    """The account of that name, however its letters are written; refused as GitHub does when there is none."""
    for one in scene.holdings.accounts.values():
        if one.login.lower() == login.lower() and one.kind in kinds:
            return account(scene, one.login)
    article = "an Organization" if kinds == ("Organization",) else "a User"
    raise refused("NOT_FOUND", f"Could not resolve to {article} with the login of '{login}'.")


def _owned(scene: Scene, login: str, asked: dict[str, Any]) -> list[Shape]:
    from resolvent.forge_server.graphql.repository import repository

    # There is one repository, which is public and nobody's fork.
    wanted = login == scene.holdings.owner and not asked.get("isFork") and asked.get("privacy") in (None, "PUBLIC")
    return [repository(scene)] if wanted else []


def _owned_as(scene: Scene, login: str, name: str) -> Shape:
    from resolvent.forge_server.graphql.repository import repository_named

    return repository_named(scene, login, name)
