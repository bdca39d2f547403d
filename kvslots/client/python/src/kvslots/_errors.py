"""Errors: a class for each value of the header Kvslots-Error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ._reads import Holder

_by_code: dict[str, type[KvslotsError]] = {}


class KvslotsError(Exception):
    """The base of all errors of this package.

    An answer that no class describes has the code "unexpected". status is that of HTTP, or 0
    if there was no answer; retry_after the number of seconds that the gateway has asked for, or
    None. If an argument is out of range, field names it, and range says what is allowed.
    """

    code: ClassVar[str] = "unexpected"
    _repeated = False  # as Response.repeated

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ != __name__:  # of an application, which may derive classes of its own
            return
        if "code" not in cls.__dict__:
            words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))
            cls.code = "_".join(words).lower()
        _by_code[cls.code] = cls

    def __init__(
        self, text: str, *, status: int = 0, retry_after: float | None = None, field: str = "", range: str = ""
    ) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after
        self.field = field
        self.range = range

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later.

        A limit that has been reached is not temporary, unless the gateway says when to try again.
        """
        busy = self.code in ("unexpected", "unavailable", "draining", "rate_limited")
        return self.status in (429, 502, 503, 504) and (busy or self.retry_after is not None)


class UnreachableError(KvslotsError):
    """No gateway has answered. If permanent, a repetition would fail, too: of TLS, or no gateway is at the URL."""

    def __init__(self, text: str, *, permanent: bool = False) -> None:
        super().__init__(text)
        self.permanent = permanent

    @property
    def temporary(self) -> bool:
        return not self.permanent


class LeaseLostError(KvslotsError):
    """The lease ended while it was in use. Its __cause__ is Lost.cause."""


def refusal(code: str, text: str, status: int, retry_after: float | None, field: str, range: str) -> KvslotsError:
    """Return the error of an answer; without a code, as from a proxy, the status decides."""
    if not code:
        code = "unavailable" if status >= 500 else "rate_limited" if status == 429 else ""
    return _by_code.get(code, KvslotsError)(
        text or f"HTTP status {status}", status=status, retry_after=retry_after, field=field, range=range
    )


class AlreadyEnqueuedError(KvslotsError):
    """The session has enqueued for the name already."""


class BadRequestError(KvslotsError):
    """An argument is out of range: see field and range."""


class ClientCanceledError(KvslotsError):
    """The client has canceled the request."""


class DrainingError(KvslotsError):
    """The gateway is about to stop."""


class ForbiddenError(KvslotsError):
    """The gateway does not answer to this Host, or to a web page of this origin."""


class InternalError(KvslotsError):
    """The gateway has failed; its log says more."""

    code = "internal_error"


class KeyReusedError(KvslotsError):
    """The request key was used with other arguments."""


class LeaseExpiredError(KvslotsError):
    """The lease was granted, and ended before the session called wait."""


class LimitMismatchError(KvslotsError):
    """The name is in use with another limit, or as another kind."""


class MaxConnectionsError(KvslotsError):
    """The gateway has its maximum of connections."""


class MaxConnectionsPerIpError(KvslotsError):
    """The gateway has its maximum of connections of this address."""


class MaxEventStreamsError(KvslotsError):
    """The gateway has its maximum of streams of events."""


class MaxEventStreamsPerIpError(KvslotsError):
    """This address has the maximum number of streams of events."""


class MaxLocksError(KvslotsError):
    """The maximum number of names is in use."""


class MaxLocksPerIpError(KvslotsError):
    """This address holds or waits for the maximum number of names."""


class MaxLocksPerSessionError(KvslotsError):
    """The session holds or waits for the maximum number of names."""


class MaxPoolsError(KvslotsError):
    """The maximum number of pools is registered."""


class MaxSessionsError(KvslotsError):
    """The maximum number of sessions is open."""


class MaxSessionsPerIpError(KvslotsError):
    """This address has the maximum number of sessions."""


class MaxTombstonesError(KvslotsError):
    """This address has left too many pools, names and sessions in the last minutes."""


class MaxWaitersError(KvslotsError):
    """The line of this pool or name is full."""


class MaxWaitersPerIpError(KvslotsError):
    """The maximum number of requests of this address waits."""


class MaxWaitersTotalError(KvslotsError):
    """The maximum number of requests waits at this gateway."""


class MethodNotAllowedError(KvslotsError):
    """The path does not take this method: the server is another version."""


class NoPoolError(KvslotsError):
    """No pool is registered with this UUID."""


class NoPositionError(KvslotsError):
    """The pool has no such position."""


class NoSlotError(KvslotsError):
    """No slot was granted within the wait.

    held_by has the first holders, if the caller may read them; place is the place in line, from 1, that the
    call had, or would have got.
    """

    held_by: tuple[Holder, ...] = ()
    place: int | None = None


class NotEnqueuedError(KvslotsError):
    """The session has not enqueued for the name, or has left its line."""


class NotFoundError(KvslotsError):
    """The server does not know the path: it is another version, or no gateway."""


class NotHeldError(KvslotsError):
    """The lease has ended, or has no holder at the position.

    cause is "expired" if the lease was not renewed in time, "evicted" if an operator has ended it, and None
    if the gateway does not know, or remember, that.
    """

    cause: str | None = None

    def _because(self, cause: str | None) -> None:
        self.cause = cause
        if cause in _ENDS:
            self.args = (_ENDS[cause],)


_ENDS = {"expired": "it was not renewed in time", "evicted": "an operator has ended it"}


class NotInLineError(KvslotsError):
    """No request with the key waits."""


class OtherHolderError(KvslotsError):
    """Another lease has the position by now."""


class RateLimitedError(KvslotsError):
    """This address has sent more requests than the gateway allows."""


class ReadOnlyError(KvslotsError):
    """The token may only read."""


class SessionGoneError(KvslotsError):
    """The session of a lock or a semaphore has ended."""


class StoreFullError(KvslotsError):
    """The store has no room for new entries."""


class UnauthorizedError(KvslotsError):
    """The token is missing or wrong."""


class UnavailableError(KvslotsError):
    """The store behind the gateway did not answer."""
