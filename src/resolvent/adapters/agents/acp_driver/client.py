"""Our side of the protocol: what an agent may tell us and ask of us."""

from typing import NoReturn

import acp
from acp import schema

from resolvent.adapters.agents.acp_driver.narrator import Narrator
from resolvent.domain.transcript import shortened


class Client:
    """Our side of the protocol: it listens once the turn began, and allows what is asked, for the box is the wall."""

    def __init__(self, narrator: Narrator) -> None:
        self.listening = False
        self._narrator = narrator

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        """Tell what the agent reports; what it repeats of an earlier turn is not told again."""
        if self.listening:
            self._narrator.hear(update)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: object
    ) -> schema.RequestPermissionResponse:
        """The first way to allow it; without one it is refused, and that is worth a notice."""
        asked = shortened(tool_call.title or tool_call.kind or tool_call.tool_call_id, 200)
        for kind in ("allow_once", "allow_always"):
            for option in options:
                if option.kind == kind:
                    self._narrator.notice(f"allowed, for it asked: {asked}", lasting=False)
                    return schema.RequestPermissionResponse(
                        outcome=schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                    )
        self._narrator.notice(f"not allowed, for it offered no way to: {asked}")
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))

    async def create_terminal(self, **_: object) -> NoReturn:
        """Not ours to give; without a word of its own the library would say that there is one."""
        raise acp.RequestError.method_not_found("terminal/create")
