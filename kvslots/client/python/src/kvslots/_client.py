"""The clients, and their pools."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import ssl
import threading
import uuid
import weakref
from collections.abc import Iterable
from typing import TypeVar

from . import _keeper, _pools, _resolve
from ._background import Background
from ._borrow import AsyncBorrow, AsyncReader, Borrow, Reader, waiting
from ._calls import Call
from ._claims import RELEASE_TIMEOUT, NameClaim, SlotClaim
from ._events import AsyncEvents, Events, path
from ._gateways import TIMEOUT, Flow, Gateways, T
from ._label import default_label
from ._lease import AsyncLease, AsyncSlot, Lease, OneProcess, Slot
from ._pools import PoolState
from ._reads import Lent
from ._sessions import Sessions
from ._sockets import Sockets, run
from ._streams import Streams, settled

E = TypeVar("E", Events, AsyncEvents)

TTL = 60.0  # seconds; a lease survives a restart of its gateway


class _Client(OneProcess):
    def __init__(
        self,
        *urls: str,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = TIMEOUT,
        label: str | None = None,
    ) -> None:
        self._gateways = Gateways(urls, timeout=timeout)
        self._sockets = Sockets(token, tls)
        self._sessions = Sessions(self._gateways)
        self._label = label
        self._closed = False
        self._events: weakref.WeakSet[Events | AsyncEvents] = weakref.WeakSet()
        self._begin()
        _clients.add(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._gateways}>"

    def _begin(self) -> None:
        self._background = Background(Streams(self._sockets))
        self._calls: set[Call] = set()  # which wait

    def _forget(self) -> None:
        self._sockets.close()
        self._sessions.forget()
        self._begin()

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed")

    async def _await(self, flow: Flow[T]) -> T:
        self._check()
        return await asyncio.wrap_future(self._background.run(flow))

    def _streamed(self, events: E) -> E:
        self._check()
        self._events.add(events)
        return events

    def _end_calls(self) -> list[Call]:
        """End the calls that wait, and return them."""
        for events in list(self._events):
            events.end()
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        return calls

    def _said(self, label: str | None) -> str:
        said = self._label if label is None else label
        return default_label() if said is None else said

    def _lock_claim(self, name: str, limit: int | None, ttl: float, wait: float | None, label: str | None) -> NameClaim:
        return NameClaim(self._gateways, self._sessions, name, limit, ttl, wait, self._said(label))


_clients: weakref.WeakSet[_Client] = weakref.WeakSet()


def _after_fork() -> None:
    """A child has connections and sessions of its own: two processes must not share them."""
    _resolve.forget()
    _keeper.after_fork()
    for client in list(_clients):
        client._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Pool:
    def __init__(self, client: _Client, id: uuid.UUID | str) -> None:
        self._header = {"Kvslots-Pool": str(uuid.UUID(str(id)))}
        self._gateways = client._gateways
        self._lent = Lent(self._gateways, "/v1/pools/self", self._header)


class Client(_Client):
    """A client of gateways, which sends nothing before it is used. Safe for concurrent use.

    Give the URLs of several gateways, as arguments or with commas between them, if they have one
    store: a request that one does not answer is sent to the next. token is what they require, and
    tls is for https URLs. timeout is the number of seconds that a request may take, in addition to
    its wait. label is that of all leases that have none of their own: by default user@host:pid and the
    program's name.
    """

    def pool(self, id: uuid.UUID | str) -> Pool:
        """Return the pool with a UUID, which is its credential. It is sent in a header."""
        return Pool(self, id)

    def lock(
        self,
        name: str,
        *,
        ttl: float = TTL,
        wait: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
    ) -> Borrow[Lease]:
        """Return the lock with a name: see Borrow."""
        return self._named(name, None, ttl, waiting(wait, timeout), label)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        ttl: float = TTL,
        wait: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
    ) -> Borrow[Lease]:
        """Return the semaphore with a name, which limit callers may hold."""
        return self._named(name, limit, ttl, waiting(wait, timeout), label)

    def _named(
        self, name: str, limit: int | None, ttl: float, wait: float | None, label: str | None
    ) -> Borrow[Lease]:
        def new(wait: float | None) -> NameClaim:
            return self._lock_claim(name, limit, ttl, wait, label)

        return Borrow(self, Lease, new, wait, Lent(self._gateways, new(wait).lent, limit=limit or 1))

    def events(
        self,
        *,
        pools: Iterable[str] = (),
        keys: Iterable[str] = (),
        types: Iterable[str] = (),
        after: int | None = None,
    ) -> Events:
        """Iterate over what happens from now on, or after an id: to pools with these hashes and to names, or to all."""
        filters = {"pool": tuple(pools), "key": tuple(keys), "type": tuple(types)}
        return self._streamed(Events(self._gateways, self._sockets, path("/v1/events", filters), {}, after))

    def close(self) -> None:
        """Release what is held, end the sessions, and close the connections, within 20 seconds. Further calls raise RuntimeError."""
        if not self._closed:
            self._closed = True
            here = threading.get_ident()
            concurrent.futures.wait([call.done for call in self._end_calls() if call.thread != here], RELEASE_TIMEOUT)
            _keeper.release_all(self._background)
            run(self._sessions.close(), self._sockets.send)
            self._background.stop(RELEASE_TIMEOUT)
            self._sockets.close()

    def __enter__(self) -> Client:
        self._check()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        self._check()
        return run(flow, self._sockets.send)


class Pool(_Pool, Reader):
    """A pool of numbered slots."""

    def __init__(self, client: Client, id: uuid.UUID | str) -> None:
        super().__init__(client, id)
        self._client = client

    def register(self, count: int, *, name: str = "") -> PoolState:
        """Register the pool with count slots, or change the count of a registered one.

        name is public, and is shown to operators. Without one a registered pool keeps its name.
        """
        return self._client._run(_pools.register(self._gateways, self._header, count, name))

    def inspect(self) -> PoolState:
        """Return the state of the pool, or raise NoPoolError."""
        return self._client._run(_pools.inspect(self._gateways, self._header))

    def events(self, *, types: Iterable[str] = (), after: int | None = None) -> Events:
        """Iterate over what happens to the pool from now on, or after an id: see Client.events."""
        to = path("/l/self/events", {"type": tuple(types)})
        return self._client._streamed(Events(self._gateways, self._client._sockets, to, self._header, after))

    def delete(self) -> None:
        """Delete the pool, even if there is none. All its leases end."""
        self._client._run(_pools.delete(self._gateways, self._header))

    def borrow(
        self, *, ttl: float = TTL, wait: float | None = None, timeout: float | None = None, label: str | None = None
    ) -> Borrow[Slot]:
        """Return the next free slot of the pool: see Borrow."""

        def new(wait: float | None) -> SlotClaim:
            return SlotClaim(self._gateways, self._header, ttl, wait, self._client._said(label))

        return Borrow(self._client, Slot, new, waiting(wait, timeout), self._lent)


class AsyncClient(_Client):
    """Client, for asyncio. Its leases are renewed by a thread, so that a blocked loop does not cost them."""

    def _begin(self) -> None:
        super()._begin()
        self._streams = Streams(self._sockets)

    def pool(self, id: uuid.UUID | str) -> AsyncPool:
        """Return the pool with a UUID, which is its credential. It is sent in a header."""
        return AsyncPool(self, id)

    def lock(
        self,
        name: str,
        *,
        ttl: float = TTL,
        wait: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
    ) -> AsyncBorrow[AsyncLease]:
        """Return the lock with a name: see Borrow."""
        return self._named(name, None, ttl, waiting(wait, timeout), label)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        ttl: float = TTL,
        wait: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
    ) -> AsyncBorrow[AsyncLease]:
        """Return the semaphore with a name, which limit callers may hold."""
        return self._named(name, limit, ttl, waiting(wait, timeout), label)

    def _named(
        self, name: str, limit: int | None, ttl: float, wait: float | None, label: str | None
    ) -> AsyncBorrow[AsyncLease]:
        def new(wait: float | None) -> NameClaim:
            return self._lock_claim(name, limit, ttl, wait, label)

        return AsyncBorrow(self, AsyncLease, new, wait, Lent(self._gateways, new(wait).lent, limit=limit or 1))

    def events(
        self,
        *,
        pools: Iterable[str] = (),
        keys: Iterable[str] = (),
        types: Iterable[str] = (),
        after: int | None = None,
    ) -> AsyncEvents:
        """Iterate over what happens from now on, or after an id: see Client.events."""
        filters = {"pool": tuple(pools), "key": tuple(keys), "type": tuple(types)}
        return self._streamed(AsyncEvents(self._gateways, self._streams, path("/v1/events", filters), {}, after))

    async def close(self) -> None:
        """Release what is held, end the sessions, and close the connections: see Client.close."""
        if not self._closed:
            self._closed = True
            for call in self._end_calls():
                await settled(call.done, RELEASE_TIMEOUT)
            for released in _keeper.release_in_background(self._background):
                await settled(released, RELEASE_TIMEOUT)
            await self._streams.run(self._sessions.close())
            await self._streams.close()
            self._background.stop(RELEASE_TIMEOUT)
            self._sockets.close()

    async def __aenter__(self) -> AsyncClient:
        self._check()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _await(self, flow: Flow[T]) -> T:
        self._check()
        return await self._streams.run(flow)


class AsyncPool(_Pool, AsyncReader):
    """A pool of numbered slots, for asyncio."""

    _client: AsyncClient

    def __init__(self, client: AsyncClient, id: uuid.UUID | str) -> None:
        super().__init__(client, id)
        self._client = client

    async def register(self, count: int, *, name: str = "") -> PoolState:
        """Register the pool with count slots, or change the count: see Pool.register."""
        return await self._client._await(_pools.register(self._gateways, self._header, count, name))

    async def inspect(self) -> PoolState:
        """Return the state of the pool, or raise NoPoolError."""
        return await self._client._await(_pools.inspect(self._gateways, self._header))

    def events(self, *, types: Iterable[str] = (), after: int | None = None) -> AsyncEvents:
        """Iterate over what happens to the pool from now on, or after an id: see Client.events."""
        to = path("/l/self/events", {"type": tuple(types)})
        return self._client._streamed(AsyncEvents(self._gateways, self._client._streams, to, self._header, after))

    async def delete(self) -> None:
        """Delete the pool, even if there is none. All its leases end."""
        await self._client._await(_pools.delete(self._gateways, self._header))

    def borrow(
        self, *, ttl: float = TTL, wait: float | None = None, timeout: float | None = None, label: str | None = None
    ) -> AsyncBorrow[AsyncSlot]:
        """Return the next free slot of the pool: see Borrow."""

        def new(wait: float | None) -> SlotClaim:
            return SlotClaim(self._gateways, self._header, ttl, wait, self._client._said(label))

        return AsyncBorrow(self._client, AsyncSlot, new, waiting(wait, timeout), self._lent)
