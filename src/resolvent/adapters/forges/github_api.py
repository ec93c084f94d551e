"""Asking GitHub: what is read is asked again until it answers, what is written is sent once, and limits are kept.

Nothing of githubkit is imported before the first question.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from resolvent.adapters.forges.github_budget import Budget, held
from resolvent.adapters.forges.github_models import Model, Models
from resolvent.adapters.forges.github_place import GitHubPlace
from resolvent.adapters.forges.github_refusals import Answer, from_graphql, graphql_kinds, refusal
from resolvent.errors import ForgeDown, ForgeRefused, NotFound, ResolventError

if TYPE_CHECKING:
    from resolvent.adapters.forges.github_wire import Wire

Params = Mapping[str, str | int]

_TRIES = 4
_PAGE = 100
_MAX_PAGES = 1000
_REDIRECTS = 3
# What is in an address that leads on by a cursor.
_CURSORS = frozenset(("after", "before"))
_FAR = "GitHub led us elsewhere: "


class Api:
    """GitHub as one identity sees it; answers are parsed by githubkit's models."""

    def __init__(self, place: GitHubPlace, *, page: int = _PAGE) -> None:
        self.where = place.where
        self.app = place.app if not place.token else ""
        self._place = place
        self._page = page
        self._lent = ""
        self.budget = Budget(reserve=place.reserve, now=time.time)
        self._models = Models()

    @cached_property
    def _wire(self) -> "Wire":
        from resolvent.adapters.forges.github_wire import Wire

        return Wire(self._place, self.budget)

    async def get(self, model: Model, path: str, params: Params | None = None) -> Any:
        """One thing, read now; NotFound if it is not there."""
        return self._models.parsed(model, await self._read(path, params))

    async def each(
        self, model: Model, path: str, params: Params | None = None, *, within: str = ""
    ) -> AsyncGenerator[Any, None]:
        """Every thing of a listing, page by page as they are taken; `within` names the list in the answer."""
        async with aclosing(self._pages(model, path, params, within=within)) as pages:
            async for page, _ in pages:
                for one in page:
                    yield one

    async def every(self, model: Model, path: str, params: Params | None = None) -> list[Any]:
        """Every thing of a listing that things may leave while it is read: by being closed, or deleted."""
        found: dict[int, Any] = {}
        for _ in range(_TRIES):
            before, moves = len(found), False
            async for page, onward in self._pages(model, path, params):
                found |= {one.id: one for one in page}
                moves = moves or bool(onward and not _CURSORS & self._near(onward)[1].keys())
            # By numbered pages, one that leaves moves all behind it up, and the first of the next page past us: those
            # are read until nothing new is in them. A second look at the same costs nothing.
            if not moves or len(found) == before:
                break
        return list(found.values())

    async def _pages(
        self, model: Model, path: str, params: Params | None, *, within: str = ""
    ) -> AsyncGenerator[tuple[list[Any], str], None]:
        """The pages of a listing, each with the address of the next one."""
        url, asked = path, {**(params or {}), "per_page": self._page}
        for _ in range(_MAX_PAGES):
            answer = await self._read(url, asked)
            found = self._models.parsed(model, answer, many=True, within=within)
            onward = _next_page(answer.headers.get("link", ""))
            if answer.kept and not onward and len(found) >= self._page:
                # What is kept of a full last page does not tell of one that came after it, and where pages go by
                # cursor no number can be tried.
                answer = await self._read(url, asked, anew=True)
                found = self._models.parsed(model, answer, many=True, within=within)
                onward = _next_page(answer.headers.get("link", ""))
            yield found, onward
            if not onward:
                return
            url, asked = self._near(onward)
        raise ForgeDown(f"the listing {path} does not end")

    async def send(self, method: str, path: str, said: Mapping[str, Any] | None = None, *, model: str = "") -> Any:
        """Write once. ForgeDown: it may have happened; look before trying again."""
        answer = await self._once(method, path, said=said)
        if 300 <= answer.status < 400:
            raise await self._moved()
        return self._models.parsed(model, answer) if model else answer

    async def remove(self, path: str) -> None:
        """Have something gone that only ever goes once: tried again like a read, and gone already is fine."""
        try:
            answer = await self._again("DELETE", path)
        except NotFound:
            return
        if 300 <= answer.status < 400:
            raise await self._moved()

    async def query(self, text: str, variables: Mapping[str, Any], *, write: bool = False) -> Mapping[str, Any]:
        """What a GraphQL document answers; one that writes is sent once."""
        said = {"query": text, "variables": dict(variables)}
        url = self.where.api.removesuffix("/v3") + "/graphql"
        answer = await (self._once("POST", url, said=said) if write else self._again("POST", url, said=said))
        errors, found = answer.said.get("errors"), answer.said.get("data")
        if errors or not isinstance(found, dict):
            until = self.budget.limited_graphql(answer.headers, answer.message, graphql_kinds(errors))
            if until is not None:
                raise held(self.clean(f"GitHub limits us ({answer.message})"), until)
        if errors:
            raise from_graphql(errors, repo=self.where.repo)
        if not isinstance(found, dict):
            raise ForgeDown("GitHub did not answer with sense: data")
        return found

    async def log(self, path: str) -> str:
        """The end of a text; empty when it is not kept any more."""
        self.budget.admit("core", write=False)
        return await self._wire.log(path)

    async def token(self) -> str:
        """The token of this moment, for git."""
        self._lent = await self._wire.token()
        return self._lent

    async def close(self) -> None:
        if "_wire" in self.__dict__:
            await self._wire.close()

    def clean(self, text: str) -> str:
        """The text without any secret of ours."""
        for secret in filter(None, (self._place.token, self._place.private_key, self._lent)):
            text = text.replace(secret, "…")
        return text

    # --- one question

    async def _read(self, url: str, params: Params | None, *, anew: bool = False) -> Answer:
        """Read, and follow where a renamed repository has gone; NotFound for what is another repository's by now."""
        asked = url
        for _ in range(_REDIRECTS):
            answer = await self._again("GET", url, params=params, anew=anew)
            if not 300 <= answer.status < 400:
                return answer
            url, params = self._near(answer.headers.get("location", ""))
            if not await self._ours(asked, url):
                raise NotFound(
                    f"{self.where.repo} has nothing at {urlsplit(asked).path}: it is in another repository now",
                    hint=f"gh repo view {self.where.repo}",
                )
        raise ForgeDown(f"{_FAR}round in circles")

    async def _again(self, method: str, url: str, **asked: Any) -> Answer:
        """Ask until there is an answer, a few times; what can be seen to last is not waited for here."""
        for nth in range(1, _TRIES):
            try:
                return await self._once(method, url, read=True, **asked)
            except ForgeDown as error:
                if "until" in error.details:
                    raise
                await asyncio.sleep(self._place.retry_s * 2 ** (nth - 1) * random.uniform(0.5, 1.0))
        return await self._once(method, url, read=True, **asked)

    async def _once(self, method: str, url: str, *, read: bool = False, **asked: Any) -> Answer:
        self.budget.admit(_resource(url), write=not read)
        answer = await self._wire.ask(method, url, **asked)
        if answer.status < 400:
            return answer
        until = self.budget.limited(answer.status, answer.headers, answer.message)
        if until is not None:
            raise held(self.clean(f"GitHub limits us ({answer.message})"), until)
        error = refusal(answer, repo=self.where.repo)
        error.message = self.clean(error.message)
        error.args = (error.message,)
        error.details.setdefault("status", answer.status)
        raise error

    async def _moved(self) -> ResolventError:
        """The error for a write to where the repository was: reads follow it, a write must be meant."""
        now = await self.get("FullRepository", self.where.path())
        if now.full_name.casefold() == self.where.repo.casefold():
            said = "this is in another repository now: nothing was written"
            return ForgeRefused(
                f"{self.where.repo}: {said}", hint=f"gh issue list --repo {self.where.repo}", moved=True
            )
        return ForgeRefused(
            f"{self.where.repo} is called {now.full_name} now: nothing was written",
            hint=f'set forge.repo = "{now.full_name}"',
            moved=True,
        )

    async def _ours(self, asked: str, there: str) -> bool:
        """What we are led to is in our repository, whatever that is called by now; an issue may have left it."""
        ours = self.where.path()
        place = asked.removeprefix(self.where.api)
        if place == ours or not place.startswith(("/repos/", "/repositories/")):
            return True
        now = await self.get("FullRepository", ours)
        names = (f"/repos/{now.full_name}/".casefold(), f"/repositories/{now.id}/")
        return f"{there.removeprefix(self.where.api)}/".casefold().startswith(names)

    def _near(self, url: str) -> tuple[str, dict[str, str | int]]:
        """An address GitHub named, when it is on the server we ask anyway."""
        there, here = urlsplit(url), urlsplit(self.where.api)
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise ForgeDown(f"{_FAR}{there.scheme}://{there.hostname or ''}")
        return f"{there.scheme}://{there.netloc}{there.path}", dict(parse_qsl(there.query, keep_blank_values=True))


def _resource(url: str) -> str:
    path = urlsplit(url).path.removeprefix("/api/v3")
    return "search" if path.startswith("/search/") else "graphql" if path in ("/graphql", "/api/graphql") else "core"


def _next_page(link: str) -> str:
    for part in link.split(","):
        address, _, about = part.strip().partition(";")
        if 'rel="next"' in about and address.startswith("<"):
            return address.strip("<>")
    return ""
