"""Whom a hostile agent tries to reach from inside of its box; run by `act.py`, and told in its words."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from resolvent.testing.escape.inside.act import outcome, told
else:
    from act import outcome, told

SHORT_S = 2.0


def connect(targets: list[list[Any]]) -> dict[str, str]:
    """Say hello at every address: `family kind host port`, or the name of a UNIX socket."""
    found = {}
    for family, kind, *address in targets:
        name = f"{kind} {' '.join(map(str, address))}".replace("\0", "@")
        found[name] = outcome(_greet, family, kind, address)
    return found


def _greet(family: str, kind: str, address: list[Any]) -> None:
    with socket.socket(getattr(socket, family), getattr(socket, kind)) as plug:
        plug.settimeout(SHORT_S)
        plug.connect(tuple(address) if family != "AF_UNIX" else address[0])
        plug.send(b"hello from a box")


def interfaces() -> list[str]:
    """The interfaces of the network there are."""
    try:
        return [name for _, name in socket.if_nameindex()]
    except OSError as error:
        return [told(error)]


def proxied(port: int, requests: list[list[str]]) -> list[str]:
    """What the proxy answers to each head of a request, and to the bytes that follow it in a tunnel; all as Latin-1."""
    answers = []
    for head, tunnelled in requests:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as plug:
                plug.sendall(head.encode("latin-1"))
                answer = plug.recv(4096)
                if tunnelled and b" 200 " in answer.split(b"\r\n")[0]:
                    plug.sendall(tunnelled.encode("latin-1"))
                    answer += b"then " + plug.recv(4096)
                answers.append(answer[:200].decode("latin-1"))
        except OSError as error:
            answers.append(told(error))
    return answers
