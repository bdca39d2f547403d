"""Addresses of hosts, without waiting for a slow name server longer than the caller wants to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

Found = Sequence[tuple[Any, ...]]  # as getaddrinfo returns it

_pending: dict[tuple[str, int], Future[Found]] = {}
_lock = threading.RLock()


def resolve(host: str, port: int) -> Future[Found]:
    """Look a host up in a thread, since getaddrinfo has no time-out; one thread for all who ask meanwhile."""
    future: Future[Found] = Future()
    future.set_running_or_notify_cancel()  # so that a caller that gives up does not cancel it for the others
    try:
        future.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        return future
    except OSError:
        pass  # it is a name
    with _lock:
        if (host, port) in _pending:
            return _pending[host, port]
        _pending[host, port] = future
    try:
        threading.Thread(target=_look_up, args=(host, port, future), name="kvslots resolver", daemon=True).start()
    except RuntimeError:  # Python 3.12 starts no threads when it exits
        _look_up(host, port, future)
    return future


def _look_up(host: str, port: int, future: Future[Found]) -> None:
    found: Found = []
    failed: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        failed = OSError("no host has this name")
    except OSError as error:
        failed = error
    with _lock:
        _pending.pop((host, port), None)
    if failed:
        future.set_exception(failed)
    else:
        future.set_result(found)


def forget() -> None:
    """Forget, in a forked child, what the parent's threads look up."""
    global _lock
    _lock = threading.RLock()
    _pending.clear()
