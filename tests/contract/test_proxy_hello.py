"""What passes the gate of a tunnel: a ClientHello that names the tunnel's own host, however cut, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.proxy_stage import HOST, hello, in_records, server_name, with_extensions

from resolvent.adapters.jobs.proxy_hello import ASK_AGAIN, Greeting
from resolvent.adapters.jobs.proxy_targets import Refused, Target

TLS = Target(HOST, 443)
SSH = Target(HOST, 22)
GOOD = hello(HOST)
CHANGE_CIPHER = b"\x14\x03\x03\x00\x01\x01"
ANSWER = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + bytes(32)
ASKS_AGAIN = ANSWER[:11] + ASK_AGAIN


def test_a_hello_that_names_the_host_passes_as_it_is() -> None:
    assert Greeting(TLS).admit(GOOD) == GOOD


def test_upper_case_names_the_same_host() -> None:
    shouted = with_extensions(GOOD, (0, server_name(HOST.upper().encode())), without=0)
    assert Greeting(TLS).admit(shouted) == shouted


@pytest.mark.parametrize("size", [1 << 14, 100, 9])
def test_a_hello_in_many_records_passes_when_it_is_whole(size: int) -> None:
    cut = in_records(GOOD[5:], size)
    gate = Greeting(TLS)
    assert b"".join(gate.admit(cut[at : at + 1]) for at in range(len(cut) - 1)) == b""
    assert gate.overdue
    assert gate.admit(cut[-1:]) == cut
    assert not gate.overdue


OTHER_NAMES = {
    "another": hello("other.test"),
    "none": hello(None),
    "a longer one": hello(f"{HOST}.evil.test"),
    "with a zero": with_extensions(GOOD, (0, server_name(HOST.encode() + b"\0.evil.test")), without=0),
    "empty": with_extensions(GOOD, (0, server_name(b"")), without=0),
    "no list": with_extensions(GOOD, (0, b""), without=0),
    "empty list": with_extensions(GOOD, (0, b"\0\0"), without=0),
    "two in the list": with_extensions(GOOD, (0, server_name(HOST.encode(), b"other.test")), without=0),
    "two extensions": with_extensions(GOOD, (0, server_name(b"other.test"))),
    "two extensions, ours last": with_extensions(hello("other.test"), (0, server_name(HOST.encode()))),
    "another kind": with_extensions(GOOD, (0, b"\0\x0b\x01\0\x08api.test"), without=0),
    "bytes behind": with_extensions(GOOD, (0, server_name(HOST.encode()) + b"\0"), without=0),
    "encrypted": with_extensions(GOOD, (0xFE0D, bytes(100))),
    "encrypted, outer name differs": with_extensions(hello("cloud.test"), (0xFE0D, bytes(100))),
    "encrypted, the draft": with_extensions(GOOD, (0xFFCE, bytes(100))),
}


@pytest.mark.parametrize("wrong", OTHER_NAMES.values(), ids=OTHER_NAMES)
@pytest.mark.parametrize("port", [443, 8443])
def test_a_hello_with_any_other_name_is_refused(wrong: bytes, port: int) -> None:
    with pytest.raises(Refused):
        Greeting(Target(HOST, port)).admit(wrong)


NO_HELLOS = {
    "plain HTTP": b"GET / HTTP/1.1\r\n",
    "another version": b"\x16\x02\x00\x00\x10",
    "an empty record": b"\x16\x03\x01\x00\x00",
    "a record too long": b"\x16\x03\x01\x40\x01",
    "another message": b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
    "longer than allowed": b"\x16\x03\x01\x00\x04\x01\x00\x40\x00",
    "more in the record": in_records(GOOD[5:] + b"\x01", 1 << 14),
    "crumbs": in_records(GOOD[5:], 1),
    "SSL 2": b"\x80\x2e\x01\x00\x02",
    "no extensions at all": in_records(b"\x01\x00\x00\x29" + bytes(34) + b"\0\0\x02\0\0\x01\0", 1 << 14),
    "cut inside": in_records(b"\x01\x00\x00\x28" + bytes(34) + b"\0\0\x02\0\0\x01", 1 << 14),
}


@pytest.mark.parametrize("wrong", NO_HELLOS.values(), ids=NO_HELLOS)
def test_what_is_no_hello_is_refused_on_the_port_of_tls(wrong: bytes) -> None:
    with pytest.raises(Refused) as refusal:
        Greeting(TLS).admit(wrong)
    assert refusal.value.farewell


def test_another_protocol_passes_on_another_port() -> None:
    gate = Greeting(SSH)
    assert not gate.overdue
    gate.hear(b"SSH-2.0-server\r\n")
    assert gate.admit(b"SSH-2.0-client\r\n") == b"SSH-2.0-client\r\n"
    assert gate.admit(b"\x16\x03") == b"\x16\x03"


def test_an_address_has_no_name_in_tls() -> None:
    anonymous = hello(None)
    assert Greeting(Target("127.0.0.1", 443)).admit(anonymous) == anonymous
    with pytest.raises(Refused):
        Greeting(Target("127.0.0.1", 443)).admit(GOOD)


def test_what_follows_the_hello_waits_for_the_server_to_accept_it() -> None:
    gate = Greeting(TLS)
    assert gate.admit(GOOD + b"early") == GOOD
    for at in range(len(ANSWER)):
        assert gate.admit(b"") == b""
        gate.hear(ANSWER[at : at + 1])
    assert gate.admit(b" words") == b"early words"


def test_an_alert_of_the_server_opens_the_gate() -> None:
    gate = Greeting(TLS)
    gate.admit(GOOD + b"more")
    gate.hear(b"\x15")
    assert gate.admit(b"") == b"more"


def test_a_second_hello_may_name_the_same_host() -> None:
    gate = Greeting(TLS)
    gate.admit(GOOD)
    gate.hear(ASKS_AGAIN)
    early = b"\x17\x03\x03\x00\x04abcd"
    assert gate.admit(early[:7]) == b""
    assert gate.admit(early[7:] + CHANGE_CIPHER + GOOD[:50]) == early + CHANGE_CIPHER
    assert gate.admit(GOOD[50:] + b"rest") == GOOD + b"rest"
    assert gate.admit(b"more") == b"more"


@pytest.mark.parametrize("before", [b"", CHANGE_CIPHER, b"\x17\x03\x03\x00\x04abcd"])
def test_a_second_hello_may_not_name_another_host(before: bytes) -> None:
    eager, patient = Greeting(TLS), Greeting(TLS)
    assert eager.admit(GOOD + before + hello("other.test")) == GOOD
    eager.hear(ASKS_AGAIN)
    with pytest.raises(Refused):
        eager.admit(b"")
    patient.admit(GOOD)
    patient.hear(ASKS_AGAIN)
    with pytest.raises(Refused):
        patient.admit(before + hello("other.test"))


def test_no_more_is_held_back_than_fits() -> None:
    gate = Greeting(TLS)
    gate.admit(GOOD)
    assert gate.wants
    gate.admit(bytes(1 << 16))
    assert not gate.wants
    gate.hear(ANSWER)
    assert len(gate.admit(b"")) == 1 << 16
    assert gate.wants


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(1, 600))
@settings(max_examples=300, deadline=None)
def test_no_changed_byte_gets_another_name_through(at: int, octet: int, size: int) -> None:
    changed = GOOD[:at] + bytes((octet,)) + GOOD[at + 1 :]
    gate, passed = Greeting(TLS), b""
    try:
        for start in range(0, len(changed), size):
            passed += gate.admit(changed[start : start + size])
    except Refused:
        assert passed == b""
    else:
        assert passed in (b"", changed)
        assert HOST.encode() in changed.lower()


@given(
    st.lists(st.binary(max_size=200), max_size=20), st.sampled_from([b"", b"\x16\x03\x01\x01\x00\x01\x00", GOOD[:60]])
)
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_or_held(chunks: list[bytes], beginning: bytes) -> None:
    gate = Greeting(TLS)
    try:
        assert gate.admit(beginning) == b""
        for chunk in chunks:
            assert gate.admit(chunk) == b""
    except Refused:
        return
