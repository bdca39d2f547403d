"""The protocol without I/O.

A flow is a generator. It yields a Send or a Sleep, and whoever runs it performs that, blocking or
with asyncio: it sends the answer back in, or throws an UnreachableError. So the rules below
(which gateway is asked, what is repeated and when, how long a lease lasts) are written once.
"""

from __future__ import annotations

import logging
import math
import random
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, Union
from urllib.parse import quote

from ._errors import (
    KvslotsError,
    LimitMismatchError,
    NoPoolError,
    NoSlotError,
    NotHeldError,
    SessionGoneError,
    UnreachableError,
)
from ._http import Address, Request, Response, not_understood

log = logging.getLogger("kvslots")

# All times are in seconds.
LONGEST_ASK = 30  # of the wait of one request; many proxies end a request after 60
ANSWER_TIMEOUT = 10.0  # of a gateway, in addition to the wait; it gives up on its store after 5
RETRY_FOR = 3.0  # how long a call without a wait is repeated
PATIENCE = 60.0  # how long a wait goes on although no gateway answers
RELEASE_TIMEOUT = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # between repetitions
RENEW_AT = 1 / 3  # of the ttl
LONGEST_NAP = 1.0  # of keep, so that the end of a machine's suspension is noticed

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    gateway: Address
    request: Request
    timeout: float


@dataclass(frozen=True)
class Sleep:
    seconds: float


Flow = Generator[Union[Send, Sleep], Union[Response, None], T]


def clock() -> float:
    """Return the seconds on the clock of Lease.deadline, which nobody sets.

    On Linux it goes on while the machine is suspended, since a lease does not wait for that.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Pauses:
    """The pauses before the repetitions of one call."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    def after(self, error: KvslotsError) -> float:
        """Return what the gateway asks for, or a random time, so that clients do not come back all at once."""
        seconds, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        return error.retry_after or seconds * random.uniform(0.5, 1)


class Gateways:
    """Gateways of one store, which are asked in turn, beginning with the one that has answered last."""

    def __init__(self, urls: Sequence[str], now: Callable[[], float] = clock) -> None:
        self._addresses = [Address.parse(url) for urls_ in urls for url in urls_.split(",")]
        if not self._addresses:
            raise ValueError("a client needs the URL of a gateway")
        self._first = 0
        self.now = now

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    def ask(self, request: Request, *, wait: float = 0.0, within: float = math.inf) -> Flow[Response]:
        """Send a request, for which a gateway may wait, and return the answer; raise what was refused."""
        count, first, until = len(self._addresses), self._first, self.now() + within
        refused: list[KvslotsError] = []
        failed: list[UnreachableError] = []
        for turn in range(count):
            gateway = self._addresses[(first + turn) % count]
            timeout = min(wait + ANSWER_TIMEOUT, (until - self.now()) / (count - turn))
            try:
                self._first = (first + turn) % count
                sent = self.now()
                response = yield Send(gateway, request, timeout)
                assert response is not None
                error = response.error()
                if error is None:
                    response.json()  # raises UnreachableError if no gateway has written it
                    return replace(response, sent=sent)
                if not error.temporary or error.status < 500:
                    raise error
                refused.append(error)
            except UnreachableError as unreachable:
                failed.append(unreachable)
        self._first = (first + 1) % count
        if refused:
            raise refused[0]
        texts = dict.fromkeys(map(str, failed))
        raise UnreachableError("; ".join(texts), permanent=all(error.permanent for error in failed))

    def repeat(self, request: Request, *, retry_for: float = RETRY_FOR, within: float = math.inf) -> Flow[Response]:
        """Ask, and ask again after temporary failures, for retry_for after the first one."""
        end, until, pauses = self.now() + within, math.inf, Pauses()
        while True:
            try:
                return (yield from self.ask(request, within=end - self.now()))
            except KvslotsError as error:
                pause, until = pauses.after(error), min(until, self.now() + retry_for, end)
                if not error.temporary or self.now() + pause > until:
                    raise
            yield Sleep(pause)


class Claim:
    """The right to a slot, from the request for it to its release."""

    position: int | None = None
    fence = 0
    deadline = -math.inf

    def __init__(self, gateways: Gateways, ttl: float, wait: float | None, label: str) -> None:
        if not 0 < ttl < math.inf:
            raise ValueError("ttl is a number of seconds above 0")
        if wait is not None and not wait >= 0:
            raise ValueError("wait is a number of seconds, 0 or more, or None")
        self._gateways, self._now = gateways, gateways.now
        self._ttl, self._wait = math.ceil(ttl), math.inf if wait is None else wait
        self._label = {"label": label} if label else {}
        self._key = str(uuid.uuid4())
        self._asked = False
        self._granted = 0.0  # how long the lease lasts

    # What differs between pools and names.

    def _prepare(self) -> Flow[None]:
        yield from ()

    def _restart(self) -> None:
        self._key = str(uuid.uuid4())

    def _taking(self, wait: int) -> Request:
        raise NotImplementedError

    def _took(self, body: dict[str, Any]) -> float:
        """Remember what the answer has granted, and return its ttl; raise NoSlotError if it is nothing."""
        raise NotImplementedError

    def _renewing(self) -> Request:
        raise NotImplementedError

    def _renewed(self, body: dict[str, Any]) -> float:
        raise NotImplementedError

    def _releasing(self) -> Request:
        raise NotImplementedError

    def leave(self) -> Flow[None]:
        """Give up what take may have got before it was interrupted: a place in line, or a slot."""
        raise NotImplementedError

    # What does not.

    def _lasts(self, response: Response, ttl: float) -> None:
        """The lease's time begins when the request was sent, plus the time that it says it has waited.

        That is never later than the instant from which the gateway counts, however slow the connection.
        """
        waited = (response.number("kvslots-waited") or 0) / 1000
        self._granted = ttl
        self.deadline = response.sent + min(waited, self._now() - response.sent) + ttl

    def take(self) -> Flow[None]:
        """Take the slot, by as many requests as the wait needs, all with the same request key."""
        heard = self._now()  # when a gateway has answered
        until, pauses = heard + self._wait, Pauses()
        grace = math.inf  # until when a take without a wait is repeated
        while True:
            sent = self._now()
            asked = math.ceil(min(max(until - sent, 0), LONGEST_ASK))
            try:
                yield from self._prepare()
                self._asked = True
                response = yield from self._gateways.ask(self._taking(asked), wait=asked)
                self._lasts(response, self._took(response.json()))
                return
            except NoSlotError as error:
                failed: KvslotsError = error
                limit, heard = until, self._now()
                if heard >= until and not asked:
                    raise
                # The gateway keeps the place in line for a repetition. One without a wait leaves the line.
                if heard >= until or heard - sent > 0.9:
                    pauses = Pauses()
                    continue
            except UnreachableError as error:
                grace = min(grace, self._now() + RETRY_FOR)
                failed, limit = error, min(max(until, grace), heard + PATIENCE)
            except SessionGoneError as error:
                self._restart()
                grace = min(grace, self._now() + RETRY_FOR)
                failed, limit, heard = error, max(until, grace), self._now()
            except KvslotsError as error:
                failed, limit, heard = error, until, self._now()
            left = limit - self._now()
            again = failed.temporary or isinstance(failed, (NoSlotError, SessionGoneError))
            if not again or left <= 0 or (failed.retry_after or 0) > left:
                raise failed
            yield Sleep(min(pauses.after(failed), left))

    def _renew_at(self) -> float:
        return self.deadline - self._granted * (1 - RENEW_AT)

    @property
    def lost_at(self) -> float:
        """Before the deadline, so that a holder can stop in time."""
        return self.deadline - min(self._granted / 10, 1.0)

    def keep(self) -> Flow[KvslotsError]:
        """Renew the lease until it is lost; return why."""
        failed: KvslotsError | None = None
        pauses, wake = Pauses(), self._renew_at()
        while (now := self._now()) < self.lost_at:
            if now < wake:
                yield Sleep(min(wake - now, self.lost_at - now, LONGEST_NAP))
                continue
            try:
                within = min(max(self._granted / 4, 1.0), self.lost_at - now)
                response = yield from self._gateways.ask(self._renewing(), within=within)
                self._lasts(response, self._renewed(response.json()))
            except (NotHeldError, NoPoolError, SessionGoneError) as error:
                return error
            except KvslotsError as error:  # even a final one: the lease lives, and an operator may mend it in time
                failed, wake = error, self._now() + pauses.after(error)
            else:
                pauses, wake = Pauses(), self._renew_at()
        lost = UnreachableError("no gateway has renewed the lease in time")
        lost.__cause__ = failed
        return lost

    def release(self) -> Flow[bool]:
        """End the lease; return whether this has ended it. It gives up when the lease ends anyway."""
        within = max(1.0, min(RELEASE_TIMEOUT, self.deadline - self._now()))
        try:
            response = yield from self._gateways.repeat(self._releasing(), retry_for=within, within=within)
            return response.json().get("returned") is not False
        except (NotHeldError, NoPoolError, SessionGoneError):
            return False
        except KvslotsError as error:
            log.warning("a lease could not be released, and lasts until its time is over: %s", error)
            return False


class SlotClaim(Claim):
    """A slot of a pool, under /l."""

    _lease = ""

    def __init__(
        self, gateways: Gateways, pool: dict[str, str], ttl: float, wait: float | None, label: str = ""
    ) -> None:
        super().__init__(gateways, ttl, wait, label)
        self._pool = pool  # the header with its id

    def _taking(self, wait: int) -> Request:
        key = {"Idempotency-Key": self._key}
        body = {"ttl": self._ttl, "wait": wait} | self._label
        return Request("POST", "/l/self/borrow", body, self._pool | key)

    def _took(self, body: dict[str, Any]) -> float:
        if not isinstance(body.get("lease"), str):
            raise not_understood()
        self._lease = body["lease"]
        self.position, self.fence = integer(body, "position"), integer(body, "fence")
        return integer(body, "expires_in")

    def _renewing(self) -> Request:
        return Request("POST", "/l/self/renew", {"lease": self._lease, "ttl": self._ttl}, self._pool)

    def _renewed(self, body: dict[str, Any]) -> float:
        return integer(body, "expires_in")

    def _releasing(self) -> Request:
        return Request("POST", "/l/self/return", {"lease": self._lease}, self._pool)

    def leave(self) -> Flow[None]:
        if not self._asked:
            return
        try:
            response = yield from self._gateways.repeat(self._taking(0), within=RETRY_FOR)
            self._took(response.json())
            yield from self._gateways.repeat(self._releasing(), within=RETRY_FOR)
        except KvslotsError:
            pass  # mostly NoSlotError: it has left the line


@dataclass(frozen=True)
class PoolState:
    """A pool's slots, and how many borrowers wait in its line."""

    count: int
    in_use: int
    available: int
    waiting: int


def read_state(gateways: Gateways, request: Request) -> Flow[PoolState]:
    body = (yield from gateways.repeat(request)).json()
    return PoolState(*(integer(body, name) for name in ("count", "in_use", "available", "waiting")))


def register(gateways: Gateways, pool: dict[str, str], count: int, name: str = "") -> Flow[PoolState]:
    body: dict[str, Any] = {"count": count} | ({"name": name} if name else {})
    return read_state(gateways, Request("PUT", "/l/self", body, pool | {"Idempotency-Key": str(uuid.uuid4())}))


def inspect(gateways: Gateways, pool: dict[str, str]) -> Flow[PoolState]:
    return read_state(gateways, Request("GET", "/l/self", headers=pool))


def delete(gateways: Gateways, pool: dict[str, str]) -> Flow[None]:
    (yield from gateways.repeat(Request("DELETE", "/l/self", headers=pool))).json()


@dataclass(repr=False)
class Session:
    id: str
    idle: float  # it ends when it is not used for twice this time
    used: float = 0.0  # when its last use ended


class Sessions:
    """Sessions that hold nothing, and can be used again. Each lock that is held, or waited for, has one of its own."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        self._unused: list[Session] = []

    def take(self) -> Flow[Session]:
        while self._unused:
            session = self._unused.pop()
            if self._gateways.now() - session.used < session.idle:
                return session
        response = yield from self._gateways.repeat(Request("POST", "/v1/sessions"))
        body = response.json()
        id = str(body.get("session_id"))
        if not (id.isascii() and id.isalnum()):  # it becomes a header
            raise not_understood()
        return Session(id, integer(body, "idle_timeout_s"))

    def put(self, session: Session) -> None:
        session.used = self._gateways.now()
        self._unused.append(session)

    def end(self, session: Session, within: float = RETRY_FOR) -> Flow[None]:
        """End a session, which leaves all lines and releases what it holds."""
        try:
            path = f"/v1/sessions/{quote(session.id, safe='')}"
            yield from self._gateways.repeat(Request("DELETE", path), within=within)
        except KvslotsError:
            pass  # it has ended, or will soon, since nothing uses it

    def close(self) -> Flow[None]:
        until = self._gateways.now() + RETRY_FOR
        while self._unused:
            yield from self.end(self._unused.pop(), until - self._gateways.now())

    def forget(self) -> None:
        self._unused = []


class NameClaim(Claim):
    """A lock or a semaphore by name, under /v1."""

    _session: Session | None = None
    _token = ""

    def __init__(
        self,
        gateways: Gateways,
        sessions: Sessions,
        name: str,
        limit: int | None,
        ttl: float,
        wait: float | None,
        label: str = "",
    ) -> None:
        super().__init__(gateways, ttl, wait, label)
        if not name:
            raise ValueError("a name is not empty")
        self._sessions = sessions
        self.path = f"/v1/{'locks' if limit is None else 'semaphores'}/{quote(name, safe='')}"
        self._limit = {} if limit is None else {"limit": limit}

    def _request(self, operation: str, body: dict[str, Any]) -> Request:
        assert self._session is not None
        return Request("POST", self.path + operation, body, {"X-Dflockd-Session": self._session.id})

    def _prepare(self) -> Flow[None]:
        if self._session is None:
            self._session = yield from self._sessions.take()

    def take(self) -> Flow[None]:
        try:
            yield from super().take()
        except KvslotsError as error:
            if self._session is not None and isinstance(error, (NoSlotError, LimitMismatchError)):
                self._sessions.put(self._session)
            raise

    def _restart(self) -> None:
        super()._restart()
        self._session = None

    def _taking(self, wait: int) -> Request:
        body = {"acquire_timeout_s": wait, "lease_ttl_s": self._ttl}
        request = self._request("", body | self._limit | self._label)
        request.headers["Idempotency-Key"] = self._key
        return request

    def _took(self, body: dict[str, Any]) -> float:
        if body.get("status") == "timeout":
            raise NoSlotError("no resource available")
        token = body.get("token")
        try:
            self.fence = int(str(token)[:16], 16)
        except ValueError:
            raise not_understood() from None
        self._token = str(token)
        return self._promised(integer(body, "lease_ttl_s"))

    def _renewing(self) -> Request:
        return self._request("/renew", {"token": self._token, "lease_ttl_s": self._ttl})

    def _renewed(self, body: dict[str, Any]) -> float:
        return self._promised(integer(body, "remaining_s"))

    def _promised(self, ttl: float) -> float:
        """A lock ends with its session, which an answer keeps for its idle time; renewals need no pings beside them."""
        assert self._session is not None
        return min(ttl, self._session.idle)

    def _releasing(self) -> Request:
        return self._request("/release", {"token": self._token})

    def release(self) -> Flow[bool]:
        released = yield from super().release()
        if released and self._session is not None:
            self._sessions.put(self._session)
        return released

    def leave(self) -> Flow[None]:
        if self._session is not None:
            yield from self._sessions.end(self._session)


def integer(body: dict[str, Any], field: str) -> int:
    """Return a number of an answer, or raise UnreachableError if the answer is not a gateway's."""
    value = body.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise not_understood()
    return value


def seconds(body: dict[str, Any], field: str) -> float:
    """Return a number of seconds of an answer, as integer does."""
    value = body.get(field)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise not_understood()
    return float(value)
