"""The addresses by which the pages may be asked for: hosts, and the origins that follow from them. Pure.

A name that an attacker points to this machine (DNS rebinding) is no host of ours, and a page of another origin may
not ask for data.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import NamedTuple

from orchestrator.base.errors import BadRequest

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}
MOST_HOST_CHARS = 255


class SiteAddress(NamedTuple):
    """Where the server listens, and by which hosts (``name:port``, in small letters) it is asked for.

    ``any_address``: it listens on every address of the machine, and each of them as a number is a host too.
    """

    scheme: str
    hosts: frozenset[str]
    any_address: bool = False
    port: int = 0

    def is_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this site."""
        host = host.lower()
        if len(host) > MOST_HOST_CHARS:
            return False
        return host in self.hosts or (self.any_address and _is_number(host, self.port, self.scheme))

    def is_origin(self, origin: str, host: str) -> bool:
        """Whether an ``Origin`` header is that of this site, asked for by ``host``."""
        return origin.lower() == f"{self.scheme}://{host.lower()}"


def site_address(
    address: str, port: int, *, scheme: str, names: Collection[str] = (), behind_proxy: bool = False
) -> SiteAddress:
    """The site of a server that listens on ``address`` and ``port``; ``names`` are other hosts, with or without port.

    ``behind_proxy``: requests name only hosts of ``names``, with TLS; the proxy passes on the browser's host.
    BadRequest ``bad_argument`` for a name that is no host.
    """
    if behind_proxy:
        return SiteAddress("https", frozenset(_browser_host(_checked(name), "https") for name in names))
    ip = ipaddress.ip_address(address)
    own = set(LOOPBACK_NAMES) if ip.is_loopback or ip.is_unspecified else {literal(address)}
    hosts = {f"{name}:{port}" for name in own}
    if port == DEFAULT_PORTS[scheme]:
        hosts |= own
    hosts |= {_browser_host(_checked(name), scheme) for name in names}
    return SiteAddress(scheme, frozenset(hosts), ip.is_unspecified, port)


def is_loopback(address: str) -> bool:
    """Whether only programs of this machine can reach the address."""
    return ipaddress.ip_address(address).is_loopback


def is_any(address: str) -> bool:
    """Whether it stands for every address of the machine."""
    return ipaddress.ip_address(address).is_unspecified


def literal(address: str) -> str:
    """An IP address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def listen_address(text: str, default_port: int) -> tuple[str, int]:
    """``ADDR:PORT``, ``[ADDR]:PORT`` or ``ADDR`` as an IP address and a port; else BadRequest ``bad_argument``."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, str(default_port)
    try:
        address = str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
        number = int(port)
    except ValueError:
        raise _no_address(text) from None
    if not 0 <= number <= 65535:
        raise _no_address(text)
    return address, number


def _no_address(text: str) -> BadRequest:
    step = "give an IP address of this machine and a port: --listen 192.168.1.5:8750"
    return BadRequest("bad_argument", f"--listen {text!r} is not ADDRESS:PORT", step)


def _checked(name: str) -> str:
    host, _, port = name.lower().partition(":") if not name.startswith("[") else (name.lower(), "", "")
    plain = host.replace("-", "").replace(".", "")
    if not (plain.isascii() and plain.isalnum()) or (port and not port.isdecimal()):
        raise BadRequest("bad_argument", f"--host {name!r} is not NAME or NAME:PORT", "give it as in the browser")
    return name.lower()


def _browser_host(name: str, scheme: str) -> str:
    """The host as a browser sends it: without the scheme's own port."""
    return name.removesuffix(f":{DEFAULT_PORTS[scheme]}")


def _is_number(host: str, port: int, scheme: str) -> bool:
    """Whether the host is an IP address with this port. A number cannot be pointed elsewhere, as a name can."""
    try:
        address, number = listen_address(host, DEFAULT_PORTS[scheme])
    except BadRequest:
        return False
    return number == port and not ipaddress.ip_address(address).is_unspecified
