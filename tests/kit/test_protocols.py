"""Three APIs over plain HTTP, and whatever a client may send instead."""

import gzip
import http.client
import json
import math
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resolvent.errors import UsageError
from resolvent.testing.model import Conversation, ScriptedModel

PATHS = ("/v1/messages", "/v1/responses", "/v1/chat/completions")
SHELL = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "/v1/messages": [{"name": "bash", "input_schema": SHELL}],
    "/v1/responses": [{"type": "function", "name": "bash", "parameters": SHELL}],
    "/v1/chat/completions": [{"type": "function", "function": {"name": "bash", "parameters": SHELL}}],
}


def post(model: ScriptedModel, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=20)
    try:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, sent, {name.replace("_", "-"): value for name, value in headers.items()})
        answered = connection.getresponse()
        names = {name.lower(): value for name, value in answered.getheaders()}
        return answered.status, names, answered.read()
    finally:
        connection.close()


def asking(path: str, text: str = "Hello.", **more: Any) -> dict[str, Any]:
    said = {"messages": [{"role": "user", "content": text}]}
    return {"model": "m", "tools": TOOLS[path], **({"input": text} if "responses" in path else said), **more}


def said_in(path: str, body: bytes) -> dict[str, Any]:
    """The words and calls of a whole reply, in the same shape for each API."""
    told = json.loads(body)
    if "messages" in path:
        words = [part["text"] for part in told["content"] if part["type"] == "text"]
        calls = [(part["name"], part["input"]) for part in told["content"] if part["type"] == "tool_use"]
    elif "responses" in path:
        words = [item["content"][0]["text"] for item in told["output"] if item["type"] == "message"]
        called = [item for item in told["output"] if item["type"] == "function_call"]
        calls = [(item["name"], json.loads(item["arguments"])) for item in called]
    else:
        message = told["choices"][0]["message"]
        words = [message["content"]] if message["content"] else []
        called = [call["function"] for call in message.get("tool_calls", [])]
        calls = [(call["name"], json.loads(call["arguments"])) for call in called]
    return {"words": words, "calls": calls}


@pytest.mark.parametrize("path", PATHS)
def test_one_step_says_the_same_through_every_api(path: str) -> None:
    with ScriptedModel([[{"think": "hm"}, {"text": "Let me see."}, {"bash": "ls"}]]) as model:
        status, _, body = post(model, path, asking(path))
    assert status == 200
    assert said_in(path, body) == {"words": ["Let me see."], "calls": [("bash", {"command": "ls"})]}


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_holds_the_whole_text_in_pieces(path: str) -> None:
    text = 'A long answer, with ümlauts, and "quotes".\n' * 50
    with ScriptedModel([{"text": text}]) as model:
        status, headers, body = post(model, path, asking(path, stream=True))
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    told = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: {")]
    events = [json.loads(line) for line in told]
    pieces = [
        event.get("delta", {}).get("text", "")
        if "messages" in path
        else event.get("delta", "")
        if "responses" in path
        else "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        for event in events
    ]
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == text
    assert len(events) > 20


@pytest.mark.parametrize("path", PATHS)
def test_a_retry_of_the_same_request_gets_the_very_same_answer(path: str) -> None:
    with ScriptedModel([{"bash": "ls"}, {"text": "never"}]) as model:
        assert post(model, path, asking(path))[2] == post(model, path, asking(path))[2]


@pytest.mark.parametrize("path", PATHS)
def test_a_limit_states_its_reset_in_the_headers_of_its_vendor(path: str) -> None:
    with ScriptedModel([{"limit": {"seconds": 30}}]) as model:
        began = time.time()
        status, headers, body = post(model, path, asking(path))
    assert (status, int(headers["retry-after"])) == (429, 30)
    kind = json.loads(body)["error"]["type"]
    if "messages" in path:
        stated = time.strptime(headers["anthropic-ratelimit-requests-reset"], "%Y-%m-%dT%H:%M:%SZ")
        assert kind == "rate_limit_error"
        assert began + 30 <= time.mktime(stated) - time.timezone <= time.time() + 32
    else:
        assert (kind, headers["x-ratelimit-reset-requests"]) == ("requests", "30s")


def test_a_quota_is_told_as_each_vendor_tells_it() -> None:
    with ScriptedModel([{"limit": {"seconds": 30, "kind": "quota"}}]) as model:
        began = math.floor(time.time())
        _, headers, _ = post(model, "/v1/messages", asking("/v1/messages"))
        assert headers["anthropic-ratelimit-unified-status"] == "rejected"
        assert int(headers["anthropic-ratelimit-unified-reset"]) >= began + 30
        error = json.loads(post(model, "/v1/responses", asking("/v1/responses"))[2])["error"]
        assert error["type"] == "usage_limit_reached"
        assert error["resets_at"] >= began + 30


def test_a_limit_can_be_counted_instead_of_timed() -> None:
    path = "/v1/messages"
    with ScriptedModel([{"limit": {"seconds": 600, "times": 2}, "text": "at last"}]) as model:
        answers = [post(model, path, asking(path)) for _ in range(3)]
    assert [(status, headers.get("retry-after")) for status, headers, _ in answers] == [
        (429, "600"),
        (429, "600"),
        (200, None),
    ]


def test_what_a_step_expects_and_does_not_get_is_refused_and_kept() -> None:
    path = "/v1/messages"
    with ScriptedModel([{"expect": "^Good", "text": "fine"}]) as model:
        assert post(model, path, asking(path, "Bad morning."))[0] == 418
        assert post(model, path, asking(path, "Good morning."))[0] == 200
        assert [seen.unexpected for seen in model.asked] == ["Bad morning.", ""]


def test_requests_without_tools_take_no_step_and_get_what_fits_their_schema() -> None:
    path = "/v1/chat/completions"
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "sort": {"enum": ["a", "b"]}}}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    with ScriptedModel([{"text": "the one step"}]) as model:
        body = post(model, path, asking(path, tools=[], response_format=form))[2]
        assert json.loads(said_in(path, body)["words"][0]) == {"title": "scripted side reply", "sort": "a"}
        assert (model.asked, [seen.side for seen in model.log]) == ((), [True])
    with ScriptedModel([{"text": "the one step"}], toolless=True) as model:
        assert said_in(path, post(model, path, asking(path, tools=[]))[2])["words"] == ["the one step"]


def test_tools_are_fitted_to_the_names_of_their_own_schemas() -> None:
    path = "/v1/chat/completions"

    def offers(name: str, *names: str) -> dict[str, Any]:
        properties = {one: {"type": "string"} for one in names}
        return {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}

    tools = [
        offers("dev__shell", "script"),
        offers("write_file", "filePath", "content"),
        offers("edit", "path", "before", "after"),
    ]
    change = {"path": "a", "old": "x", "new": "y"}
    steps = [
        [
            {"bash": "ls"},
            {"write": {"path": "a", "content": "x"}},
            {"edit": change},
            {"tool": "edit", "input": {"z": 1}},
        ]
    ]
    with ScriptedModel(steps) as model:
        body = post(model, path, asking(path, tools=tools))[2]
    assert said_in(path, body)["calls"] == [
        ("dev__shell", {"script": "ls"}),
        ("write_file", {"filePath": "a", "content": "x"}),
        ("edit", {"path": "a", "before": "x", "after": "y"}),
        ("edit", {"z": 1}),
    ]


def test_models_tokens_and_places_that_are_not_there() -> None:
    with ScriptedModel([{"text": "hi"}]) as model:
        assert json.loads(post(model, "/v1/messages/count_tokens", {"messages": []})[2])["input_tokens"] > 0
        assert post(model, "/v1/nothing", {})[0] == 404
        connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=20)
        listed = []
        for path in ("/v1/models", "/nothing"):
            connection.request("GET", path)
            answered = connection.getresponse()
            listed.append((answered.status, answered.read()))
        connection.close()
        assert [status for status, _ in listed] == [200, 404]
        assert json.loads(listed[0][1])["data"][0]["id"] == "scripted-1"
        assert [seen.api for seen in model.log] == ["count", "other", "models", "other"]


def test_bodies_may_be_compressed_or_come_in_chunks() -> None:
    path = "/v1/messages"
    with ScriptedModel([{"text": "read"}]) as model:
        body = json.dumps(asking(path)).encode()
        assert post(model, path, gzip.compress(body), content_encoding="gzip")[0] == 200
        chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[at : at + 1]) for at in range(len(body))) + b"0\r\n\r\n"
        assert post(model, path, chunks, transfer_encoding="chunked")[0] == 200


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"no json", {}),
        (b"\xff\xfe\x00", {}),
        (b"[" * 200_000, {}),
        (b"{}", {"content_encoding": "gzip"}),
        (b"{}", {"content_encoding": "zstd"}),
        (b"zz\r\n{}", {"transfer_encoding": "chunked"}),
        (b"{}", {"content_length": "-1"}),
        (b"{}", {"content_length": "99999999999"}),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_what_cannot_be_read_is_refused_and_the_next_one_is_answered(
    path: str, body: bytes, headers: dict[str, str]
) -> None:
    with ScriptedModel([{"text": "still here"}]) as model:
        assert post(model, path, body, **headers)[0] == 400
        assert post(model, path, asking(path))[0] == 200


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "name", "tools", "function", "schema", "format"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["messages", "input", "tools", "system", "text", "stream", "response_format", "model"]), JUNK
    )
)
@pytest.mark.parametrize("path", PATHS)
def test_requests_of_any_shape_are_answered(path: str, body: dict[str, Any]) -> None:
    with ScriptedModel([{"text": "whatever"}]) as model:
        assert post(model, path, body)[0] == 200


@pytest.mark.parametrize(
    "script",
    [
        [{"txet": "hi"}],
        [{"text": "hi", "bash": "ls"}],
        [{"text": 7}],
        [{"write": {"path": "a"}}],
        [{"fail": {"sttaus": 500}}],
        [{"cut": True, "hang": True}],
        [{"malformed": "somehow"}],
        [{"text": "hi", "expect": "("}],
        [{"text": "hi", "usage": {"tokens": 3}}],
        ["just words"],
    ],
)
def test_a_script_that_cannot_be_meant_is_refused_before_it_plays(script: Any) -> None:
    with pytest.raises(UsageError, match="scenario default, step 0"):
        ScriptedModel(script)


def test_a_mistake_in_a_callable_is_told_when_the_model_ends() -> None:
    def broken(conversation: Conversation, step: int) -> dict[str, str]:
        return {"text": conversation.tools[7]}

    path = "/v1/messages"
    cut_off = pytest.raises(http.client.RemoteDisconnected)
    with pytest.raises(IndexError), ScriptedModel(broken) as model, cut_off:
        post(model, path, asking(path))
