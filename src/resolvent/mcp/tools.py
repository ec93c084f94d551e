"""The tools of the branch server: arguments in, a JSON object out, errors as the clients know them."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from resolvent.domain.exploration import Exploration
from resolvent.errors import ExportRefused, NotFound, ResolventError, Unavailable, UsageError
from resolvent.exploring import MAX_CHARACTERS, Asked, Explorer
from resolvent.mcp import arguments as given

END_CHARACTERS = 20_000
SUMMARY_CHARACTERS = 400
MAX_FILE_BYTES = 8 << 20
MAX_PATCH_CHARACTERS = 1 << 20
MAX_PATHS = 1000

Answer = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """One tool: what it is called and does, what it takes, and the function behind it."""

    name: str
    description: str
    arguments: type[given.Arguments]
    function: Callable[[Any], Awaitable[Answer]]
    changes: bool = False

    @property
    def schema(self) -> Answer:
        return self.arguments.model_json_schema()


class Tools:
    """Everything a client can call, by name."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        own = (
            Tool(
                "parallel_explore",
                "Fork a branch and let an agent answer prompts in each fork. Returns at once; poll get_branch, or"
                " wait_branch, until the status is succeed or failed. Branches do not see each other.",
                given.Explore,
                self.parallel_explore,
                changes=True,
            ),
            Tool("get_branch", "How far a branch is, and how its output ends.", given.OfBranch, self.get_branch),
            Tool("branch_output", "What the agent of a branch printed.", given.Output, self.branch_output),
            Tool("branch_read_file", "A file as it is in a branch.", given.File, self.branch_read_file),
            Tool("list_branches", "The branches there are, newest first.", given.Listing, self.list_branches),
            Tool("branch_diff", "What a branch changed since its commit.", given.OfBranch, self.branch_diff),
            Tool("wait_branch", "As get_branch, once the branch has ended.", given.Wait, self.wait_branch),
            Tool(
                "delete_branch",
                "Stop the agent of a branch and remove the branch. Work in it is kept under the git ref returned.",
                given.OfBranch,
                self.delete_branch,
                changes=True,
            ),
        )
        self.by_name = {tool.name: tool for tool in own}

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> tuple[Answer, bool]:
        """The tool's answer and whether it is an error; whatever a client can do wrong is one."""
        tool = self.by_name.get(name)
        if tool is None:
            return _error("404", f"there is no tool {name[:80]!a}; there are: {', '.join(self.by_name)}"), True
        try:
            asked = tool.arguments.model_validate(arguments or {})
        except ValidationError as error:
            return _error("400", _faults(error)), True
        try:
            return await tool.function(asked), False
        except ResolventError as error:
            hint = f" (next: {error.hint})" if error.hint else ""
            return _error(_code(error), f"{error.message}{hint}"), True

    async def parallel_explore(self, asked: given.Explore) -> Answer:
        """Record the branches and name them."""
        rows = await self._explorer.explore(
            Asked(
                prompts=tuple(asked.shared_prompt_sequence),
                parent=asked.parent_branch_id.strip(),
                count=asked.num_branches,
                agent=asked.agent.strip(),
                project=asked.project_name,
            )
        )
        return {"branches": [_named(row) for row in rows]}

    async def get_branch(self, asked: given.OfBranch) -> Answer:
        """One branch with the end of its output."""
        return await self._shown(await self._explorer.branch(asked.branch_id.strip()))

    async def wait_branch(self, asked: given.Wait) -> Answer:
        """As get_branch, but later."""
        named = asked.branch_id.strip()
        return await self._shown(await self._explorer.wait(named, timeout_s=asked.timeout_seconds))

    async def branch_output(self, asked: given.Output) -> Answer:
        """The transcript, or its end."""
        named = asked.branch_id.strip()
        most = MAX_CHARACTERS if asked.full_output else END_CHARACTERS
        # One more than is shown tells whether there is more.
        text = await self._explorer.output(named, characters=most + 1)
        return {"output": text[-most:], "truncated": len(text) > most}

    async def branch_read_file(self, asked: given.File) -> Answer:
        """Text as text, anything else as base64."""
        content = await self._explorer.read_file(asked.branch_id.strip(), asked.file_path)
        if len(content) > MAX_FILE_BYTES:
            raise UsageError(f"{asked.file_path} has {len(content)} bytes, and {MAX_FILE_BYTES} can be read")
        try:
            return {"content": content.decode(), "encoding": "utf-8"}
        except UnicodeDecodeError:
            return {"content": base64.b64encode(content).decode(), "encoding": "base64"}

    async def list_branches(self, asked: given.Listing) -> Answer:
        """Without output: that is asked of one branch at a time."""
        status = asked.status.strip().lower()
        rows = await self._explorer.branches(project=asked.project_name, status=status, limit=asked.limit)
        return {"branches": [_named(row) for row in rows]}

    async def branch_diff(self, asked: given.OfBranch) -> Answer:
        """The patch, and what it leaves out."""
        diff = await self._explorer.diff(asked.branch_id.strip())
        return {
            "diff": diff.patch[:MAX_PATCH_CHARACTERS],
            "truncated": len(diff.patch) > MAX_PATCH_CHARACTERS,
            "paths": list(diff.paths[:MAX_PATHS]),
            "paths_truncated": len(diff.paths) > MAX_PATHS,
            "ignored": list(diff.ignored),
            "base_commit": diff.base,
            "commit": diff.commit,
        }

    async def delete_branch(self, asked: given.OfBranch) -> Answer:
        """What was deleted, and where its work is kept."""
        row = await self._explorer.delete(asked.branch_id.strip())
        return {"id": row.id, "deleted": True, "rescue_ref": row.rescue or None}

    async def _shown(self, row: Exploration) -> Answer:
        end = (await self._explorer.output(row.id, characters=END_CHARACTERS)).strip()
        lines = end.splitlines() or [row.status_text]
        return _named(row) | {
            "output_ready": row.readable,
            "latest_snap": {
                "id": row.snap or None,
                "manifest_status": row.status,
                "snap_status": "succeed" if row.snap else "pending",
                "output": end,
            },
            "manifest": {"summary": (lines[-1] if row.readable else row.status_text)[:SUMMARY_CHARACTERS]},
        }


def _named(row: Exploration) -> Answer:
    # No key `error`: clients take an answer that has one for a call that failed.
    return {
        "id": row.id,
        "branch_id": row.id,
        "name": row.name,
        "display_name": row.display_name,
        "status": row.status,
        "status_text": row.status_text,
        "failure": row.error or None,
        "ended": row.ended,
        "project": row.project,
        "agent": row.agent,
        "parent": row.parent,
        "parent_branch_id": row.parent,
        "commit": row.commit,
        "prompts_answered": row.position,
        "prompts": len(row.prompts),
        "latest_snap_id": row.snap or None,
        "created_at": _instant(row.created_at),
        "updated_at": _instant(row.updated_at),
    }


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _error(code: str, message: str) -> Answer:
    return {"error": f"{code}: {message}"}


def _code(error: ResolventError) -> str:
    kinds = ((NotFound, "404"), (UsageError, "400"), (ExportRefused, "409"), (Unavailable, "503"))
    return next((code for kind, code in kinds if isinstance(error, kind)), "500")


def _faults(error: ValidationError) -> str:
    """Every fault with the argument it is in; values are not repeated."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults[:10])
