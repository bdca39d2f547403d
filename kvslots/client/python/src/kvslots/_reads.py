"""Who holds a pool, a lock or a semaphore, and who waits for it; without I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._gateways import PAGE, Flow, Gateways, T, integer, seconds
from ._errors import NoPoolError
from ._http import Request, not_understood
from ._pools import inspect


@dataclass(frozen=True)
class Holder:
    """A lease, as others see it: without what lets them renew or return it.

    label is what its holder has said. age and expires_in are in seconds. owner is a number of the
    session that holds a lock or a semaphore, and None for the lease of a pool.
    """

    position: int
    label: str
    fence: int
    age: float
    expires_in: float
    owner: int | None


@dataclass(frozen=True)
class Waiter:
    """A place in line: 1 is next. waited is in seconds; label and owner are as those of a Holder."""

    place: int
    label: str
    waited: float
    owner: int | None


class Lent:
    """A pool, a lock or a semaphore, to be looked at."""

    def __init__(
        self, gateways: Gateways, path: str, headers: dict[str, str] | None = None, limit: int = 1
    ) -> None:
        self._gateways = gateways
        self._path = path
        self._limit = limit
        self._headers = headers  # with the id of a pool; None: of a name, which exists only while it is in use

    def _request(self, method: str, path: str) -> Request:
        return Request(method, self._path + path, headers=dict(self._headers or {}))

    def _read(self, what: str, after: str, parse: Callable[[Any], T]) -> Flow[list[T]]:
        """Read all pages of the leases or the line."""
        read: list[T] = []
        start = 0
        while True:
            try:
                request = self._request("GET", f"/{what}?{after}={start}&limit={PAGE}")
                body = (yield from self._gateways.repeat(request)).json()
            except NoPoolError:
                if self._headers is not None:
                    raise
                return read
            listed = body.get(what)
            if not isinstance(listed, list):
                raise not_understood()
            read += map(parse, listed)
            if f"next_{after}" not in body:
                return read
            previous, start = start, integer(body, f"next_{after}")
            if start <= previous:
                raise not_understood()

    def holders(self) -> Flow[list[Holder]]:
        return self._read("leases", "from", _holder)

    def line(self) -> Flow[list[Waiter]]:
        return self._read("line", "after", _waiter)

    def locked(self) -> Flow[bool]:
        """Report whether nothing is free."""
        if self._headers is not None:
            return (yield from inspect(self._gateways, self._headers)).available == 0
        return len((yield from self.holders())) >= self._limit

    def evict(self, position: int, fence: int) -> Flow[Holder]:
        request = self._request("DELETE", f"/leases/{int(position)}?fence={int(fence)}")
        return _holder((yield from self._gateways.repeat(request)).json().get("evicted"))


def _holder(body: Any) -> Holder:
    label, owner = _who(body)
    position, fence = integer(body, "position"), integer(body, "fence")
    return Holder(position, label, fence, seconds(body, "age_s"), seconds(body, "expires_in_s"), owner)


def _waiter(body: Any) -> Waiter:
    label, owner = _who(body)
    return Waiter(integer(body, "place"), label, seconds(body, "waited_s"), owner)


def _who(body: Any) -> tuple[str, int | None]:
    if not isinstance(body, dict) or not isinstance(body.get("label"), str):
        raise not_understood()
    return body["label"], integer(body, "owner_conn_id") if "owner_conn_id" in body else None
