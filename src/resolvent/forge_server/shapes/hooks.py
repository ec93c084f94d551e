"""Webhooks and what was delivered to them."""

from collections.abc import Sequence

from resolvent.forge_server.hooks import Delivery, Hook, hook_shape
from resolvent.forge_server.shapes.sight import Json, Sight, instant


def full_hook(sight: Sight, hook: Hook, deliveries: Sequence[Delivery]) -> Json:
    """A webhook and how the last delivery to it went; `deliveries` are its own, the newest first."""
    url = f"{sight.repo}/hooks/{hook.id}"
    last: Json = {"code": None, "status": "unused", "message": None}
    if deliveries:
        last = {"code": deliveries[0].status or None, "status": _word(deliveries[0]), "message": _word(deliveries[0])}
    return hook_shape(hook, sight.base) | {
        "url": url,
        "test_url": f"{url}/test",
        "ping_url": f"{url}/pings",
        "deliveries_url": f"{url}/deliveries",
        "created_at": instant(hook.created_at),
        "updated_at": instant(hook.updated_at),
        "last_response": last,
    }


def _word(made: Delivery) -> str:
    if not made.status:
        return "failed to connect to host"
    return "OK" if made.status < 400 else f"Invalid HTTP Response: {made.status}"


def delivery_item(sight: Sight, made: Delivery) -> Json:
    """A delivery, as a list names it."""
    return {
        "id": made.id,
        "guid": made.guid,
        "delivered_at": instant(made.delivered_at),
        "redelivery": made.redelivery,
        "duration": round(made.duration_s, 2),
        "status": _word(made),
        "status_code": made.status,
        "event": made.event,
        "action": made.action or None,
        "installation_id": None,
        "repository_id": sight.repo_id,
        "throttled_at": None,
    }


def delivery(sight: Sight, made: Delivery) -> Json:
    """A delivery with what was sent and answered."""
    return delivery_item(sight, made) | {
        "request": {"headers": made.headers, "payload": made.payload},
        "response": {"headers": {}, "payload": made.answer},
    }
