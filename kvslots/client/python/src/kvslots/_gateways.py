"""The gateways of a store, and what is repeated, without I/O.

A flow is a generator. It yields a Send or a Sleep, and the code that runs it performs that, blocking or
with asyncio: it sends the answer back in, or throws an UnreachableError. So the rules are written once.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, Union

from ._errors import KvslotsError, TwoStoresError, UnreachableError
from ._http import Address, Request, Response, not_understood

# All times are in seconds.
TIMEOUT = 10.0  # of a request, in addition to its wait; a gateway gives up on its store after 5
RETRY_FOR = 3.0  # after the first failure of a call without a wait
PAGE = 500  # leases or places of one answer, which is then shorter than MAX_ANSWER
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # between repetitions

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
    """Return the seconds on the clock of Lease.deadline, which cannot be set.

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

    def __init__(self, urls: Sequence[str], now: Callable[[], float] = clock, timeout: float = TIMEOUT) -> None:
        self._addresses = [Address.parse(url) for urls_ in urls for url in urls_.split(",")]
        if not self._addresses:
            raise ValueError("a client needs the URL of a gateway")
        if not 0 < timeout < math.inf:
            raise ValueError("timeout is a number of seconds above 0")
        self._first = 0
        self._stores: dict[Address, str] = {}  # of what each has answered last
        self.now, self.timeout = now, timeout

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    def __len__(self) -> int:
        return len(self._addresses)

    def ask(
        self,
        request: Request,
        *,
        wait: float = 0.0,
        until: float = math.inf,
        back: Callable[[Response], Request] | None = None,
    ) -> Flow[Response]:
        """Send a request, for which a gateway may wait, and return the answer; raise what was refused.

        If a second store has answered, back returns the request that gives back what that has granted.

        Each gateway has its share of the time until the given one, so that a silent one leaves some to the others.
        """
        count, first = len(self._addresses), self._first
        refused: list[KvslotsError] = []
        failed: list[UnreachableError] = []
        for turn in range(count):
            gateway = self._addresses[(first + turn) % count]
            timeout = min(wait + self.timeout, (until - self.now()) / (count - turn))
            try:
                self._first = (first + turn) % count
                sent = self.now()
                response = yield Send(gateway, request, timeout)
                assert response is not None
                error = response.error()
                if store := response.headers.get("kvslots-store"):
                    self._stores[gateway] = store
                if len({*self._stores.values()}) > 1:
                    if error is None and back is not None:
                        yield Send(gateway, back(response), RETRY_FOR)
                    raise TwoStoresError(f"{self} have two stores, and so two locks of each name")
                if error is None:
                    response.json()  # raises UnreachableError if no gateway has written it
                    return replace(response, sent=sent, repeated=response.repeated or bool(failed))
                error._repeated = response.repeated or bool(failed)
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

    def repeat(self, request: Request, *, retry_for: float = RETRY_FOR, within: float | None = None) -> Flow[Response]:
        """Ask, and ask again after temporary failures, for retry_for after the first one; within limits it all."""
        end, until, pauses = self.now() + (self.timeout if within is None else within), math.inf, Pauses()
        lost = False
        while True:
            try:
                response = yield from self.ask(request, until=end)
                return replace(response, repeated=response.repeated or lost)
            except KvslotsError as error:
                lost = error._repeated = lost or error._repeated or isinstance(error, UnreachableError)
                pause, until = pauses.after(error), min(until, self.now() + retry_for, end)
                if not error.temporary or self.now() + pause > until:
                    raise
            yield Sleep(pause)


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
