"""What another thread may end: calls that wait, when their client is closed, and blocks whose lease is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from ._gateways import Flow, Send, T
from ._http import Response
from ._sockets import Sockets, interrupt, run

if TYPE_CHECKING:
    import socket

C = TypeVar("C", bound="Call")


class Call:
    """A call in progress, which is one of its client until it has ended."""

    over = False

    def __init__(self, calls: set[Call], check: Callable[[], None]) -> None:
        self._calls, self._check = calls, check
        self.thread, self.done = threading.get_ident(), Future[None]()

    def cancel(self) -> None:
        """End the call, from any thread."""
        raise NotImplementedError

    def __enter__(self: C) -> C:
        self._calls.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.over = True
        self._calls.discard(self)
        self.done.set_result(None)


class ThreadCall(Call):
    """A call that blocks its thread."""

    def __init__(self, calls: set[Call], check: Callable[[], None], sockets: Sockets) -> None:
        super().__init__(calls, check)
        self._sockets, self._ended = sockets, threading.Event()
        self._sock: socket.socket | None = None

    def run(self, flow: Flow[T]) -> T:
        return run(flow, self._send, self._ended.wait)

    def _send(self, effect: Send) -> Response:
        self._check()
        try:
            return self._sockets.send(effect, self._uses)
        finally:
            self._sock = None

    def _uses(self, sock: socket.socket) -> None:
        self._sock = sock
        self._check()  # cancel sees the socket, or this sees the end

    def cancel(self) -> None:
        self._ended.set()
        if (sock := self._sock) is not None:
            interrupt(sock)


class TaskCall(Call):
    """What a task does, and may be cancelled in, as asyncio.timeout does when the time is over."""

    def __init__(self, calls: set[Call], check: Callable[[], None]) -> None:
        super().__init__(calls, check)
        self._task, self._loop = current_task(), asyncio.get_running_loop()
        self._before, self._cancelled = self._cancelling(), False

    def cancel(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            pass  # the loop has ended before

    def _cancel(self) -> None:
        if not self.over:
            self._cancelled = True
            self._task.cancel()

    def _cancelling(self) -> int:
        return int(self._task.cancelling()) if hasattr(self._task, "cancelling") else 0  # from Python 3.11 on

    def ends(self, error: BaseException | None) -> bool:
        """Report whether an error is the cancellation of this call alone, which ends with this."""
        if not self._cancelled or current_task() is not self._task:
            return False
        self._cancelled = False
        if hasattr(self._task, "uncancel"):
            self._task.uncancel()  # also if the block has raised something else
        return isinstance(error, asyncio.CancelledError) and self._cancelling() <= self._before


def current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("there is no task")
    return task
