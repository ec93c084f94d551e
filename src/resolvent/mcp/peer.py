"""Who is at the other end of a connection on this machine: the kernel's table of sockets knows the user."""

import ipaddress
import socket
import sys
from pathlib import Path

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
Address = tuple[str, int]


def user_of(client: Address, server: Address) -> int | None:
    """The user who holds the client's end of a connection; None when the kernel does not tell, or nobody holds it."""
    wanted = {(_hexadecimal(*client, family), _hexadecimal(*server, family)) for family in _families(client, server)}
    for table in TABLES:
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            # A socket that its process closed has no inode, and on some kernels says that root holds it.
            if (fields[1], fields[2]) in wanted and fields[9] != "0":
                return int(fields[7])
    return None


def _families(*addresses: Address) -> tuple[int, ...]:
    # A client of IPv4 may hold a socket of either kind.
    return (socket.AF_INET6,) if any(":" in host for host, _ in addresses) else (socket.AF_INET, socket.AF_INET6)


def _hexadecimal(host: str, port: int, family: int) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    if family == socket.AF_INET6 and address.version == 4:
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    packed = address.packed
    # Words of four bytes, each in the order of this machine.
    words = [packed[at : at + 4][:: -1 if sys.byteorder == "little" else 1] for at in range(0, len(packed), 4)]
    return f"{b''.join(words).hex()}:{port:04x}".upper()
