"""The tools as a server of the official SDK, which speaks every version of the protocol for us."""

import json
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext

from resolvent import __version__
from resolvent.mcp.tools import Tool, Tools

INSTRUCTIONS = (
    "Every branch is a sandbox with its own copy of the repository and one agent in it. Fork one with parallel_explore,"
    " wait for it with wait_branch, read branch_output, and fork the next from its id."
)


def protocol_server(tools: Tools) -> Server[Any]:
    """A server that lists the tools and calls them; errors of a tool are answers, never faults of the protocol."""

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in tools.by_name.values()])

    async def call_tool(_: ServerRequestContext[Any], asked: types.CallToolRequestParams) -> types.CallToolResult:
        answer, failed = await tools.call(asked.name, asked.arguments)
        text = types.TextContent(type="text", text=json.dumps(answer, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=answer, is_error=failed)

    return Server(
        "resolvent",
        version=__version__,
        title="Resolvent branch server",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.changes, destructive_hint=tool.name == "delete_branch", open_world_hint=False
        ),
    )
