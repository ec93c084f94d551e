"""Webhooks: what is written on the hub is posted to whoever asked for it, signed as GitHub signs."""

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from resolvent.domain.model import Value
from resolvent.errors import NotFound
from resolvent.forge_server.faults import Faults
from resolvent.forge_server.holdings import Occurrence
from resolvent.forge_server.hooks_payloads import payload_of, ping_of

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

NOTE = "hooks"
# GitHub waits no longer for an answer either.
PATIENCE_S = 10.0
KEPT = 1000
ANSWER_BYTES = 64 << 10


class Hook(Value):
    """Where to post which events; `*` among them is all."""

    id: int
    url: str
    secret: str = ""
    events: tuple[str, ...] = ("push",)
    active: bool = True
    content_type: Literal["json", "form"] = "json"
    insecure_ssl: bool = False
    created_at: float = 0.0
    updated_at: float = 0.0

    def wants(self, event: str) -> bool:
        """It is to be told of such an event."""
        return self.active and (event in self.events or "*" in self.events)


@dataclass(frozen=True)
class Delivery:
    """One post of one event to one hook; `status` is 0 when nobody answered."""

    id: int
    guid: str
    hook: int
    event: str
    action: str
    delivered_at: float
    headers: dict[str, str]
    payload: dict[str, Any]
    status: int = 0
    duration_s: float = 0.0
    redelivery: bool = False
    answer: str = ""


@dataclass(frozen=True)
class _Event:
    name: str
    action: str
    payload: dict[str, Any]


_HOOKS = TypeAdapter(tuple[Hook, ...])


@dataclass
class Hooks:
    """The webhooks of the hub, kept in its notes; deliveries are made one after another, in the order of the writes."""

    hub: "Hub"
    base: str
    faults: Faults
    delivered: list[Delivery] = field(default_factory=list)
    _due: asyncio.Queue[tuple[Hook, _Event, str]] = field(default_factory=asyncio.Queue)
    _numbers: int = 0

    async def all(self) -> tuple[Hook, ...]:
        """Every hook, the oldest first."""
        return _HOOKS.validate_json(await self.hub.note(NOTE) or "[]")

    async def one(self, id: int) -> Hook:
        """The hook with that id; NotFound if there is none."""
        for hook in await self.all():
            if hook.id == id:
                return hook
        raise NotFound(f"there is no webhook {id}")

    async def add(self, url: str, **said: Any) -> Hook:
        """A new hook; it is pinged at once, as on GitHub."""
        known, now = await self.all(), self.hub.clock.now()
        hook = Hook(id=1 + max((one.id for one in known), default=0), url=url, created_at=now, updated_at=now, **said)
        await self._keep((*known, hook))
        await self.ping(hook.id)
        return hook

    async def change(self, id: int, **said: Any) -> Hook:
        """Another address, secret, or other events for a hook."""
        now = await self.one(id)
        changed = Hook.model_validate(now.model_dump() | said | {"updated_at": self.hub.clock.now()})
        await self._keep(tuple(changed if hook.id == id else hook for hook in await self.all()))
        return changed

    async def remove(self, id: int) -> None:
        """Post nothing there any more; NotFound if there is no such hook."""
        gone = await self.one(id)
        await self._keep(tuple(hook for hook in await self.all() if hook.id != gone.id))

    async def ping(self, id: int) -> None:
        """Post a ping."""
        hook = await self.one(id)
        payload = ping_of(await self.hub.holdings(), self.base, hook_shape(hook, self.base))
        self._due.put_nowait((hook, _Event("ping", "", payload), str(uuid.uuid4())))

    async def heard(self, occurrence: Occurrence) -> None:
        """Have an occurrence posted to every hook that wants it; what is called `duplicate` by a fault, twice."""
        wanting = [hook for hook in await self.all() if hook.wants(occurrence.kind)]
        if not wanting:
            return
        payload = await payload_of(self.hub, occurrence, self.base)
        event = _Event(occurrence.kind, occurrence.action, payload)
        for hook in wanting:
            guid = str(uuid.uuid4())
            self._due.put_nowait((hook, event, guid))
            if self.faults.strikes("POST", f"{event.name}.{event.action}", webhook=True):
                self._due.put_nowait((hook, event, guid))

    def deliveries(self, hook: int) -> list[Delivery]:
        """What was posted to a hook, the newest first."""
        return [one for one in reversed(self.delivered) if one.hook == hook]

    def delivery(self, id: int) -> Delivery:
        """One delivery; NotFound when it was never made, or so long ago that it is forgotten."""
        for one in self.delivered:
            if one.id == id:
                return one
        raise NotFound(f"there is no delivery {id}")

    async def redeliver(self, id: int) -> None:
        """Post once more what was posted before, under the same delivery id."""
        made = self.delivery(id)
        event = _Event(made.event, made.action, made.payload)
        self._due.put_nowait((await self.one(made.hook), event, made.guid))

    async def idle(self) -> None:
        """Wait until everything that is due was posted."""
        await self._due.join()

    async def run(self) -> None:
        """Post what is due, until cancelled."""
        while True:
            hook, event, guid = await self._due.get()
            try:
                await self._post(hook, event, guid)
            finally:
                self._due.task_done()

    async def _post(self, hook: Hook, event: _Event, guid: str) -> None:
        import httpx

        body = json.dumps(event.payload).encode()
        if hook.content_type == "form":
            body = str(httpx.QueryParams({"payload": body.decode()})).encode()
        headers = headers_of(hook, event.name, guid=guid, body=body)
        begun, status, answer = time.monotonic(), 0, ""
        try:
            async with (
                httpx.AsyncClient(verify=not hook.insecure_ssl, timeout=PATIENCE_S, trust_env=False) as client,
                client.stream("POST", hook.url, content=body, headers=headers) as response,
            ):
                status = response.status_code
                async for text in response.aiter_bytes():
                    answer += text.decode("utf-8", "replace")
                    if len(answer) > ANSWER_BYTES:
                        break
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            answer = str(error)
        self._numbers += 1
        again = any(one.guid == guid for one in self.delivered)
        delivery = Delivery(
            id=self._numbers,
            guid=guid,
            hook=hook.id,
            event=event.name,
            action=event.action,
            delivered_at=self.hub.clock.now(),
            headers=headers,
            payload=event.payload,
            status=status,
            duration_s=time.monotonic() - begun,
            redelivery=again,
            answer=answer[:ANSWER_BYTES],
        )
        self.delivered.append(delivery)
        del self.delivered[:-KEPT]

    async def _keep(self, hooks: tuple[Hook, ...]) -> None:
        await self.hub.set_note(NOTE, _HOOKS.dump_json(hooks).decode())


def headers_of(hook: Hook, event: str, *, guid: str, body: bytes) -> dict[str, str]:
    """The headers of a delivery; the signature is of exactly these bytes."""
    kind = "application/json" if hook.content_type == "json" else "application/x-www-form-urlencoded"
    headers = {
        "accept": "*/*",
        "content-type": kind,
        "user-agent": "GitHub-Hookshot/rehearsal",
        "x-github-delivery": guid,
        "x-github-event": event,
        "x-github-hook-id": str(hook.id),
        "x-github-hook-installation-target-type": "repository",
    }
    if hook.secret:
        digests = {"x-hub-signature": "sha1", "x-hub-signature-256": "sha256"}
        for name, digest in digests.items():
            signed = hmac.new(hook.secret.encode(), body, getattr(hashlib, digest)).hexdigest()
            headers[name] = f"{digest}={signed}"
    return headers


def hook_shape(hook: Hook, base: str) -> dict[str, Any]:
    """A hook as GitHub tells of it; its secret is not told."""
    config = {"url": hook.url, "content_type": hook.content_type, "insecure_ssl": str(int(hook.insecure_ssl))}
    return {
        "type": "Repository",
        "id": hook.id,
        "name": "web",
        "active": hook.active,
        "events": list(hook.events),
        "config": config | ({"secret": "********"} if hook.secret else {}),
    }
