"""Webhooks, for admins: where to post what, and what was posted."""

from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import not_found
from resolvent.forge_server.hooks import Delivery, Hook, Hooks
from resolvent.forge_server.rest.asking import Answer, Asking, gone, in_repo
from resolvent.forge_server.rest.fields import Fields, invalid
from resolvent.forge_server.shapes.hooks import delivery, delivery_item, full_hook

_HOOK = "/hooks/{id:int}"
_DELIVERY = f"{_HOOK}/deliveries/{{delivery:int}}"


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/hooks", listed),
        in_repo("POST", "/hooks", create),
        in_repo("GET", _HOOK, show),
        in_repo("PATCH", _HOOK, change),
        in_repo("DELETE", _HOOK, remove),
        in_repo("GET", f"{_HOOK}/config", configuration),
        in_repo("PATCH", f"{_HOOK}/config", configure),
        in_repo("POST", f"{_HOOK}/pings", ping),
        in_repo("GET", f"{_HOOK}/deliveries", deliveries),
        in_repo("GET", _DELIVERY, one_delivery),
        in_repo("POST", f"{_DELIVERY}/attempts", redeliver),
    ]


def _hooks(asking: Asking) -> Hooks:
    """The hooks, which are not there for anybody but admins."""
    if asking.by.permission != "admin":
        raise not_found()
    hooks = asking.request.state.backstage.hooks
    assert isinstance(hooks, Hooks)
    return hooks


async def _hook(asking: Asking) -> Hook:
    return await _hooks(asking).one(asking.number("id"))


def _shape(asking: Asking, hook: Hook) -> dict[str, Any]:
    return full_hook(asking.sight, hook, _hooks(asking).deliveries(hook.id))


async def listed(asking: Asking) -> Response:
    return asking.listed(await _hooks(asking).all(), lambda hook: _shape(asking, hook))


def _said(fields: Fields) -> dict[str, Any]:
    """What the body says of a hook, each thing only if it does."""
    events, active = fields.texts("events"), fields.flag("active")
    said: dict[str, Any] = {"events": events and tuple(events), "active": active}
    return {name: value for name, value in said.items() if value is not None} | _configured(fields.inner("config"))


def _configured(config: Fields) -> dict[str, Any]:
    """Where a hook posts to and how, each thing only if it is said."""
    url, secret = config.text("url", longest=2048), config.text("secret", longest=1024)
    if url is not None and not url.startswith(("http://", "https://")):
        raise invalid("Hook", "url", "url is not a valid URL")
    said: dict[str, Any] = {"url": url, "secret": secret}
    said["content_type"] = config.choice("content_type", ("json", "form"))
    if "insecure_ssl" in config:
        said["insecure_ssl"] = config.plain("insecure_ssl") == "1"
    return {name: value for name, value in said.items() if value is not None}


async def create(asking: Asking) -> Response:
    hooks, fields = _hooks(asking), await asking.fields("Hook")
    fields.inner("config").filled("url")
    # Who names no type of content is sent forms, as on GitHub.
    said = {"content_type": "form", "events": ("push",)} | _said(fields)
    for hook in await hooks.all():
        if hook.url == said["url"] and set(hook.events) == set(said["events"]):
            raise invalid("Hook", "url", "Hook already exists on this repository")
    hook = await hooks.add(**said)
    return Answer(_shape(asking, hook), 201)


async def show(asking: Asking) -> Response:
    return Answer(_shape(asking, await _hook(asking)))


async def change(asking: Asking) -> Response:
    hook = await _hook(asking)
    fields = await asking.fields("Hook")
    said = _said(fields)
    events = set(said.get("events", hook.events)) | set(fields.texts("add_events") or ())
    said["events"] = tuple(sorted(events - set(fields.texts("remove_events") or ())))
    return Answer(_shape(asking, await _hooks(asking).change(hook.id, **said)))


async def remove(asking: Asking) -> Response:
    hook = await _hook(asking)
    await _hooks(asking).remove(hook.id)
    return gone()


async def configuration(asking: Asking) -> Response:
    return Answer(_shape(asking, await _hook(asking))["config"])


async def configure(asking: Asking) -> Response:
    hook = await _hook(asking)
    said = _configured(await asking.fields("Hook"))
    return Answer(_shape(asking, await _hooks(asking).change(hook.id, **said))["config"])


async def ping(asking: Asking) -> Response:
    hook = await _hook(asking)
    await _hooks(asking).ping(hook.id)
    return gone()


async def deliveries(asking: Asking) -> Response:
    hook = await _hook(asking)
    made = _hooks(asking).deliveries(hook.id)
    return asking.listed(made, lambda one: delivery_item(asking.sight, one))


async def _delivery(asking: Asking) -> Delivery:
    hook = await _hook(asking)
    made = _hooks(asking).delivery(asking.number("delivery"))
    if made.hook != hook.id:
        raise not_found()
    return made


async def one_delivery(asking: Asking) -> Response:
    return Answer(delivery(asking.sight, await _delivery(asking)))


async def redeliver(asking: Asking) -> Response:
    made = await _delivery(asking)
    await _hooks(asking).redeliver(made.id)
    return Answer({}, 202)
