"""The sessions that hold locks and semaphores, without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ._errors import KvslotsError
from ._gateways import RETRY_FOR, Flow, Gateways, integer
from ._http import Request, not_understood


SHORTEST_IDLE = 60  # seconds; a session is used again for another lock


@dataclass(repr=False)
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
        alive = [s for s in self._unused if self._gateways.now() - s.used < s.idle]
        self._unused[:] = alive  # the others may have ended
        for session in reversed(alive):
            if session.asked >= ttl:
                self._unused.remove(session)
                return session
        idle = max(ttl, SHORTEST_IDLE)
        request = Request("POST", "/v1/sessions", {"idle_timeout_s": idle})
        body = (yield from self._gateways.ask(request, until=until)).json()
        id = str(body.get("session_id"))
        if not (id.isascii() and id.isalnum()):  # it becomes a header
            raise not_understood()
        return Session(id, integer(body, "idle_timeout_s"), idle)

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
