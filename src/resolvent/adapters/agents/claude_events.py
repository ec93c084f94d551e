"""What Claude Code prints as stream-json, line by line, as moments."""

from collections.abc import Iterator
from typing import Any

from resolvent.adapters.agents.lines import count, mapping, number, parsed, rows, shown, text
from resolvent.domain.job import Usage
from resolvent.domain.prices import Price, price_of, priced
from resolvent.domain.transcript import (
    FileChanged,
    Moment,
    Noticed,
    Retried,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolCalled,
)

Event = dict[str, Any]

# The tools that say which file they change, and under which name.
CHANGES = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
# A program may leave calls without an answer; the oldest are forgotten.
MOST_OPEN_CALLS = 1000
MOST_NOTICE = 500


class ClaudeListener:
    """Turns the lines of one job into moments; `price` is for what it spent before it tells so itself."""

    def __init__(self, price: Price | None = None) -> None:
        self._price = price
        self._open: dict[str, tuple[str, str]] = {}
        # What the results told, and since the last one what each message of the model took, with its sum.
        self._settled = Usage()
        self._taken: dict[str, Usage] = {}
        self._running = Usage()

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        """What one line tells; nothing for one that cannot be read."""
        event = parsed(line)
        return () if event is None else tuple(self._moments(event))

    def _moments(self, event: Event) -> Iterator[Moment]:
        kind = event.get("type")
        if kind == "system":
            yield from _system(event)
        elif kind == "assistant":
            yield from self._said(event)
        elif kind == "user":
            yield from self._answered(event)
        elif kind == "rate_limit_event":
            yield from _quota(mapping(event.get("rate_limit_info")))
        elif kind == "result":
            spent = since_last_result(event)
            self._taken, self._running = {}, Usage()
            self._settled += told_usage(event) if spent is None else spent
            yield Spent(usage=self._settled)

    def _said(self, event: Event) -> Iterator[Moment]:
        message = mapping(event.get("message"))
        for block in rows(message.get("content")):
            if block.get("type") == "text" and (words := text(block.get("text")).strip()):
                # Its own words in place of the model's: the model did not answer.
                yield Noticed(text=words[:MOST_NOTICE]) if event.get("is_api_error_message") else Said(text=words)
            elif block.get("type") == "thinking" and (words := text(block.get("thinking")).strip()):
                yield Thought(text=words)
            elif block.get("type") == "tool_use":
                yield self._called(block)
        yield from self._spent(message)

    def _called(self, block: Event) -> Moment:
        call, tool, given = text(block.get("id"), 200), text(block.get("name"), 200), mapping(block.get("input"))
        path = text(given.get(CHANGES.get(tool, "")), 4096)
        if path:
            self._open[call] = (tool, path)
            if len(self._open) > MOST_OPEN_CALLS:
                del self._open[next(iter(self._open))]
        command = given.get("command") if tool == "Bash" else None
        return ToolCalled(call=call, tool=tool, input=shown(command if isinstance(command, str) else given))

    def _answered(self, event: Event) -> Iterator[Moment]:
        for block in rows(mapping(event.get("message")).get("content")):
            if block.get("type") != "tool_result":
                continue
            call, failed = text(block.get("tool_use_id"), 200), block.get("is_error") is True
            yield ToolAnswered(call=call, output=_output(block.get("content")), failed=failed)
            tool, path = self._open.pop(call, ("", ""))
            if path and not failed:
                made = tool == "Write" and mapping(event.get("tool_use_result")).get("type") == "create"
                yield FileChanged(path=path, change="add" if made else "update")

    def _spent(self, message: Event) -> Iterator[Moment]:
        """One message comes in several events, each of which tells the same usage."""
        id, price = text(message.get("id"), 200), self._price or price_of(text(message.get("model"), 200), {})
        # Only the result tells dollars: of a turn that has none this is all that is ever known.
        usage = priced(told_usage({"usage": message.get("usage")}), price)
        before = self._taken.get(id, Usage())
        if usage == before:
            return
        self._taken[id] = usage
        self._running = self._running.beyond(before) + usage
        yield Spent(usage=self._settled + self._running)


def _system(event: Event) -> Iterator[Moment]:
    subtype = event.get("subtype")
    if subtype == "api_retry":
        yield retried(event)
    elif subtype == "permission_denied":
        yield Noticed(text=f"{text(event.get('tool_name'), 200)} was refused: {_first(event.get('message'))}")
    elif subtype == "compact_boundary":
        yield Noticed(text="its conversation was summarised to make room")
    elif subtype == "init":
        yield from (Noticed(text=notice) for notice in broken_servers(event))


def _quota(limit: Event) -> Iterator[Moment]:
    if limit.get("status") == "rejected":
        yield Noticed(text=f"the quota {text(limit.get('rateLimitType'), 100)} is used up".replace("  ", " "))


def retried(event: Event) -> Retried:
    """The program asks the model again."""
    return Retried(
        attempt=count(event.get("attempt")),
        status=count(event.get("error_status")),
        reason=text(event.get("error"), 200),
        delay_s=number(event.get("retry_delay_ms")) / 1000,
    )


def _output(content: object) -> str:
    if isinstance(content, list):
        return text("\n".join(text(row.get("text")) or f"[{text(row.get('type'), 50)}]" for row in rows(content)))
    return shown(content) if content is not None else ""


def _first(message: object) -> str:
    """The first sentence: what follows is advice to the model."""
    return text(message, 10_000).partition(". ")[0][:MOST_NOTICE]


def broken_servers(init: Event) -> tuple[str, ...]:
    """A notice for each MCP server that the program could not start."""
    return tuple(
        f"MCP server {text(server.get('name'), 200)} did not start ({text(server.get('status'), 50)})"
        for server in rows(init.get("mcp_servers"))
        if server.get("status") in ("failed", "needs-auth")
    )


def told_usage(event: Event) -> Usage:
    """The dollars and tokens of one event, as the API counts them: cached input is not in its input."""
    usage = mapping(event.get("usage"))
    cached = count(usage.get("cache_read_input_tokens"))
    fresh = count(usage.get("input_tokens")) + count(usage.get("cache_creation_input_tokens"))
    return Usage(
        usd=number(event.get("total_cost_usd")),
        input_tokens=fresh + cached,
        cached_tokens=cached,
        output_tokens=count(usage.get("output_tokens")),
    )


def by_model(models: Event) -> Usage:
    """The sum over a table of models."""
    total = Usage()
    for model in rows(list(models.values())):
        cached = count(model.get("cacheReadInputTokens"))
        fresh = count(model.get("inputTokens")) + count(model.get("cacheCreationInputTokens"))
        total += Usage(
            usd=number(model.get("costUSD")),
            input_tokens=fresh + cached,
            cached_tokens=cached,
            output_tokens=count(model.get("outputTokens")),
        )
    return total


def since_last_result(result: Event) -> Usage | None:
    """What this process spent for this result, also when it went on with a session; None where it does not say."""
    models = result.get("model_usage_since_last_result")
    return by_model(models) if isinstance(models, dict) else None
