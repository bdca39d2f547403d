"""The clients, and what they lend."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import ssl
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType

from . import _core
from ._core import Claim, Flow, Gateways, NameClaim, PoolState, Sessions, SlotClaim, T
from ._errors import KvslotsError, UnreachableError
from ._events import Events, path
from ._lease import AsyncLease, Keeper, Lease
from ._reads import Holder, Lent, Waiter
from ._sockets import Sockets, run, run_in_thread
from ._streams import Streams, settled

LEAVE_TIMEOUT = 1.0  # seconds that an interrupted call takes to give up its place; a thread goes on if need be

_NewClaim = Callable[[], Claim]


class _Client:
    def __init__(self, *urls: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._gateways = Gateways(urls)
        self._sockets = Sockets(token, tls)
        self._sessions = Sessions(self._gateways)
        _clients.add(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._gateways}>"

    def _forget(self) -> None:
        self._sockets.close()
        self._sessions.forget()

    def _named(
        self, name: str, limit: int | None, ttl: float, wait: float | None, label: str
    ) -> tuple[_NewClaim, Lent]:
        def new() -> NameClaim:
            return NameClaim(self._gateways, self._sessions, name, limit, ttl, wait, label)

        return new, Lent(self._gateways, new().path)  # raises ValueError

    def _leave(self, claim: Claim, error: BaseException) -> concurrent.futures.Future[None] | None:
        """Give up what an interrupted request may have got. A gateway that has refused it has granted nothing."""
        if isinstance(error, KvslotsError) and not isinstance(error, UnreachableError):
            return None
        return run_in_thread(claim.leave(), self._sockets.send)


_clients: weakref.WeakSet[_Client] = weakref.WeakSet()


def _after_fork() -> None:
    """A child has connections and sessions of its own: two processes must not share them."""
    for client in list(_clients):
        client._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Pool:
    def __init__(self, client: _Client, id: uuid.UUID | str) -> None:
        self._header = {"Kvslots-Pool": str(uuid.UUID(str(id)))}
        self._gateways = client._gateways
        self._lent = Lent(self._gateways, "/l/self", self._header)

    def _slot(self, ttl: float, wait: float | None, label: str) -> tuple[_NewClaim, Lent]:
        def new() -> Claim:
            return SlotClaim(self._gateways, self._header, ttl, wait, label)

        new()  # raises ValueError
        return new, self._lent


class Client(_Client):
    """A client of gateways, which sends nothing before it is used. Safe for concurrent use.

    Give the URLs of several gateways, as arguments or with commas between them, if they have one
    store: a request that one does not answer is sent to the next. token is what they require, and
    tls is for https URLs.
    """

    def pool(self, id: uuid.UUID | str) -> Pool:
        """Return the pool with a UUID, which is its credential. It is sent in a header."""
        return Pool(self, id)

    def lock(self, name: str, *, ttl: float = 30, wait: float | None = None, label: str = "") -> Borrow:
        """Return the lock with a name: see Borrow."""
        return Borrow(self, *self._named(name, None, ttl, wait, label))

    def semaphore(
        self, name: str, limit: int, *, ttl: float = 30, wait: float | None = None, label: str = ""
    ) -> Borrow:
        """Return the semaphore with a name, which limit callers may hold; all have to give the same limit."""
        return Borrow(self, *self._named(name, limit, ttl, wait, label))

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
        return Events(self._gateways, self._sockets, path("/v1/events", filters), {}, after)

    def close(self) -> None:
        """End the sessions that hold nothing, and close the connections. Leases go on until they are released."""
        self._run(self._sessions.close())
        self._sockets.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        return run(flow, self._sockets.send)


class _Reader:
    """What a pool, a lock and a semaphore have in common."""

    _client: Client
    _lent: Lent

    def holders(self) -> list[Holder]:
        """Return who holds the slots, by position. More than 500 are not of one instant."""
        return self._client._run(self._lent.holders())

    def line(self) -> list[Waiter]:
        """Return who waits, the next one first. More than 500 are not of one instant."""
        return self._client._run(self._lent.line())

    def evict(self, position: int, fence: int) -> Holder:
        """End the lease of another, which holders has shown with this fence, and return it.

        Raise OtherHolderError if the position has another lease by now, and NotHeldError if it has none;
        NoPoolError for a name that is not in use. They can be raised, too, when this call has ended the
        lease, and the answer got lost. The holder learns of it at its next renewal.
        """
        return self._client._run(self._lent.evict(position, fence))


class Pool(_Pool, _Reader):
    """A pool of numbered slots."""

    def __init__(self, client: Client, id: uuid.UUID | str) -> None:
        super().__init__(client, id)
        self._client = client

    def register(self, count: int, *, name: str = "") -> PoolState:
        """Register the pool with count slots, or change the count of a registered one.

        name is public, and is shown to operators. Without one a registered pool keeps its name.
        """
        return self._client._run(_core.register(self._gateways, self._header, count, name))

    def inspect(self) -> PoolState:
        """Return the state of the pool, or raise NoPoolError."""
        return self._client._run(_core.inspect(self._gateways, self._header))

    def events(self, *, types: Iterable[str] = (), after: int | None = None) -> Events:
        """Iterate over what happens to the pool from now on, or after an id: see Client.events."""
        to = path("/l/self/events", {"type": tuple(types)})
        return Events(self._gateways, self._client._sockets, to, self._header, after)

    def delete(self) -> None:
        """Delete the pool, even if there is none. All its leases end."""
        self._client._run(_core.delete(self._gateways, self._header))

    def borrow(self, *, ttl: float = 30, wait: float | None = None, label: str = "") -> Borrow:
        """Return the next free slot of the pool: see Borrow."""
        return Borrow(self._client, *self._slot(ttl, wait, label))


class Borrow(_Reader):
    """A slot to be held: `with pool.borrow() as lease`.

    ttl is the number of seconds, rounded up, after which the slot is free if the program dies; the
    lease is renewed at a third of it. wait is how many seconds to wait in line: 0 does not wait, and
    None waits until the slot is granted. NoSlotError is raised when the wait is over, and
    UnreachableError when no gateway has answered for it, or for a minute. label says who asks, such
    as "ci@build7:1234 make", in 64 printable characters: holders and line show it, and it is not secret.

    Leaving the block releases the slot. It raises LeaseLostError if the lease was lost in the block,
    unless the block itself raises. A Borrow is for one block at a time.
    """

    def __init__(self, client: Client, new_claim: _NewClaim, lent: Lent) -> None:
        self._client = client
        self._lent = lent
        self._new_claim = new_claim
        self._lease: Lease | None = None
        self._used = threading.Lock()

    def acquire(self) -> Lease:
        """Return a lease, whose release the caller has to call."""
        claim, send = self._new_claim(), self._client._sockets.send
        try:
            run(claim.take(), send)
            return Lease(Keeper(claim, send))
        except BaseException as error:
            left = self._client._leave(claim, error)
            if left is not None:
                concurrent.futures.wait([left], LEAVE_TIMEOUT)
            raise

    def __enter__(self) -> Lease:
        if not self._used.acquire(blocking=False):
            raise RuntimeError("this Borrow is in use: each block needs its own")
        try:
            self._lease = self.acquire()
        except BaseException:
            self._used.release()
            raise
        return self._lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        assert lease is not None
        self._used.release()
        lost = lease.lost.cause
        lease.release()
        if error is None:
            lease._check(lost)


class AsyncClient(_Client):
    """Client, for asyncio. Its leases are renewed by threads, so that a blocked loop does not cost them."""

    def __init__(self, *urls: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(*urls, token=token, tls=tls)
        self._streams = Streams(self._sockets)

    def _forget(self) -> None:
        super()._forget()
        self._streams = Streams(self._sockets)

    def pool(self, id: uuid.UUID | str) -> AsyncPool:
        """Return the pool with a UUID, which is its credential. It is sent in a header."""
        return AsyncPool(self, id)

    def lock(self, name: str, *, ttl: float = 30, wait: float | None = None, label: str = "") -> AsyncBorrow:
        """Return the lock with a name: see Borrow."""
        return AsyncBorrow(self, *self._named(name, None, ttl, wait, label))

    def semaphore(
        self, name: str, limit: int, *, ttl: float = 30, wait: float | None = None, label: str = ""
    ) -> AsyncBorrow:
        """Return the semaphore with a name, which limit callers may hold; all have to give the same limit."""
        return AsyncBorrow(self, *self._named(name, limit, ttl, wait, label))

    async def close(self) -> None:
        """End the sessions that hold nothing, and close the connections. Leases go on until they are released."""
        await self._streams.run(self._sessions.close())
        await self._streams.close()
        self._sockets.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class _AsyncReader:
    """_Reader, for asyncio."""

    _client: AsyncClient
    _lent: Lent

    async def holders(self) -> list[Holder]:
        """Return who holds the slots, by position. More than 500 are not of one instant."""
        return await self._client._streams.run(self._lent.holders())

    async def line(self) -> list[Waiter]:
        """Return who waits, the next one first. More than 500 are not of one instant."""
        return await self._client._streams.run(self._lent.line())

    async def evict(self, position: int, fence: int) -> Holder:
        """End the lease of another, which holders has shown with this fence. See Pool.evict."""
        return await self._client._streams.run(self._lent.evict(position, fence))


class AsyncPool(_Pool, _AsyncReader):
    """A pool of numbered slots, for asyncio."""

    def __init__(self, client: AsyncClient, id: uuid.UUID | str) -> None:
        super().__init__(client, id)
        self._client = client

    async def register(self, count: int, *, name: str = "") -> PoolState:
        """Register the pool with count slots, or change the count of a registered one.

        name is public, and is shown to operators. Without one a registered pool keeps its name.
        """
        return await self._client._streams.run(_core.register(self._gateways, self._header, count, name))

    async def inspect(self) -> PoolState:
        """Return the state of the pool, or raise NoPoolError."""
        return await self._client._streams.run(_core.inspect(self._gateways, self._header))

    async def delete(self) -> None:
        """Delete the pool, even if there is none. All its leases end."""
        await self._client._streams.run(_core.delete(self._gateways, self._header))

    def borrow(self, *, ttl: float = 30, wait: float | None = None, label: str = "") -> AsyncBorrow:
        """Return the next free slot of the pool: see Borrow."""
        return AsyncBorrow(self._client, *self._slot(ttl, wait, label))


class AsyncBorrow(_AsyncReader):
    """A slot to be held: `async with pool.borrow() as lease`. See Borrow."""

    def __init__(self, client: AsyncClient, new_claim: _NewClaim, lent: Lent) -> None:
        self._client = client
        self._lent = lent
        self._new_claim = new_claim
        self._lease: AsyncLease | None = None
        self._used = False

    async def acquire(self) -> AsyncLease:
        """Return a lease, whose release the caller has to call."""
        claim = self._new_claim()
        try:
            await self._client._streams.run(claim.take())
            return AsyncLease(Keeper(claim, self._client._sockets.send))
        except BaseException as error:
            left = self._client._leave(claim, error)
            if left is not None and isinstance(error, (asyncio.CancelledError, KvslotsError)):
                await settled(left, LEAVE_TIMEOUT)
            raise

    async def __aenter__(self) -> AsyncLease:
        if self._used:
            raise RuntimeError("this AsyncBorrow is in use: each block needs its own")
        self._used = True
        try:
            self._lease = await self.acquire()
        except BaseException:
            self._used = False
            raise
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        assert lease is not None
        self._used = False
        lost = lease.lost.cause
        await lease.release()
        if error is None:
            lease._check(lost)
