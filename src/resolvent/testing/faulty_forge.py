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
        self._read(forge)
        self.push = self._fallible("push", forge.push)
        self.delete_branch = self._fallible("delete_branch", forge.delete_branch)
        self.open_issue = self._fallible("open_issue", forge.open_issue)
        self.open_pull_request = self._fallible("open_pull_request", forge.open_pull_request)
        self.set_draft = self._fallible("set_draft", forge.set_draft)
        self.ask_for_review = self._fallible("ask_for_review", forge.ask_for_review)
        self.merge = self._fallible("merge", forge.merge)
        self.set_state = self._fallible("set_state", forge.set_state)
        self.label = self._fallible("label", forge.label)
        self.comment = self._fallible("comment", forge.comment)
        self.edit_comment = self._fallible("edit_comment", forge.edit_comment)
        self.react = self._fallible("react", forge.react)
        self.rerun = self._fallible("rerun", forge.rerun)
        self.claim = self._fallible("claim", forge.claim)
        self.release = self._fallible("release", forge.release)

    def _read(self, forge: Forge) -> None:
        self.login = forge.login
        self.trusted = forge.trusted
        self.permission = forge.permission
        # What it brings is in the checkout, and there the next time too.
        self.sync = forge.sync
        self.fetch = forge.fetch
        self.default_branch = forge.default_branch
        self.head_of = forge.head_of
        self.issue = forge.issue
        self.issues = forge.issues
        self.search_issues = forge.search_issues
        self.pull_request = forge.pull_request
        self.pull_requests = forge.pull_requests
        self.fetch_line = forge.fetch_line
        self.labelling = forge.labelling
        self.comments = forge.comments
        self.comments_since = forge.comments_since
        self.comment_at = forge.comment_at
        self.required_checks = forge.required_checks
        self.await_checks = forge.await_checks
        self.nudge = forge.nudge
        self.holder = forge.holder
        self.close = forge.close

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
