"""Leases, as a program sees them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import warnings
from typing import NoReturn, TypeVar

from ._calls import TaskCall
from ._claims import RELEASE_TIMEOUT, SlotClaim
from ._errors import KvslotsError, LeaseLostError
from ._gateways import clock
from ._keeper import Keeper
from ._streams import settled

P = TypeVar("P", bound="OneProcess")
A = TypeVar("A", bound="AsyncLease")


class _Lost:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def is_set(self) -> bool:
        """Report whether the lease was lost. It takes a look at the clock, and sends nothing."""
        return self._keeper.check() is not None

    @property
    def cause(self) -> KvslotsError | None:
        """Why the lease was lost, or None.

        UnreachableError: it was not renewed in time. NotHeldError: it has ended; its cause may be "expired" or
        "evicted". NoPoolError: the pool was deleted. SessionGoneError: the session of a lock has ended, and the lock with it.
        """
        return self._keeper.check()


class Lost(_Lost):
    """An event that is set before the lease ends, unless it is released; at a tenth of its ttl, at most a second, before."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the lease is lost or released, for at most timeout seconds; return whether it is lost."""
        until = None if timeout is None else clock() + timeout
        while not self.is_set() and (nap := self._keeper.nap()):
            if until is not None and (nap := min(nap, until - clock())) <= 0:
                break
            concurrent.futures.wait([self._keeper.ended], nap)
        return self.is_set()


class AsyncLost(_Lost):
    """Lost, for asyncio."""

    _future: asyncio.Future[None] | None = None  # one for all calls, since none is removed from the keeper's

    async def wait(self) -> bool:
        """Wait until the lease is lost or released; return whether it is lost."""
        if self._future is None or self._future.get_loop() is not asyncio.get_running_loop():
            self._future = asyncio.wrap_future(self._keeper.ended)
        while not self.is_set() and (nap := self._keeper.nap()):
            await asyncio.wait({self._future}, timeout=nap)
        return self.is_set()


class OneProcess:
    """What copies share, and no other process can have."""

    def __copy__(self: P) -> P:
        return self

    def __deepcopy__(self: P, memo: object) -> P:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} belongs to its process, and cannot be pickled")


class _Lease(OneProcess):
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def __repr__(self) -> str:  # without what would let a reader return the lease
        return f"<{type(self).__name__} of {self._keeper.claim} fence={self.fence}>"

    def __del__(self) -> None:
        keeper: Keeper | None = getattr(self, "_keeper", None)
        if keeper is not None and keeper.drop():
            warnings.warn(f"{self!r} was not released, and lasts until its time is over", ResourceWarning, source=self)

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

    @property
    def held(self) -> bool:
        """Whether the lease is neither lost nor released. It takes a look at the clock, and sends nothing."""
        return self._keeper.held

    def _check(self, lost: KvslotsError | None) -> None:
        if lost is not None and not self._keeper.forked:
            raise LeaseLostError(f"the lease was lost: {lost}") from lost


class _Slot(_Lease):
    @property
    def position(self) -> int:
        """The number of the slot in its pool, from 0."""
        claim = self._keeper.claim
        assert isinstance(claim, SlotClaim)
        return claim.position

    def __repr__(self) -> str:
        return f"<{type(self).__name__} position={self.position} fence={self.fence}>"


class Lease(_Lease):
    """A lock, or a slot, held until release. It is renewed meanwhile."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self.lost = Lost(keeper)

    def release(self) -> bool:
        """Release it; return whether this has ended the lease.

        It takes 10 seconds at most, raises nothing, and may be repeated: the first call counts. In a
        forked process, and in a signal handler that has interrupted it, it does nothing.
        """
        if self._keeper.forked or self._keeper.releasing:
            return False
        self._keeper.release()
        concurrent.futures.wait([self._keeper.released], RELEASE_TIMEOUT)
        return self._keeper.released.done() and self._keeper.released.result()

    def extend(self, ttl: float | None = None) -> None:
        """Renew the lease now, and from now on for ttl seconds; raise LeaseLostError if it has ended."""
        self._check(self.lost.cause)
        self._keeper.background.run(self._keeper.extend(ttl)).result()

    def __enter__(self: P) -> P:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        lost = self.lost.cause
        self.release()
        if error is None:
            self._check(lost)


class Slot(_Slot, Lease):
    """A slot of a pool."""


class AsyncLease(_Lease):
    """Lease, for asyncio."""

    _block: TaskCall | None = None  # which is cancelled when the lease is lost

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self.lost = AsyncLost(keeper)

    async def release(self) -> bool:
        """Release it; return whether this has ended the lease. See Lease.release.

        It is completed even if the task is canceled meanwhile.
        """
        if self._keeper.forked:
            return False
        self._keeper.release_in_background()
        await settled(self._keeper.released, RELEASE_TIMEOUT)
        return self._keeper.released.done() and self._keeper.released.result()

    async def extend(self, ttl: float | None = None) -> None:
        """Renew the lease now: see Lease.extend."""
        self._check(self.lost.cause)
        await asyncio.wrap_future(self._keeper.background.run(self._keeper.extend(ttl)))

    async def __aenter__(self: A) -> A:
        block, lost = TaskCall(set(), lambda: None), self.lost
        self._block = block
        self._keeper.ended.add_done_callback(lambda _: block.cancel() if lost.is_set() else None)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        block, lost = self._block, self.lost.cause
        assert block is not None
        block.over = True
        try:
            await self.release()
        except asyncio.CancelledError as cancelled:
            if not block.ends(cancelled):
                raise
            error = None
        if block.ends(error) or error is None:
            self._check(lost)


class AsyncSlot(_Slot, AsyncLease):
    """A slot of a pool, for asyncio."""
