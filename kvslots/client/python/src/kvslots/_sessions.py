"""The sessions that hold locks and semaphores, without I/O."""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import KvslotsError
from ._gateways import RETRY_FOR, Flow, Gateways, integer
from ._http import Request, Response, not_understood


SHORTEST_IDLE = 60  # seconds; a session is used again for another lock


@dataclass(repr=False, eq=False)
class Session:
    id: str
    idle: float  # it ends when it is not used for twice this time
    asked: float  # the idle time that it was to have
    used: float = 0.0  # when its last use ended


class Sessions:
    """Sessions that hold nothing, and can be used again. Each lock that is held, or waited for, has one of its own."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        self._unused: list[Session] = []

    def take(self, ttl: float, until: float) -> Flow[Session]:
        """Return an unused session, or a new one, whose idle time covers a ttl: a lock ends with its session."""
        for session in reversed(list(self._unused)):
            alive = self._gateways.now() - session.used < session.idle  # otherwise it may have ended
            if not alive or session.asked >= ttl:
                try:
                    self._unused.remove(session)  # atomic
                except ValueError:
                    continue  # another thread has taken it
                if alive:
                    return session
        idle = max(ttl, SHORTEST_IDLE)
        request = Request("POST", "/v1/sessions", {"idle_timeout_s": idle})
        response = yield from self._gateways.ask(request, until=until, back=lambda answer: _ending(_id(answer)))
        return Session(_id(response), integer(response.json(), "idle_timeout_s"), idle)

    def put(self, session: Session) -> None:
        session.used = self._gateways.now()
        self._unused.append(session)

    def end(self, session: Session, within: float = RETRY_FOR) -> Flow[None]:
        """End a session, which leaves all lines and releases what it holds."""
        try:
            yield from self._gateways.repeat(_ending(session.id), within=within)
        except KvslotsError:
            pass  # it has ended, or will soon, since nothing uses it

    def close(self) -> Flow[None]:
        until = self._gateways.now() + RETRY_FOR
        while self._unused:
            yield from self.end(self._unused.pop(), until - self._gateways.now())

    def forget(self) -> None:
        self._unused = []


def _id(response: Response) -> str:
    id = str(response.json().get("session_id"))
    if not (id.isascii() and id.isalnum()):  # it becomes a header
        raise not_understood()
    return id


def _ending(id: str) -> Request:
    return Request("DELETE", f"/v1/sessions/{id}")
