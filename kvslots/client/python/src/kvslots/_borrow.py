"""What is to be held: a slot of a pool, a lock or a semaphore."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from ._calls import TaskCall, ThreadCall, current_task
from ._claims import Claim
from ._decorator import decorated
from ._errors import KvslotsError, NoSlotError, UnreachableError
from ._keeper import Keeper
from ._lease import AsyncLease, Lease, OneProcess, _Lease
from ._reads import Holder, Lent, Waiter
from ._streams import settled

if TYPE_CHECKING:
    from ._client import Client, _Client

LEAVE_NOTICED = 1.0  # seconds for which an interrupted call waits until its place is given up, which goes on if need be
LEAVE_NOTICED_SILENT = 0.3  # seconds, after no gateway has answered

L = TypeVar("L", bound=Lease)
A = TypeVar("A", bound=AsyncLease)
F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=_Lease)


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
        lease, and the answer got lost. The holder learns of it within 5 seconds, or at its next renewal.
        """
        return self._client._run(self._lent.evict(position, fence))


@dataclass(eq=False)
class _Taken(Generic[H]):
    lease: H
    user: object  # the thread or task
    block: FrameType | None  # the code whose with statement has taken it, or None for acquire


class _Borrow(OneProcess, Generic[H]):
    """What is kept of a slot to be held: the leases that its blocks and acquire have taken, until their release.

    A block is known by the frame of its with statement: a generator may be left in another thread or task.
    """

    def __init__(self, new: Callable[[float | None], Claim], wait: float | None, lent: Lent) -> None:
        self._new, self._wait, self._lent = new, wait, lent
        self._what = str(new(wait))  # raises ValueError
        self._taken: dict[_Taken[H], bool] = {}  # in order; what is done to it is atomic, for threads and signal handlers

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._what}>"

    def _claim(self, wait: float | None) -> Claim:
        blocks = [taken.block for taken in list(self._taken) if taken.block and taken.lease.held]
        frame: FrameType | None = sys._getframe() if blocks and wait != 0 else None
        while frame is not None:
            if any(frame is block for block in blocks):
                raise RuntimeError("a block around this one holds it, and might wait for itself: each needs its own")
            frame = frame.f_back
        return self._new(wait)

    def _took(self, lease: H, user: object, block: FrameType | None) -> _Taken[H]:
        for taken in list(self._taken):
            if taken.block is None and not taken.lease.held:
                self._taken.pop(taken, None)
        taken = _Taken(lease, user, block)
        self._taken[taken] = True
        return taken

    def _own(self, user: object) -> list[_Taken[H]]:
        """Return what the user has taken, or else what acquire has, for any: as threading.Lock, and for tasks of wait_for."""
        live = [taken for taken in list(self._taken) if not taken.lease._keeper.stopped]
        return [taken for taken in live if taken.user is user] or [taken for taken in live if not taken.block]

    def _last(self, user: object) -> _Taken[H]:
        own = self._own(user)
        if not own:
            raise RuntimeError("it is not held by this thread or task")
        return own[-1]

    def _releasable(self, user: object) -> H:
        """Return what release is to release, once: a block takes out its own when it ends."""
        while True:
            taken = self._last(user)
            if taken.block or self._taken.pop(taken, False):
                return taken.lease

    def _left(self, user: object, block: FrameType | None) -> H:
        """Take out what the block has taken that is left: if no frame is the same, as with ExitStack, the user's last, or the last."""
        while blocks := [taken for taken in reversed(list(self._taken)) if taken.block]:
            own = max(blocks, key=lambda taken: (taken.block is block, taken.user is user))
            if self._taken.pop(own, False):
                return own.lease
        raise RuntimeError("the block has not been entered")


def waiting(wait: float | None, timeout: float | None, blocking: object = True) -> float | None:
    """Return the wait of a call that gives it as wait, or as threading does; None if it gives neither."""
    given = [value for value in (wait, None if timeout == -1 else timeout) if value is not None]
    if len(given) > bool(blocking) or (timeout is not None and not (timeout >= 0 or timeout == -1)):
        raise ValueError("timeout must be 0 seconds or more, or -1, needs blocking, and is another name of wait")
    return given[0] if given else None if blocking else 0


def _leave(client: _Client, claim: Claim, taken: _Taken[Any] | None, error: BaseException) -> tuple[Future[Any] | None, float]:
    """Give up what an interrupted call has, or may have got. A gateway that has refused it has granted nothing."""
    if taken is not None:
        taken.lease._keeper.release_in_background()
        return taken.lease._keeper.released, LEAVE_NOTICED
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

    Leaving the block releases the slot, in whatever thread. It raises LeaseLostError if the lease was lost in the block,
    unless the block itself raises. Threads may share a Borrow, which keeps what each has taken. It is not re-entrant.
    """

    def __init__(
        self, client: Client, kind: type[L], new: Callable[[float | None], Claim], wait: float | None, lent: Lent
    ) -> None:
        super().__init__(new, wait, lent)
        self._client, self._kind = client, kind
        self._releasing: set[object] = set()  # threads

    @overload
    def acquire(self, *, wait: float | None = None) -> L: ...
    @overload
    def acquire(self, blocking: bool = True, timeout: float = -1) -> L | None: ...
    def acquire(
        self, blocking: bool | None = None, timeout: float | None = None, *, wait: float | None = None
    ) -> L | None:
        """Return a lease, which the caller, or release of this object, has to release; it may be used as a block.

        With the arguments of threading.Lock it returns None instead of raising NoSlotError.
        """
        given = waiting(wait, timeout, blocking is None or blocking)
        try:
            return self._take(self._wait if given is None else given, None)
        except NoSlotError:
            if blocking is not None or timeout is not None:
                return None
            raise

    def _take(self, wait: float | None, block: FrameType | None) -> L:
        client, taken = self._client, None
        client._check()
        claim = self._claim(wait)
        with ThreadCall(client._calls, client._check, client._sockets) as call:
            try:
                call.run(claim.take())
                lease = self._kind(Keeper(claim, client._sockets.send, client._background))
                taken = self._took(lease, threading.current_thread(), block)
                client._check()
                return lease
            except BaseException as error:
                if taken is not None:
                    self._taken.pop(taken, None)
                left, noticed = _leave(client, claim, taken, error)
                if left is not None:
                    concurrent.futures.wait([left], noticed)
                raise

    def release(self) -> bool:
        """Release what this thread has taken last, or else what acquire has in another; return whether this has ended the lease.

        In a signal handler that has interrupted a release it does nothing.
        """
        user = threading.current_thread()
        if user in self._releasing:
            return False
        self._releasing.add(user)
        try:
            return self._releasable(user).release()
        finally:
            self._releasing.discard(user)

    def extend(self, ttl: float | None = None) -> None:
        """Renew now what release would release: see Lease.extend."""
        self._last(threading.current_thread()).lease.extend(ttl)

    def owned(self) -> bool:
        """Report whether release would release something that is held. It sends nothing."""
        return any(taken.lease.held for taken in self._own(threading.current_thread()))

    def locked(self) -> bool:
        """Ask whether nothing is free."""
        return self._client._run(self._lent.locked())

    def __enter__(self) -> L:
        return self._take(self._wait, sys._getframe(1))

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        user, block = threading.current_thread(), sys._getframe(1)
        self._releasing.add(user)
        try:
            self._left(user, block).__exit__(kind, error, traceback)
        finally:
            self._releasing.discard(user)

    def __call__(self, function: F) -> F:
        """Return the function, which holds the slot while it runs: also a generator or a coroutine function."""

        def asynchronous() -> AsyncBorrow[AsyncLease]:
            return AsyncBorrow(self._client, AsyncLease, self._new, self._wait, self._lent)

        return cast(F, decorated(function, self, asynchronous))


class AsyncReader:
    """Reader, for asyncio."""

    _client: _Client
    _lent: Lent

    async def holders(self) -> list[Holder]:
        """Return who holds the slots, by position. More than 500 are not of one instant."""
        return await self._client._await(self._lent.holders())

    async def line(self) -> list[Waiter]:
        """Return who waits, the next one first. More than 500 are not of one instant."""
        return await self._client._await(self._lent.line())

    async def evict(self, position: int, fence: int) -> Holder:
        """End the lease of another, which holders has shown with this fence. See Pool.evict."""
        return await self._client._await(self._lent.evict(position, fence))


class AsyncBorrow(_Borrow[A], AsyncReader):
    """A slot to be held: `async with pool.borrow() as lease`. See Borrow.

    The block is cancelled when the lease is lost, and raises LeaseLostError. Tasks may share an AsyncBorrow.
    """

    def __init__(
        self, client: _Client, kind: type[A], new: Callable[[float | None], Claim], wait: float | None, lent: Lent
    ) -> None:
        super().__init__(new, wait, lent)
        self._client, self._kind = client, kind

    @overload
    async def acquire(self, *, wait: float | None = None) -> A: ...
    @overload
    async def acquire(self, blocking: bool = True, timeout: float = -1) -> A | None: ...
    async def acquire(
        self, blocking: bool | None = None, timeout: float | None = None, *, wait: float | None = None
    ) -> A | None:
        """Return a lease, which the caller, or release of this object, has to release: see Borrow.acquire."""
        given = waiting(wait, timeout, blocking is None or blocking)
        try:
            return await self._take(self._wait if given is None else given, None)
        except NoSlotError:
            if blocking is not None or timeout is not None:
                return None
            raise

    async def _take(self, wait: float | None, block: FrameType | None) -> A:
        client, taken = self._client, None
        client._check()
        claim = self._claim(wait)
        with TaskCall(client._calls, client._check) as call:
            try:
                await client._await(claim.take())
                lease = self._kind(Keeper(claim, client._sockets.send, client._background))
                taken = self._took(lease, current_task(), block)
                client._check()
                return lease
            except BaseException as error:
                if taken is not None:
                    self._taken.pop(taken, None)
                closed = call.ends(error)
                left, noticed = _leave(client, claim, taken, error)
                if left is not None and isinstance(error, (asyncio.CancelledError, KvslotsError)):
                    await settled(left, noticed)
                if closed:
                    client._check()
                raise

    async def release(self) -> bool:
        """Release what this task has taken last, or else what acquire has in another: see Borrow.release."""
        return await self._releasable(current_task()).release()

    async def extend(self, ttl: float | None = None) -> None:
        """Renew now what release would release: see Lease.extend."""
        await self._last(current_task()).lease.extend(ttl)

    def owned(self) -> bool:
        """Report whether release would release something that is held. It sends nothing."""
        return any(taken.lease.held for taken in self._own(current_task()))

    async def locked(self) -> bool:
        """Ask whether nothing is free."""
        return await self._client._await(self._lent.locked())

    def __aenter__(self) -> Coroutine[Any, Any, A]:
        return self._enter(sys._getframe(1))

    async def _enter(self, block: FrameType) -> A:
        return await (await self._take(self._wait, block)).__aenter__()

    def __aexit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> Coroutine[Any, Any, None]:
        return self._exit(sys._getframe(1), error)

    async def _exit(self, block: FrameType, error: BaseException | None) -> None:
        await self._left(current_task(), block).__aexit__(None, error, None)

    @overload
    def __call__(self, function: F) -> F: ...
    @overload
    def __call__(self, function: Callable[..., H]) -> Callable[..., Awaitable[H]]: ...
    def __call__(self, function: Any) -> Any:
        """Return the function as one that is awaited, and holds the slot while it runs: also an asynchronous generator."""
        return decorated(function, None, lambda: self)
