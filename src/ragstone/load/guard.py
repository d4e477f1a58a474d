"""Connections to public addresses only, so that a page's address or redirect reaches nothing inside.

The name is resolved here, every address it has is judged, and the connection is made to
the very address that was judged: a name that changes its address in between (DNS
rebinding) gains nothing, and a host written as a number is judged by what it means.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any

import anyio
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

if TYPE_CHECKING:
    from httpcore2 import SOCKET_OPTION

_NAT64 = IPv6Network("64:ff9b::/96")
# Public by number, but the host of a virtual machine in Azure; all others of its kind are link-local.
_METADATA = frozenset({IPv4Address("168.63.129.16")})


class Forbidden(Exception):
    """The host is, or resolves to, an address that must not be reached."""


def is_public(address: str) -> bool:
    """Whether this numeric address lies in the internet, also where it wraps an IPv4 one."""
    found = ip_address(address.partition("%")[0])
    for inner in _inside(found):
        if not inner.is_global or inner.is_multicast or inner.is_reserved or inner in _METADATA:
            return False
    return True


def _inside(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address and the IPv4 addresses that it stands for, by RFC 4291, 3056, 4380 and 6052."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    wrapped = [address.sixtofour, *(address.teredo or ())]
    return [address, *(inner for inner in wrapped if inner is not None)]


class GuardedBackend(AsyncNetworkBackend):
    """Connects to hosts whose every address is public; to any with `allow_private`.

    Raises, from `connect_tcp`:
        Forbidden: one of its addresses is not. ConnectError: it has none.
    """

    def __init__(self, *, allow_private: bool = False) -> None:
        self._allow_private = allow_private
        self._plain = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's interface)
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        addresses = await self._addresses(host, port, timeout)
        last: Exception | None = None
        for address in addresses:
            try:
                return await self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
            except (ConnectError, ConnectTimeout) as error:
                last = error
        raise last or ConnectError(f"{host} has no address")

    async def _addresses(self, host: str, port: int, seconds: float | None) -> list[str]:
        try:
            with anyio.fail_after(seconds):
                found: Any = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise ConnectTimeout(f"{host} was not found in time") from error
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"{host} was not found") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if not self._allow_private and not all(map(is_public, addresses)):
            raise Forbidden(host)
        return addresses
