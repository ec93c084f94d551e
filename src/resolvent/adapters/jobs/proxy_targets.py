"""What a box may reach: the allow-list of its job, and the addresses that a name on it may stand for."""

import ipaddress
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# A name and a port to the addresses the name stands for now, as text.
Resolve = Callable[[str, int], Sequence[str]]

PRIVATE_MARK = "private!"
TRIED_ADDRESSES = 4
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[0-9A-Za-z.-]{1,254}):([0-9]{1,5})", re.ASCII)
_LABEL = re.compile(r"(?!-)[0-9a-z-]{1,63}(?<!-)", re.ASCII)
# The C library reads such a last label, as in 127.1 or 0x7f.1, as an address in disguise.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


def _networks(*written: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(one) for one in written)


# The special-purpose registries of IANA. The flags of `ipaddress` follow them in newer patch releases only.
_NOT_GLOBAL = _networks(
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
    # Inside of 2000::/3: protocol assignments with Teredo, documentation, and 6to4, which wraps any IPv4 address.
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
)
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
# What the mark lets through. Link-local is not among it: clouds hand out credentials there.
_PRIVATE = _networks(
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *("::1/128", "fc00::/7"),
)


class Refused(ValueError):
    """What a client is told instead of being let through: an HTTP status and one line; in a tunnel, the farewell."""

    def __init__(self, status: int, why: str, *, farewell: bytes = b"") -> None:
        super().__init__(why)
        self.status = status
        self.farewell = farewell


class Target(NamedTuple):
    """A host, as a name in lower case or a canonical address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Permission(NamedTuple):
    """One entry of an allow-list; `private` may be an address of this machine or of its own network."""

    target: Target
    private: bool


def literal(host: str) -> Address | None:
    """The address that a host is, unless it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def target(written: str) -> Target:
    """Read `host:port`; ValueError says what is wrong with it."""
    parts = _AUTHORITY.fullmatch(written)
    if not parts:
        raise ValueError("it is not host:port in plain ASCII letters, digits, dots and dashes")
    host, port = parts[1].lower(), int(parts[2])
    if not 0 < port < 65536:
        raise ValueError("there is no such port")
    if host.startswith("["):
        return Target(ipaddress.IPv6Address(host[1:-1]).compressed, port)
    host = host.removesuffix(".")
    if literal(host):
        return Target(host, port)
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)) or _NUMBER.fullmatch(labels[-1]):
        raise ValueError("it is not the name of a host")
    return Target(host, port)


def permission(entry: str) -> Permission:
    """Read an entry of an allow-list, `host:port` or `private!host:port`; ValueError says what is wrong with it."""
    return Permission(target(entry.removeprefix(PRIVATE_MARK)), private=entry.startswith(PRIVATE_MARK))


def permissions(entries: Iterable[str], *, ill: Callable[[str, str], None]) -> dict[Target, Permission]:
    """The entries by what they permit; one that cannot be read permits nothing and is told to `ill`."""
    readable = {}
    for entry in entries:
        try:
            read = permission(entry)
        except ValueError as error:
            ill(entry, f"is no entry of an allow-list: {error}")
        else:
            readable[read.target] = read
    return readable


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, asked of the host system."""
    # As bytes, since the library would put text through its own reading of IDNA.
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def reachable(address: Address, *, private: bool) -> bool:
    """Whether a connection to this address may be made; by allow-list, not by what is known to be bad."""
    if private and any(address in network for network in _PRIVATE):
        return True
    if address.version == 6 and address not in _GLOBAL_V6:
        return False
    return not any(address in network for network in _NOT_GLOBAL)


def addresses(permitted: Permission, resolve: Resolve) -> list[str]:
    """Where to connect, looked up once: whoever looked up again could be given another answer."""
    host, port = permitted.target
    try:
        found = [host] if literal(host) else resolve(host, port)
    except OSError as error:
        raise Refused(502, f"{host} cannot be looked up: {error.strerror or error}") from None
    kept = [one for one in found if (known := literal(one)) and reachable(known, private=permitted.private)]
    if not kept:
        hint = (
            "" if permitted.private else f"; {PRIVATE_MARK}{permitted.target} in the configuration allows private ones"
        )
        raise Refused(403, f"{permitted.target} stands for no public address{hint}")
    return kept[:TRIED_ADDRESSES]


def connection(to: Target, found: Sequence[str], *, each_s: float, until: float) -> socket.socket:
    """A connection to the first of these addresses that takes one, and to no other address."""
    problem = "it took too long"
    for address in found:
        left = min(each_s, until - time.monotonic())
        if left <= 0:
            break
        try:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as far:
                far.settimeout(left)
                far.connect((address, to.port))
                return socket.socket(fileno=far.detach())
        except OSError as error:
            problem = error.strerror or str(error)
    raise Refused(502, f"{to} cannot be reached: {problem}")
