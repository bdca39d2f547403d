"""Leases: renewed by a thread, and released at the end."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from ._core import LONGEST_NAP, RELEASE_TIMEOUT, Claim, Send, clock
from ._errors import KvslotsError, LeaseLostError, UnreachableError
from ._http import Response
from ._sockets import run
from ._streams import settled


class _Stopped(Exception):
    pass


class Keeper:
    """Renews a lease in a thread of its own, and releases it in the end.

    The thread is not that of an event loop: a loop that is blocked must not cost the lease.
    """

    def __init__(self, claim: Claim, send: Callable[[Send], Response]) -> None:
        self.claim = claim
        self.cause: KvslotsError | None = None
        self.lost: Future[None] = Future()
        self.released: Future[bool] = Future()
        self._send = send
        self._process = os.getpid()
        self._stop = threading.Event()
        self._abandoned = False
        self.lost.set_running_or_notify_cancel()
        self.released.set_running_or_notify_cancel()
        threading.Thread(target=self._run, name="kvslots lease", daemon=True).start()
        _keepers.add(self)

    def _run(self) -> None:
        try:
            self.lose(run(self.claim.keep(), self._renew, self._nap))
        except _Stopped:
            pass
        except Exception as error:  # a fault of this package must not look like a lease that is kept
            lost = UnreachableError("the lease could not be renewed")
            lost.__cause__ = error
            self.lose(lost)
        self._stop.wait()
        released = False
        try:
            if not self._abandoned and (self.cause is None or isinstance(self.cause, UnreachableError)):
                released = run(self.claim.release(), self._send)
        finally:
            self.released.set_result(released)

    def _renew(self, effect: Send) -> Response:
        if self._stop.is_set():
            raise _Stopped
        return self._send(effect)

    def _nap(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that holds the lease, and has not its threads."""
        return os.getpid() != self._process

    def lose(self, cause: KvslotsError) -> None:
        with _losing:
            if self.cause is not None or self._stop.is_set():
                return
            self.cause = cause
        self.lost.set_result(None)

    def check(self) -> KvslotsError | None:
        """Return why the lease was lost; look at the clock, too, since the thread may be late."""
        if self.cause is None and not self._stop.is_set() and clock() >= self.claim.lost_at:
            cause = UnreachableError("the lease was not renewed in time")
            if self.forked:
                return cause
            self.lose(cause)
        return self.cause

    def stop(self, *, release: bool) -> None:
        """End the renewals, and release the lease; released has the result."""
        if not self.forked and not self._stop.is_set():
            self._abandoned = not release
            self._stop.set()


_losing = threading.Lock()
_keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()


@atexit.register
def _release_all() -> None:
    """Release what a program that exits holds."""
    mine = [keeper for keeper in _keepers if not keeper.forked]
    for keeper in mine:
        keeper.stop(release=True)
    concurrent.futures.wait([keeper.released for keeper in mine], RELEASE_TIMEOUT)


class _Lost:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def is_set(self) -> bool:
        """Report whether the lease was lost. It takes a look at the clock, and sends nothing."""
        return self._keeper.check() is not None

    @property
    def cause(self) -> KvslotsError | None:
        """Why the lease was lost, or None.

        UnreachableError: no gateway has renewed it in time. NotHeldError, NoPoolError: it has ended, or
        the pool was deleted. SessionGoneError: the session of a lock has ended, and the lock with it.
        """
        return self._keeper.check()


class Lost(_Lost):
    """An event that is set before the lease ends, unless it is released; at a tenth of its ttl, at most a second, before."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the lease is lost, for at most timeout seconds; return whether it is."""
        until = None if timeout is None else clock() + timeout
        while not self.is_set() and (until is None or clock() < until):
            left = LONGEST_NAP if until is None else min(until - clock(), LONGEST_NAP)
            concurrent.futures.wait([self._keeper.lost], max(left, 0))
        return self.is_set()


class AsyncLost(_Lost):
    """Lost, for asyncio."""

    _future: asyncio.Future[None] | None = None  # one for all calls, since none is removed from the keeper's

    async def wait(self) -> None:
        """Wait until the lease is lost."""
        if self.is_set():
            return
        if self._future is None or self._future.get_loop() is not asyncio.get_running_loop():
            self._future = asyncio.wrap_future(self._keeper.lost)
        await asyncio.shield(self._future)


class _Lease:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def __repr__(self) -> str:  # without what would let a reader return the lease
        return f"<{type(self).__name__} position={self.position} fence={self.fence}>"

    def __del__(self) -> None:
        if keeper := getattr(self, "_keeper", None):
            keeper.stop(release=False)  # a lease that nobody can release any more ends when its time is over

    @property
    def position(self) -> int | None:
        """The number of the slot in its pool, from 0; None for a lock or a semaphore."""
        return self._keeper.claim.position

    @property
    def fence(self) -> int:
        """The fencing token: higher than that of each earlier lease of the slot. Renewals do not change it."""
        return self._keeper.claim.fence

    @property
    def deadline(self) -> float:
        """When the lease ends unless it is renewed, on kvslots.clock(). The gateway's own deadline is never earlier."""
        return self._keeper.claim.deadline

    @property
    def remaining(self) -> float:
        """The seconds until the deadline; 0 after it."""
        return max(0.0, self.deadline - clock())

    def _check(self, lost: KvslotsError | None) -> None:
        if lost is not None and not self._keeper.forked:
            raise LeaseLostError(f"the lease was lost: {lost}") from lost


class Lease(_Lease):
    """A slot, held until release. It is renewed meanwhile."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self.lost = Lost(keeper)

    def release(self) -> bool:
        """Release the slot; return whether this has ended the lease.

        It takes 10 seconds at most, raises nothing, and may be repeated: the first call counts. In a
        forked process it does nothing.
        """
        self._keeper.stop(release=True)
        if self._keeper.forked:
            return False
        concurrent.futures.wait([self._keeper.released], RELEASE_TIMEOUT)
        return self._keeper.released.done() and self._keeper.released.result()


class AsyncLease(_Lease):
    """Lease, for asyncio."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self.lost = AsyncLost(keeper)

    async def release(self) -> bool:
        """Release the slot; return whether this has ended the lease. See Lease.release.

        It is completed even if the task is canceled meanwhile.
        """
        self._keeper.stop(release=True)
        if self._keeper.forked:
            return False
        await settled(self._keeper.released, RELEASE_TIMEOUT)
        return self._keeper.released.done() and self._keeper.released.result()
