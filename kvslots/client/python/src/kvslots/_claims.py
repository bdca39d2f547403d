"""The right to a slot or a lock, from the request for it to its release, without I/O."""

from __future__ import annotations

import logging
import math
import uuid
from hashlib import sha256
from typing import Any
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
from ._gateways import RETRY_FOR, Flow, Gateways, Pauses, Sleep, integer
from ._http import Request, Response, not_understood
from ._sessions import Session, Sessions

log = logging.getLogger("kvslots")

# All times are in seconds.
LONGEST_ASK = 30  # of the wait of one request; many proxies end a request after 60
GRACE = 2.5  # how much longer than its wait a call may take
PATIENCE = 60.0  # how long a wait goes on although no gateway answers
RELEASE_TIMEOUT = 10.0
RENEW_AT = 1 / 3  # of the ttl
LAST_TRY = 0.1  # the least time for a last repetition
TOO_SHORT = 0.5  # for a repetition to say why no gateway answers
ASK_EVERY = 4.0  # whether the lease has been ended, so that its holder knows within 5
LONGEST_NAP = 1.0  # of keep, so that the end of a machine's suspension is noticed


class Claim:
    """A slot or a lock that is to be taken, renewed and released. Its renewals are run by one thread."""

    fence = 0
    deadline = -math.inf
    over = False  # it is to be renewed no more

    def __init__(self, gateways: Gateways, ttl: float, wait: float | None, label: str) -> None:
        self._wait = math.inf if wait is None else wait
        self._ttl = whole(ttl)
        if not self._wait >= 0:
            raise ValueError("wait is a number of seconds, 0 or more, or None")
        self._gateways, self._now = gateways, gateways.now
        self._label = {"label": label} if label else {}
        self._key = str(uuid.uuid4())
        self._asked = self._renewing_now = False
        self._granted = 0.0  # how long the lease lasts

    # What differs between pools and names.

    def _prepare(self, until: float) -> Flow[None]:
        yield from ()

    def _restart(self) -> None:
        self._key = str(uuid.uuid4())

    def _taking(self, wait: int, uncounted: bool) -> Request:
        raise NotImplementedError

    def _took(self, response: Response) -> float:
        """Remember what the answer has granted, and return its ttl; raise NoSlotError if it is nothing."""
        raise NotImplementedError

    def _back(self, response: Response) -> Request:
        self._took(response)
        return self._releasing()

    def _renewing(self) -> Request:
        raise NotImplementedError

    def _renewed(self, body: dict[str, Any]) -> float:
        raise NotImplementedError

    def _held(self, until: float) -> Flow[Response]:
        """Ask by a read whether the lease is held; the error says that it is not, or that it is not known."""
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
        end, again_until = until + GRACE, math.inf
        failed: KvslotsError | None = None
        while True:
            sent = self._now()
            # The wait is divided among the gateways: each is asked in time, although one before it is silent.
            left = max(until - sent, 0)
            asked = math.ceil(min(left / len(self._gateways), LONGEST_ASK))
            # Metrics count the last request of a wait alone, and not the one after it, which leaves the line.
            uncounted = left > asked or not left and self._wait > 0
            within = min(end, heard + PATIENCE)
            try:
                yield from self._prepare(within)
                self._asked = True
                taking = self._taking(asked, uncounted)
                response = yield from self._gateways.ask(taking, wait=asked, until=within, back=self._back)
                self._lasts(response, self._took(response))
                late = self._now() - self.deadline + self._granted  # by which the answer may be shorter
                if self._granted + late + 1 < self._ttl:
                    log.warning("a lease was granted for %g seconds instead of %d", self._granted, self._ttl)
                return
            except NoSlotError as error:
                failed, limit, heard = error, until, self._now()
                if heard >= until and not asked:
                    raise
                # The gateway keeps the place in line for a repetition. One without a wait leaves the line.
                if heard >= until or heard - sent > 0.9:
                    pauses = Pauses()
                    continue
            except (UnreachableError, SessionGoneError) as error:
                if isinstance(error, SessionGoneError):
                    self._restart()
                    heard = self._now()
                again_until = min(again_until, self._now() + RETRY_FOR, end)
                limit = min(max(until, again_until), heard + PATIENCE)
                if within - sent > TOO_SHORT or not isinstance(failed, UnreachableError):
                    failed = error  # otherwise the last one says more
            except KvslotsError as error:
                failed, limit, heard = error, until, self._now()
            left = min(limit, within - LAST_TRY) - self._now()
            again = failed.temporary or isinstance(failed, (NoSlotError, SessionGoneError))
            if not again or left <= 0 or (failed.retry_after or 0) > left:
                raise failed
            yield Sleep(min(pauses.after(failed), left))

    @property
    def renew_at(self) -> float:
        """When the next renewal is due."""
        return self.deadline - self._granted * (1 - RENEW_AT)

    @property
    def lost_at(self) -> float:
        """When it counts as lost: before the deadline, so that a holder can stop in time."""
        return self.deadline - min(self._granted / 10, 1.0)

    def renew(self, ttl: float | None = None) -> Flow[None]:
        """Renew the lease, from now on for another ttl. Renewals come one after the other, so that the last one counts."""
        while self._renewing_now:
            yield Sleep(0.01)
        self._renewing_now = True
        try:
            self._ttl = self._ttl if ttl is None else whole(ttl)
            until = min(self._now() + max(self._granted / 4, 1.0), self.lost_at)
            response = yield from self._gateways.ask(self._renewing(), until=until)
            self._lasts(response, self._renewed(response.json()))
        finally:
            self._renewing_now = False

    def _known_held(self) -> Flow[bool]:
        """Ask whether the lease has been ended. Whatever else the answer is than that it is held, a renewal knows for sure."""
        try:
            yield from self._held(min(self._now() + ASK_EVERY, self.renew_at))
            return True
        except KvslotsError:
            return False

    def keep(self) -> Flow[KvslotsError | None]:
        """Renew the lease until it is lost, and return why; None if it is over."""
        failed: KvslotsError | None = None
        pauses, not_before, ask_at = Pauses(), -math.inf, self._now() + ASK_EVERY
        while not self.over and (now := self._now()) < self.lost_at:
            wake = max(min(self.renew_at, ask_at), not_before)
            if now < wake:
                yield Sleep(min(wake - now, self.lost_at - now, LONGEST_NAP))
                continue
            ask_at = now + ASK_EVERY
            try:
                if now >= self.renew_at or not (yield from self._known_held()):
                    yield from self.renew()
            except (NotHeldError, NoPoolError, SessionGoneError) as error:
                return error
            except KvslotsError as error:  # even a final one: the lease lives, and an operator may mend it in time
                failed, not_before = error, self._now() + pauses.after(error)
            else:
                pauses, not_before = Pauses(), -math.inf
        if self.over:
            return None
        lost = UnreachableError("no gateway has renewed the lease in time")
        lost.__cause__ = failed
        return lost

    def release(self) -> Flow[bool]:
        """End the lease; return whether this has ended it. It gives up when the lease ends anyway."""
        within = max(1.0, min(RELEASE_TIMEOUT, self.deadline - self._now()))
        try:
            response = yield from self._gateways.repeat(self._releasing(), retry_for=within, within=within)
            return response.repeated or response.json().get("returned") is not False
        except (NotHeldError, NoPoolError, SessionGoneError) as error:
            return error._repeated
        except KvslotsError as error:
            log.warning("a lease could not be released, and lasts until its time is over: %s", error)
            return False


def whole(ttl: float) -> int:
    """Return a ttl as gateways take it."""
    if not 0 < ttl < math.inf:
        raise ValueError("ttl is a number of seconds above 0")
    return math.ceil(ttl)


class SlotClaim(Claim):
    """A slot of a pool, under /l."""

    position = -1
    _lease = ""

    def __init__(
        self, gateways: Gateways, pool: dict[str, str], ttl: float, wait: float | None, label: str = ""
    ) -> None:
        super().__init__(gateways, ttl, wait, label)
        self._pool = pool  # the header with its id

    def __str__(self) -> str:
        return "a slot"

    def _taking(self, wait: int, uncounted: bool) -> Request:
        key = {"Idempotency-Key": self._key}
        body = {"ttl": self._ttl, "wait": wait, "uncounted": uncounted} | self._label
        return Request("POST", "/l/self/borrow", body, self._pool | key)

    def _took(self, response: Response) -> float:
        body = response.json()
        if not isinstance(body.get("lease"), str):
            raise not_understood()
        self._lease = body["lease"]
        self.position, self.fence = integer(body, "position"), integer(body, "fence")
        return integer(body, "expires_in")

    def _renewing(self) -> Request:
        return Request("POST", "/l/self/renew", {"lease": self._lease, "ttl": self._ttl}, self._pool)

    def _renewed(self, body: dict[str, Any]) -> float:
        return integer(body, "expires_in")

    def _held(self, until: float) -> Flow[Response]:
        request = Request("GET", "/v1/pools/self/leases/self", headers=self._pool | {"Kvslots-Lease": self._lease})
        return self._gateways.ask(request, until=until)

    def _releasing(self) -> Request:
        return Request("POST", "/l/self/return", {"lease": self._lease}, self._pool)

    def leave(self) -> Flow[None]:
        if not self._asked:
            return
        try:
            response = yield from self._gateways.repeat(self._taking(0, True), within=RETRY_FOR)
            self._took(response)
            yield from self._gateways.repeat(self._releasing(), within=RETRY_FOR)
        except KvslotsError:
            pass  # mostly NoSlotError: it has left the line


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
        self._what = f"lock {name!r}" if limit is None else f"semaphore {name!r}"
        self._name = quote(name, safe="")
        self._path = f"/v1/{'locks' if limit is None else 'semaphores'}/{self._name}"
        # Another pool may have the name in public, and a lock may have that of a UUID; but only the lock has this hash.
        self.lent = f"/v1/pools/{sha256(b'dflockd/' + name.encode()).hexdigest()[:32]}"
        self._limit = {} if limit is None else {"limit": limit}

    def __str__(self) -> str:
        return self._what

    def _request(self, operation: str, body: dict[str, Any]) -> Request:
        assert self._session is not None
        return Request("POST", self._path + operation, body, {"X-Dflockd-Session": self._session.id})

    def _prepare(self, until: float) -> Flow[None]:
        if self._session is None:
            self._session = yield from self._sessions.take(self._ttl, until)

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

    def _taking(self, wait: int, uncounted: bool) -> Request:
        body = {"acquire_timeout_s": wait, "lease_ttl_s": self._ttl, "uncounted": uncounted}
        request = self._request("", body | self._limit | self._label)
        request.headers["Idempotency-Key"] = self._key
        return request

    def _took(self, response: Response) -> float:
        body = response.json()
        if body.get("status") == "timeout":
            error = NoSlotError("no resource available")
            response.explain(error)
            raise error
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

    def _held(self, until: float) -> Flow[Response]:
        assert self._session is not None
        headers = {"X-Dflockd-Session": self._session.id, "Kvslots-Lease": self._token}
        return self._gateways.ask(Request("GET", f"/v1/pools/{self._name}/leases/self", headers=headers), until=until)

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
