"""Which entries an allow-list may have, which addresses their names may stand for, and what a job is told about it."""

import ipaddress

import pytest

from resolvent.adapters.jobs.proxy import environment
from resolvent.adapters.jobs.proxy_targets import Permission, Refused, Target, addresses, permission, reachable


@pytest.mark.parametrize(
    ("entry", "host", "port", "private"),
    [
        ("api.test:443", "api.test", 443, False),
        ("API.Test.:443", "api.test", 443, False),
        ("private!localhost:8080", "localhost", 8080, True),
        ("private!127.0.0.1:1", "127.0.0.1", 1, True),
        ("[2606:4700:0:0::1]:65535", "2606:4700::1", 65535, False),
        ("xn--bcher-kva.test:443", "xn--bcher-kva.test", 443, False),
    ],
)
def test_an_entry_is_read_into_one_spelling(entry: str, host: str, port: int, private: bool) -> None:
    assert permission(entry) == Permission(Target(host, port), private)


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "",
            ":443",
            "api.test",
            "api.test:",
            "api.test:0",
            "api.test:65536",
            "api.test:443 ",
            "api.test:443\n",
            "*:443",
        ),
        *("*.test:443", "bücher.test:443", "api。test:443", "api_test:443", "api..test:443", ".:443", "-a.test:443"),
        *("a-.test:443", f"{'a' * 64}.test:443", f"{'a.' * 127}test:443", "api.test:４４３", "user@api.test:443"),
        *("127.1:80", "2130706433:80", "0x7f.1:80", "0x7f000001:80", "127.0.0.01:80", "1.2.3.4.5:80", "a.0x:80"),
        *("::1:80", "[::1:80", "[fe80::1%1]:80", "[1.2.3.4]:80", "[]:80", "http://api.test:80", "private!private!a:80"),
    ],
)
def test_an_odd_entry_is_no_entry(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        permission(entry)


INSIDE = [
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.9.9.9",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "::1",
    "fd00::1",
]
NOWHERE = [
    *("0.0.0.0", "0.1.2.3", "169.254.169.254", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::808:808", "64:ff9b:1::1"),
    *("fe80::1", "fec0::1", "ff02::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "5f00::1"),
]
OUTSIDE = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700::1",
    "2a00::1",
]


@pytest.mark.parametrize("address", [*INSIDE, *NOWHERE])
def test_only_a_public_address_is_reachable(address: str) -> None:
    assert not reachable(ipaddress.ip_address(address), private=False)


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_public_address_is_reachable(address: str) -> None:
    assert reachable(ipaddress.ip_address(address), private=False)
    assert reachable(ipaddress.ip_address(address), private=True)


def test_the_private_mark_opens_private_addresses_and_no_others() -> None:
    assert [one for one in INSIDE if not reachable(ipaddress.ip_address(one), private=True)] == []
    assert [one for one in NOWHERE if reachable(ipaddress.ip_address(one), private=True)] == []


def test_of_several_addresses_only_the_reachable_are_tried() -> None:
    answers = ["10.0.0.1", "1.1.1.1", "nonsense", "::1", "1.0.0.1"]
    assert addresses(permission("api.test:443"), lambda *_: answers) == ["1.1.1.1", "1.0.0.1"]


def test_a_literal_is_not_looked_up_and_not_exempt() -> None:
    def resolve(host: str, _: int) -> list[str]:
        raise AssertionError(host)

    assert addresses(permission("1.1.1.1:443"), resolve) == ["1.1.1.1"]
    with pytest.raises(Refused, match=r"private!127\.0\.0\.1:443 in the configuration"):
        addresses(permission("127.0.0.1:443"), resolve)


def test_programs_in_a_box_are_pointed_at_the_proxy_and_reach_their_own_servers_without_it() -> None:
    told = environment(3128)
    assert {told[name] for name in ("http_proxy", "HTTPS_PROXY", "https_proxy", "all_proxy")} == {
        "http://127.0.0.1:3128"
    }
    assert told["no_proxy"] == told["NO_PROXY"] == "localhost,127.0.0.1,::1"


def test_a_loopback_host_on_the_allow_list_is_reached_through_the_proxy() -> None:
    allowed = ["private!127.0.0.1:8080", "private![::1]:8080", "api.test:443", "nonsense"]
    assert environment(9, allowed=allowed)["no_proxy"] == "localhost"
