"""A forge that breaks on purpose: it is down, refuses our token, or does the write and loses the answer."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, ParamSpec, TypeVar

from resolvent.errors import ForgeDown, ForgeRefused
from resolvent.ports import Forge

P = ParamSpec("P")
T = TypeVar("T")
Fault = Literal["down", "lost", "auth"]


class FaultyForge:
    """Passes everything on but the writes named in `fail`: `{2: "down"}` is the second write of any kind,
    `{("comment", 1): "lost"}` the first comment."""

    def __init__(self, forge: Forge, *, fail: Mapping[int | tuple[str, int], Fault]) -> None:
        self.forge = forge
        self.fail = dict(fail)
        self.writes: list[str] = []
        self.login = forge.login
        self.trusted = forge.trusted
        self.fetch = forge.fetch
        self.default_branch = forge.default_branch
        self.issue = forge.issue
        self.search_issues = forge.search_issues
        self.pull_request = forge.pull_request
        self.pull_requests = forge.pull_requests
        self.comments = forge.comments
        self.comment_at = forge.comment_at
        self.head_of = forge.head_of
        self.required_checks = forge.required_checks
        self.await_checks = forge.await_checks
        self.open_issue = self._fallible("open_issue", forge.open_issue)
        self.open_pull_request = self._fallible("open_pull_request", forge.open_pull_request)
        self.comment = self._fallible("comment", forge.comment)
        self.edit_comment = self._fallible("edit_comment", forge.edit_comment)
        self.push = self._fallible("push", forge.push)
        self.rerun = self._fallible("rerun", forge.rerun)
        self.merge = self._fallible("merge", forge.merge)

    def _fallible(self, name: str, write: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        async def attempt(*args: P.args, **kwargs: P.kwargs) -> T:
            self.writes.append(name)
            fault = self.fail.get(len(self.writes)) or self.fail.get((name, self.writes.count(name)))
            if fault == "down":
                raise ForgeDown(f"the forge did not take the {name}: connection refused")
            if fault == "auth":
                raise ForgeRefused(f"the forge refused our token for the {name}", auth=True)
            answer = await write(*args, **kwargs)
            if fault == "lost":
                raise ForgeDown(f"the forge's answer to the {name} was lost: connection reset")
            return answer

        return attempt
