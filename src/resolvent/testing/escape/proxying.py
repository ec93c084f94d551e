"""Attacks on the one way out: the proxy that serves an allow-list."""

from resolvent.domain.job import Job
from resolvent.testing.escape.arena import Arena, Attack
from resolvent.testing.escape.found import Broken, Found, Untried, escaped, safe
from resolvent.testing.escape.listeners import Listeners, listening

PORT = 3128


def hello(name: str) -> str:
    """A TLS ClientHello that asks for a host, as Latin-1 text."""
    host = name.encode()
    listed = b"\0" + len(host).to_bytes(2, "big") + host
    extension = b"\0\0" + (len(listed) + 2).to_bytes(2, "big") + len(listed).to_bytes(2, "big") + listed
    body = (
        b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + len(extension).to_bytes(2, "big") + extension
    )
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return (b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message).decode("latin-1")


async def _asked(arena: Arena, allowed: list[str], requests: list[tuple[str, str]]) -> list[str]:
    """What the proxy of a box with that allow-list answers to each."""
    if arena.rung.kind != "namespaces":
        raise Untried(f"the rung {arena.rung.name} has no network at all")

    def opened(job: Job) -> Job:
        assert job.box is not None
        return job.model_copy(update={"box": job.box.model_copy(update={"network": tuple(allowed)})})

    given = {"port": PORT, "requests": [list(request) for request in requests]}
    answers: list[str] = (await arena.attack("proxied", given, adjust=opened)).said
    return answers


def _connect(target: str, then: str = "") -> tuple[str, str]:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n", then


def _get(target: str) -> tuple[str, str]:
    return f"GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n", ""


async def _require_way_out(arena: Arena, ears: Listeners) -> None:
    """What is allowed gets through: else nothing that does not would mean anything."""
    here = f"localhost:{ears.port}"
    answers = await _asked(arena, [f"private!{here}"], [_connect(here, hello("localhost")), _get(here)])
    if not all("200" in answer for answer in answers) or not any("localhost" in word for word in ears.heard):
        raise Broken(f"what is allowed does not get through either: {answers}")
    ears.heard.clear()


def _judged(ears: Listeners, answers: list[str]) -> Found:
    through = [answer for answer in answers if " 200 " in answer.split("\r\n")[0] and "then " not in answer]
    if ears.heard or through:
        return escaped(f"the host heard {ears.heard}, the proxy said {through}")
    return safe(", ".join(dict.fromkeys(answer.split("\r\n")[0][:40] for answer in answers)))


async def unlisted(arena: Arena) -> Found:
    """Ask for hosts and ports that are not on the list, in every spelling."""
    async with listening() as ears:
        await _require_way_out(arena, ears)
        there = (f"127.0.0.1:{ears.port}", "unlisted.example:443", f"LOCALHOST.:{ears.port}", f"0x7f.1:{ears.port}")
        targets = (*there, f"[::1]:{ears.port}", f"allowed.example@127.0.0.1:{ears.port}", "allowed.example:444")
        requests = [request for target in targets for request in (_connect(target), _get(target))]
        return _judged(ears, await _asked(arena, ["allowed.example:443"], requests))


async def private_addresses(arena: Arena) -> Found:
    """Have a listed name that stands for an address of the host, or of its cloud, looked up."""
    async with listening() as ears:
        await _require_way_out(arena, ears)
        targets = [f"localhost:{ears.port}", f"127.0.0.1:{ears.port}", f"[::ffff:127.0.0.1]:{ears.port}"]
        cloud = ["169.254.169.254:80", "[fe80::1]:80", "0.0.0.0:80"]
        requests = [request for target in (*targets, *cloud) for request in (_connect(target), _get(target))]
        allowed = [*targets, *cloud, *(f"private!{target}" for target in cloud)]
        answers = await _asked(arena, allowed, requests)
        # Nobody may answer there at all, so that only its refusal shows that the proxy did not try.
        tried = [answer for answer in answers if " 403 " not in answer.split("\r\n")[0]]
        return escaped(f"not refused: {tried}") if tried else _judged(ears, answers)


async def other_name(arena: Arena) -> Found:
    """Open a tunnel to a listed host and ask for another one in it, or for none."""
    async with listening() as ears:
        await _require_way_out(arena, ears)
        here = f"localhost:{ears.port}"
        names = ("evil.example", "localhost.evil.example", "localhost\0.x", "")
        requests = [_connect(here, hello(name)) for name in names]
        answers = await _asked(arena, [f"private!{here}"], requests)
        if not all(" 200 " in answer for answer in answers):
            raise Broken(f"no tunnel was opened: {answers}")
        # The tunnel itself may lead to the host that was asked for; not a byte may go through it.
        ears.heard = [word for word in ears.heard if word not in ("a connection", "")]
        return _judged(ears, answers)


async def around_the_proxy(arena: Arena) -> Found:
    """Leave the proxy aside: nothing else leads out, and it cannot be found to be killed."""
    if arena.rung.kind != "namespaces":
        raise Untried(f"the rung {arena.rung.name} has no network at all")
    async with listening() as ears:
        targets = [["AF_INET", "SOCK_STREAM", "127.0.0.1", ears.port], ["AF_INET", "SOCK_STREAM", "1.1.1.1", 443]]

        def opened(job: Job) -> Job:
            assert job.box is not None
            return job.model_copy(update={"box": job.box.model_copy(update={"network": (f"127.0.0.1:{ears.port}",)})})

        said = (await arena.attack("connect", {"targets": targets}, adjust=opened)).said
        seen = (await arena.attack("read", {"paths": ["/proc"]}, adjust=opened)).said["/proc"]
        numbers = [word for word in seen.split() if word.isdigit()]
        reached = [name for name, came in said.items() if came == "done"]
        if ears.heard or reached:
            return escaped(f"reached {reached}")
        return safe(f"{', '.join(dict.fromkeys(said.values()))}; {len(numbers)} processes in sight, all its own")


ATTACKS = (
    Attack("proxy: a host that is not listed", "exact host and port", unlisted),
    Attack("proxy: a listed name with a private address", "looked up once, public addresses only", private_addresses),
    Attack("proxy: another host inside of a tunnel", "the ClientHello must name the target", other_name),
    Attack("proxy: around it", "its socket was passed out; there is no other way", around_the_proxy),
)
