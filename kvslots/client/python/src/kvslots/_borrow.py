"""What is to be held: a slot of a pool, a lock or a semaphore."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from ._claims import Claim
from ._errors import KvslotsError, NoSlotError, UnreachableError
from ._keeper import Keeper
from ._lease import AsyncLease, Lease
from ._reads import Holder, Lent, Waiter
from ._sockets import run
from ._streams import settled

if TYPE_CHECKING:
    from ._client import AsyncClient, Client

LEAVE_NOTICED = 1.0  # seconds for which an interrupted call waits until its place is given up, which goes on if need be
LEAVE_NOTICED_SILENT = 0.3  # seconds, after no gateway has answered

L = TypeVar("L", bound=Lease)
A = TypeVar("A", bound=AsyncLease)
F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H")


class Reader:
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


class _Borrow(Generic[H]):
    """The leases of the threads or tasks that use one Borrow."""

    def __init__(self, new: Callable[[float | None], Claim], wait: float | None) -> None:
        self._new, self._wait = new, wait
        self._held: weakref.WeakKeyDictionary[object, H] = weakref.WeakKeyDictionary()

    def _claim(self, user: object, blocking: bool | None, timeout: float | None) -> Claim | None:
        """Return what is to be taken, or None if the user holds it already and does not wait."""
        if timeout is not None and timeout != -1 and (blocking is False or not timeout >= 0):
            raise ValueError("timeout must be 0 seconds or more, or -1, and needs blocking")
        if user in self._held and self._held[user].held:  # type: ignore[attr-defined]
            if blocking is False:
                return None
            raise RuntimeError("it is held already: each block needs its own")
        if blocking is False:
            return self._new(0)
        return self._new(self._wait if timeout is None or timeout == -1 else timeout)

    def _own(self, user: object) -> H:
        held = self._held.get(user)
        if held is None or held._keeper.stopped:  # type: ignore[attr-defined]
            raise RuntimeError("it is not held by this thread or task")
        return held

    def _releasable(self, user: object) -> H:
        """Return the lease of the user, or the only one of others, as with threading.Lock."""
        others = [held for held in list(self._held.values()) if held.held]  # type: ignore[attr-defined]
        try:
            return self._own(user)
        except RuntimeError:
            if len(others) != 1:
                raise
            return others[0]


def _leave(client: Client | AsyncClient, claim: Claim, error: BaseException) -> tuple[Future[None] | None, float]:
    """Give up what an interrupted request may have got. A gateway that has refused it has granted nothing."""
    if isinstance(error, KvslotsError) and not isinstance(error, UnreachableError):
        return None, 0
    noticed = LEAVE_NOTICED_SILENT if isinstance(error, UnreachableError) else LEAVE_NOTICED
    return client._background.run(claim.leave()), noticed


class Borrow(_Borrow[L], Reader):
    """A slot to be held: `with pool.borrow() as lease`, `@client.lock("nightly")`.

    ttl is the number of seconds, rounded up, after which the slot is free if the program dies; the
    lease is renewed at a third of it. wait is how many seconds to wait in line: 0 does not wait, and
    None waits until the slot is granted. NoSlotError is raised when the wait is over, and
    UnreachableError when no gateway has answered for it, or for a minute. label says who asks, such
    as "ci@build7:1234 make", in 64 printable characters: holders and line show it, and it is not secret.

    Leaving the block releases the slot. It raises LeaseLostError if the lease was lost in the block,
    unless the block itself raises. Threads may share a Borrow; each holds one lease of it at a time.
    """

    def __init__(
        self, client: Client, kind: type[L], new: Callable[[float | None], Claim], wait: float | None, lent: Lent
    ) -> None:
        super().__init__(new, wait)
        self._client, self._kind, self._lent = client, kind, lent

    @overload
    def acquire(self) -> L: ...
    @overload
    def acquire(self, blocking: bool = True, timeout: float = -1) -> L | None: ...
    def acquire(self, blocking: bool | None = None, timeout: float | None = None) -> L | None:
        """Return a lease, which the caller has to release.

        With the arguments of threading.Lock, of which a timeout replaces the wait, it returns None instead of raising
        NoSlotError; without blocking, also if this thread holds it.
        """
        user, client = threading.current_thread(), self._client
        client._check()
        claim, send = self._claim(user, blocking, timeout), client._sockets.send
        if claim is None:
            return None
        try:
            run(claim.take(), send)
            self._held[user] = lease = self._kind(Keeper(claim, send, client._background))
            return lease
        except NoSlotError:
            if blocking is not None or timeout is not None:
                return None
            raise
        except BaseException as error:
            left, noticed = _leave(client, claim, error)
            if left is not None:
                concurrent.futures.wait([left], noticed)
            raise

    def release(self) -> bool:
        """Release what this thread, or the only one, has acquired; return whether this has ended the lease."""
        return self._releasable(threading.current_thread()).release()

    def extend(self, ttl: float | None = None) -> None:
        """Renew the lease of this thread now: see Lease.extend."""
        self._own(threading.current_thread()).extend(ttl)

    def owned(self) -> bool:
        """Report whether this thread holds it. It sends nothing."""
        held = self._held.get(threading.current_thread())
        return held is not None and held.held

    def locked(self) -> bool:
        """Ask whether nothing is free."""
        return self._client._run(self._lent.locked())

    def __enter__(self) -> L:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease = self._held.pop(threading.current_thread())
        lost = lease.lost.cause
        lease.release()
        if error is None:
            lease._check(lost)

    def __call__(self, function: F) -> F:
        """Return the function, which holds the slot while it runs."""

        @functools.wraps(function)
        def held(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(F, held)


class AsyncReader:
    """Reader, for asyncio."""

    _client: AsyncClient
    _lent: Lent

    async def holders(self) -> list[Holder]:
        """Return who holds the slots, by position. More than 500 are not of one instant."""
        return await self._client._run(self._lent.holders())

    async def line(self) -> list[Waiter]:
        """Return who waits, the next one first. More than 500 are not of one instant."""
        return await self._client._run(self._lent.line())

    async def evict(self, position: int, fence: int) -> Holder:
        """End the lease of another, which holders has shown with this fence. See Pool.evict."""
        return await self._client._run(self._lent.evict(position, fence))


class AsyncBorrow(_Borrow[A], AsyncReader):
    """A slot to be held: `async with pool.borrow() as lease`. See Borrow.

    The block is cancelled when the lease is lost, and raises LeaseLostError. Tasks may share an AsyncBorrow; each holds one
    lease of it at a time.
    """

    def __init__(
        self, client: AsyncClient, kind: type[A], new: Callable[[float | None], Claim], wait: float | None, lent: Lent
    ) -> None:
        super().__init__(new, wait)
        self._client, self._kind, self._lent = client, kind, lent
        self._guards: weakref.WeakKeyDictionary[object, _Guard] = weakref.WeakKeyDictionary()

    @overload
    async def acquire(self) -> A: ...
    @overload
    async def acquire(self, blocking: bool = True, timeout: float = -1) -> A | None: ...
    async def acquire(self, blocking: bool | None = None, timeout: float | None = None) -> A | None:
        """Return a lease, which the caller has to release: see Borrow.acquire."""
        user, client = _task(), self._client
        client._check()
        claim = self._claim(user, blocking, timeout)
        if claim is None:
            return None
        try:
            await client._streams.run(claim.take())
            self._held[user] = lease = self._kind(Keeper(claim, client._sockets.send, client._background))
            return lease
        except NoSlotError:
            if blocking is not None or timeout is not None:
                return None
            raise
        except BaseException as error:
            left, noticed = _leave(client, claim, error)
            if left is not None and isinstance(error, (asyncio.CancelledError, KvslotsError)):
                await settled(left, noticed)
            raise

    async def release(self) -> bool:
        """Release what this task, or the only one, has acquired; return whether this has ended the lease."""
        return await self._releasable(_task()).release()

    async def extend(self, ttl: float | None = None) -> None:
        """Renew the lease of this task now: see Lease.extend."""
        await self._own(_task()).extend(ttl)

    def owned(self) -> bool:
        """Report whether this task holds it. It sends nothing."""
        held = self._held.get(_task())
        return held is not None and held.held

    async def locked(self) -> bool:
        """Ask whether nothing is free."""
        return await self._client._run(self._lent.locked())

    async def __aenter__(self) -> A:
        lease = await self.acquire()
        self._guards[_task()] = _Guard(lease)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease, guard = self._held.pop(_task()), self._guards.pop(_task())
        guard.over = True
        lost = lease.lost.cause
        try:
            await lease.release()
        except asyncio.CancelledError as cancelled:
            if not guard.ends(cancelled):
                raise
            error = None
        if guard.ends(error):
            error = None
        if error is None:
            lease._check(lost)

    def __call__(self, function: Callable[..., Awaitable[H]]) -> Callable[..., Awaitable[H]]:
        """Return the coroutine function, which holds the slot while it runs."""

        @functools.wraps(function)
        async def held(*args: Any, **kwargs: Any) -> H:
            async with self:
                return await function(*args, **kwargs)

        return held


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("there is no task")
    return task


class _Guard:
    """Cancels a task when its lease is lost, as asyncio.timeout does when the time is over."""

    def __init__(self, lease: AsyncLease) -> None:
        self.over = self._cancelled = False
        self._task, self._lost = _task(), lease.lost
        self._before = self._cancelling()
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:
            try:
                loop.call_soon_threadsafe(self._cancel)
            except RuntimeError:
                pass  # the loop has ended before the lease

        lease._keeper.ended.add_done_callback(ended)

    def _cancelling(self) -> int:
        return int(self._task.cancelling()) if hasattr(self._task, "cancelling") else 0  # from Python 3.11 on

    def _cancel(self) -> None:
        if not self.over and self._lost.is_set():
            self._cancelled = True
            self._task.cancel()

    def ends(self, error: BaseException | None) -> bool:
        """Report whether an error is the guard's own cancellation, which ends with this."""
        if not self._cancelled or not isinstance(error, asyncio.CancelledError):
            return False
        self._cancelled = False
        if hasattr(self._task, "uncancel"):
            self._task.uncancel()
        return self._cancelling() <= self._before
