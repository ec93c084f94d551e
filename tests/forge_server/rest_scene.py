"""A served forge with something on it, and githubkit, whose strict models read every answer."""

import ssl
from dataclasses import dataclass
from functools import cache
from typing import Any

from githubkit import GitHub
from githubkit.auth import TokenAuthStrategy
from starlette.routing import BaseRoute, Match, Route
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.forge_server.rest import routes

REPO = f"/repos/{OWNER}/{NAME}"

FIRST = b"""\
commit refs/heads/main
committer Ada <ada@example.org> 1767225600 +0000
data 6
First
M 100644 inline README.md
data 9
# Widget

M 100644 inline src/one.txt
data 4
one

commit refs/heads/topic
committer Ada <ada@example.org> 1767225660 +0000
data 19
Add two

As asked.

from refs/heads/main
M 100644 inline src/two.txt
data 4
two

"""


@dataclass
class Scene:
    """Where the routes are tried: a repository with `main`, and `topic` one commit ahead of it."""

    served: Served
    kit: GitHub[TokenAuthStrategy]
    main: str = ""
    topic: str = ""

    @property
    def rest(self) -> Any:
        """The typed methods; what they are given for owner and repository is always the same."""
        return self.kit.rest

    def kit_of(self, login: str) -> GitHub[TokenAuthStrategy]:
        """githubkit with somebody else's token."""
        return kit_of(self.served, login)

    def kit_as(self, auth: Any) -> GitHub[Any]:
        """githubkit, known otherwise than by a token."""
        return _kit(self.served, auth)

    async def commit(self, files: dict[str, str], *, parent: str = "", message: str = "A change") -> str:
        """A commit with these files added to those of its parent, made of git's own parts."""
        git = self.kit.rest.git
        lines: list[Any] = [{"path": path, "mode": "100644", "content": text} for path, text in files.items()]
        under = {"base_tree": parent} if parent else {}
        tree = (await git.async_create_tree(OWNER, NAME, tree=lines, **under)).parsed_data
        parents = [parent] if parent else []
        made = await git.async_create_commit(OWNER, NAME, message=message, tree=tree.sha, parents=parents)
        return made.parsed_data.sha

    async def branch(self, name: str, commit: str) -> None:
        """A new branch at a commit."""
        await self.kit.rest.git.async_create_ref(OWNER, NAME, ref=f"refs/heads/{name}", sha=commit)

    async def pull(self, *, head: str = "topic", title: str = "Add two", body: str = "Fixes #1", **more: Any) -> int:
        """A new pull request; its number."""
        said = {"head": head, "base": "main", "title": title, "body": body, **more}
        return (await self.kit.rest.pulls.async_create(OWNER, NAME, **said)).parsed_data.number


def kit_of(served: Served, login: str = OWNER) -> GitHub[TokenAuthStrategy]:
    """githubkit with somebody's token, without a cache and without second tries."""
    return _kit(served, TokenAuthStrategy(served.tokens[login]))


def _kit(served: Served, auth: Any) -> GitHub[Any]:
    return GitHub(
        auth,
        base_url=served.api,
        ssl_verify=ssl.create_default_context(cafile=served.ca),
        trust_env=False,
        http_cache=False,
        auto_retry=False,
    )


async def set_up(served: Served) -> Scene:
    """The scene, with both branches."""
    await served.hub.git("fast-import", "--quiet", input=FIRST)
    refs = (await served.hub.holdings()).refs
    return Scene(served, kit_of(served), main=refs["refs/heads/main"], topic=refs["refs/heads/topic"])


@cache
def _routes() -> list[BaseRoute]:
    return routes()


def route_of(method: str, path: str) -> str:
    """The name of the route that answers a request; empty when none does."""
    scope = {"type": "http", "method": method, "path": path.removeprefix("/api/v3"), "root_path": "", "headers": []}
    for route in _routes():
        if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
            return str(route.name)
    return ""
