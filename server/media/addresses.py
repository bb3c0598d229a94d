"""Which addresses of the network may be dialled: public ones, or any for a host that is named as private."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv6Address, ip_address, ip_network

MAPPED = tuple(
    ip_network(each)
    for each in (
        "::/96",  # an IPv4 address written as IPv6
        "::ffff:0:0/96",
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "192.88.99.0/24",
        "fec0::/10",  # site-local
    )
)
"""Ranges that may lead to an address within a network, though they count as global."""


def is_public(address: str) -> bool:
    """Whether an address is reached over the internet alone: neither private, loopback, link-local, shared
    (CGNAT), multicast nor reserved, nor one that another address is written in.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
        return False
    within = any(parsed in network for network in MAPPED if network.version == parsed.version)
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved or within)


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host.  Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
