"""Keeps leases: whether they are lost, and that they are released in the end."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from ._background import Background, backgrounds
from ._claims import LONGEST_NAP, RELEASE_TIMEOUT, Claim
from ._errors import KvslotsError, LeaseLostError, NoPoolError, NotHeldError, SessionGoneError, UnreachableError
from ._gateways import Flow, Send, clock
from ._http import Response
from ._sockets import run
from ._streams import Streams


class Keeper:
    """A lease that is renewed until it is lost, released, or dropped by the program.

    A signal handler may interrupt any of its methods and call them: so they have no lock, and what happens
    once is decided by setdefault, which is atomic.
    """

    def __init__(self, claim: Claim, send: Callable[[Send], Response], background: Background) -> None:
        self.claim = claim
        self.ended: Future[None] = Future()  # when it is lost, or its release begins
        self.released: Future[bool] = Future()
        self.background = background
        self._send = send
        self._end: dict[str, KvslotsError | None] = {}  # why the lease was lost; None if it was released first
        self._release: dict[str, list[int]] = {}  # the one that counts: the thread in which it runs
        self._process = os.getpid()
        self.ended.set_running_or_notify_cancel()
        self.released.set_running_or_notify_cancel()
        keepers.add(self)
        background.keep(self)

    @property
    def cause(self) -> KvslotsError | None:
        return self._end.get("end")

    @property
    def stopped(self) -> bool:
        """Whether its release has begun."""
        return bool(self._release)

    @property
    def releasing(self) -> bool:
        """Whether a release is under way that this thread has begun, and a signal handler has interrupted."""
        return self._release.get("first") == [threading.get_ident()] and not self.released.done()

    async def keep(self, streams: Streams) -> None:
        """Renew the lease until it is over."""
        try:
            cause = await streams.run(self.claim.keep())
        except Exception as error:  # a fault of this package must not look like a lease that is kept
            cause = UnreachableError("the lease could not be renewed")
            cause.__cause__ = error
        if cause is not None:
            self.lose(cause)

    def extend(self, ttl: float | None) -> Flow[None]:
        """Renew the lease now, and from now on for another ttl."""
        try:
            yield from self.claim.renew(ttl)
        except (NotHeldError, NoPoolError, SessionGoneError) as error:
            self.lose(error)
            raise LeaseLostError(f"the lease was lost: {error}") from error

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that holds the lease, and does not renew it."""
        return os.getpid() != self._process

    @property
    def held(self) -> bool:
        return not self.stopped and self.check() is None and not self.forked

    def lose(self, cause: KvslotsError) -> None:
        if self._end.setdefault("end", cause) is cause:
            self.claim.over = True
            self.ended.set_result(None)

    def check(self) -> KvslotsError | None:
        """Return why the lease was lost; look at the clock, too, since the thread may be late."""
        if self.cause is None and not self.stopped and clock() >= self.claim.lost_at:
            cause = UnreachableError("the lease was not renewed in time")
            if self.forked:
                return cause
            self.lose(cause)
        return self.cause

    def nap(self) -> float:
        """Return for how long a wait for the loss may sleep before it looks at the clock; 0 after a release."""
        return 0.0 if self.stopped else max(0.0, min(self.claim.lost_at - clock(), LONGEST_NAP))

    def drop(self) -> bool:
        """Renew the lease no more, since the program cannot release it any more; return whether it was held."""
        held, self.claim.over = self.held and not self.claim.over, True
        return held

    def release(self) -> None:
        """Release the lease; the first call counts. released has the result."""
        if self._stop(mine := [threading.get_ident()]):
            try:
                self.released.set_result(run(self.claim.release(), self._send))
            except BaseException:  # such as KeyboardInterrupt
                mine.clear()
                self._finish()
                raise

    def release_in_background(self) -> None:
        """Release the lease, and do not wait for it."""
        if self._stop([]):
            self._finish()

    def _finish(self) -> None:
        def done(result: Future[bool]) -> None:
            self.released.set_result(not result.cancelled() and not result.exception() and result.result())

        self.background.run(self.claim.release()).add_done_callback(done)

    def _stop(self, mine: list[int]) -> bool:
        """End the renewals; return whether the caller has to release the lease."""
        if self.forked or self._release.setdefault("first", mine) is not mine:
            return False
        self.claim.over = True
        if self._end.setdefault("end", None) is None:
            self.ended.set_result(None)
        elif not isinstance(self.cause, UnreachableError):
            self.released.set_result(False)
            return False
        return True


keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
_of_parent: list[Background] = []


def after_fork() -> None:
    """A child does not renew what its parent holds. It keeps the parent's event loops, since their end would be seen there."""
    _of_parent.extend(keeper.background for keeper in keepers)


def release_all(of: Background | None = None) -> None:
    """Release what is held, of one client or of all, within a time."""
    until = clock() + RELEASE_TIMEOUT
    for keeper in _of(of):
        if clock() < until:
            keeper.release()


def release_in_background(of: Background) -> list[Future[bool]]:
    """Release what a client holds, and return the results to come."""
    mine = [keeper for keeper in _of(of) if not keeper.forked]
    for keeper in mine:
        keeper.release_in_background()
    return [keeper.released for keeper in mine]


def _of(background: Background | None) -> list[Keeper]:
    return [keeper for keeper in keepers if background is None or keeper.background is background]


@atexit.register
def _exit() -> None:
    """Release what a program holds that exits."""
    release_all()
    for background in backgrounds:
        background.stop(RELEASE_TIMEOUT)
