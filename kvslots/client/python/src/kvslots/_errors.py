"""Errors: a class for each value of the header Kvslots-Error."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

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
        if cls.__module__ != __name__ or cls.__name__.startswith("_"):  # an application may derive classes of its own
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


class TwoStoresError(KvslotsError):
    """Two gateways of the client have two stores, and so two locks of each name: its configuration is wrong."""


def refusal(code: str, text: str, status: int, retry_after: float | None, field: str, range: str) -> KvslotsError:
    """Return the error of an answer; without a code, as from a proxy, the status decides."""
    if not code:
        code = "unavailable" if status >= 500 else "rate_limited" if status == 429 else ""
    return _by_code.get(code, KvslotsError)(
        text or f"HTTP status {status}", status=status, retry_after=retry_after, field=field, range=range
    )


class _TakenError(KvslotsError):
    held_by: str = ""
    held_for: float | None = None
    place: int | None = None
    paused: bool = False
    pause_reason: str = ""
    limit: int | None = None

    def _explain(self, place: int | None, header: str) -> str:
        """Remember why nothing was granted, and return it in words."""
        self.place = place
        try:
            taken = dict(json.loads(header))
        except (ValueError, TypeError, RecursionError):
            return ""
        self.held_by, self.pause_reason = str(taken.get("held_by", "")), str(taken.get("pause_reason", ""))
        self.paused = taken.get("paused") is True
        for name, value in (("held_for", taken.get("held_s")), ("limit", taken.get("limit"))):
            if isinstance(value, (int, float)):
                setattr(self, name, value)
        if self.paused:
            return f"paused: {self.pause_reason}" if self.pause_reason else "paused"
        if self.held_by or self.held_for is not None:
            return f"taken by {self.held_by or 'an unnamed holder'}, for {_duration(self.held_for or 0)}"
        return ""


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


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


class LimitMismatchError(_TakenError):
    """The name is in use with another limit, or as another kind.

    limit is the one that it is in use with, or None if it is a lock. For the others see NoSlotError.
    """

    def _explain(self, place: int | None, header: str) -> str:
        if why := super()._explain(place, header):
            self.args = (f"{self}: {why}",)
        return why


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


class NoSlotError(_TakenError):
    """No slot was granted within the wait.

    held_by is the label of the lease at the lowest position, and held_for how many seconds it has been held; place is
    the place in line, from 1, that the call had, or would have got. paused says that an operator has taken it out
    of service, and pause_reason why. "", None and False: not known.
    """

    def _explain(self, place: int | None, header: str) -> str:
        if why := super()._explain(place, header):
            self.args = (f"{why}; place {place}" if place else why,)
        return why


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
