"""What can be written: the fields of Mutation, each in the name of who asks."""

from collections.abc import Awaitable, Callable
from typing import Any

from resolvent.errors import ForgeRefused
from resolvent.forge_server.graphql import writing_items, writing_pulls
from resolvent.forge_server.graphql.accounts import account
from resolvent.forge_server.graphql.refusals import refused
from resolvent.forge_server.graphql.scene import Scene, Shape

SCOPES = ("public_repo", "repo")
ARCHIVED = "Repository was archived so is read-only."
_SETTINGS = "https://github.com/settings/tokens"

Write = Callable[[Scene, dict[str, Any]], Awaitable[Shape]]


def mutation(scene: Scene) -> Shape:
    """The root of everything that is written."""
    writes: dict[str, Write] = {**writing_items.WRITES, **writing_pulls.WRITES}
    return {"__typename": "Mutation"} | {name: _written(scene, name, write) for name, write in writes.items()}


def _written(scene: Scene, name: str, write: Write) -> Callable[..., Awaitable[Shape]]:
    async def written(**given: Any) -> Shape:
        said = given["input"]
        _check_scopes(scene, name)
        try:
            payload = await write(scene, said)
        except ForgeRefused as e:
            if e.details.get("status") != 403 or e.message == ARCHIVED:
                raise
            verb = name[0].upper() + name[1:]
            words = f"{scene.by.login} does not have the correct permissions to execute `{verb}`"
            raise refused("FORBIDDEN", words) from e
        return {"clientMutationId": said.get("clientMutationId"), "actor": account(scene, scene.by.login)} | payload

    return written


def _check_scopes(scene: Scene, name: str) -> None:
    if scene.scopes is None or set(SCOPES) & set(scene.scopes):
        return
    required, granted = (", ".join(f"'{one}'" for one in scopes) for scopes in (SCOPES, scene.scopes))
    words = (
        "Your token has not been granted the required scopes to execute this query. "
        f"The '{name}' field requires one of the following scopes: [{required}], but your token has only been granted "
        f"the: [{granted}] scopes. Please modify your token's scopes at: {_SETTINGS}."
    )
    raise refused("INSUFFICIENT_SCOPES", words)
