"""A process without network: what a parser worker is before it sees its first file.

Two walls. On Linux the process moves into a network namespace of its own, which has no
interface that is up: no code in it, native or not, reaches anything. Where the kernel
refuses that (some containers, hardened systems), and on macOS and Windows, an audit hook
remains: it refuses every connection, message and look-up that goes through Python's
`socket` module, and does not see native code that calls the system itself.
"""

from __future__ import annotations

import ctypes
import os
import sys

# linux/sched.h
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_REFUSED = frozenset({
    "socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind", "socket.getaddrinfo",
    "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo",
})  # fmt: skip


def cut_off_network() -> bool:
    """Cut this process off, for good; call it while there is one thread. True with a namespace of its own."""
    alone = sys.platform == "linux" and _own_namespace()
    sys.addaudithook(_refuse)
    return alone


def _own_namespace() -> bool:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        # Root may do it directly; others in a user namespace of their own, where that is allowed.
        return libc.unshare(_NEW_NETWORK) == 0 or libc.unshare(_NEW_USER | _NEW_NETWORK) == 0
    except (OSError, AttributeError):
        return False


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event not in _REFUSED:
        return
    # Windows makes the pair of sockets inside an event loop out of a local connection.
    if os.name == "nt" and repr(arguments[-1]).startswith(("('127.0.0.1'", "('::1'")):
        return
    raise PermissionError("a parser may not use the network")
