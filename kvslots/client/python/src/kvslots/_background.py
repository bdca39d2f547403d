"""The thread of a client that renews its leases."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ._claims import LONGEST_NAP
from ._gateways import Flow, T, clock
from ._streams import Streams

if TYPE_CHECKING:
    from ._keeper import Keeper

IDLE = 10.0  # seconds without a lease after which the thread ends


class Background:
    """Renews leases, and ends what interrupted calls have left behind, in a thread with an event loop.

    It is one thread for all leases of a client, in which no request waits for another one; and not the loop of
    the application, which may be blocked. A lease that lasts for less than a nap costs it nothing.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._lock = threading.RLock()  # a signal handler may interrupt its owner
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._new: list[Keeper] = []
        self._wake = asyncio.Event()
        self._looks_at = 0.0  # when the thread sees new leases
        self._pending: set[Future[Any]] = set()
        backgrounds.add(self)

    def keep(self, keeper: Keeper) -> None:
        """Have a lease renewed."""
        with self._lock:
            self._new.append(keeper)
            loop = self._started()
            if keeper.claim.renew_at < self._looks_at:
                loop.call_soon_threadsafe(self._wake.set)

    def run(self, flow: Flow[T]) -> Future[T]:
        """Run a flow to its end, whatever becomes of the caller."""
        with self._lock:
            future = asyncio.run_coroutine_threadsafe(self._streams.run(flow), self._started())
            self._pending.add(future)
            future.add_done_callback(self._pending.discard)
            return future

    def stop(self, timeout: float) -> None:
        """End the thread, when what it runs has ended, or after a timeout."""
        if os.getpid() != self._process:
            return
        concurrent.futures.wait(list(self._pending), timeout)
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is None:
                return
            loop.call_soon_threadsafe(self._wake.set)
        self._thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._wake = asyncio.Event()
            self._looks_at = clock()
            self._thread = threading.Thread(target=_serve, args=(self._loop, self._watch(self._loop)), name="kvslots", daemon=True)
            self._thread.start()
        return self._loop

    async def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Renew what comes, until nothing has come for a while, or the thread is to end."""
        tasks: set[asyncio.Task[None]] = set()
        used = clock()
        while True:
            with self._lock:
                if self._loop is not loop:
                    break
                new, self._new = self._new, []
                if new or tasks or self._pending:
                    used = clock()
                elif clock() > used + IDLE:
                    self._loop = None
                    break
                self._wake.clear()
                self._looks_at = clock() + LONGEST_NAP
            for keeper in new:
                if not keeper.claim.over:
                    task = asyncio.ensure_future(keeper.keep(self._streams))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
            try:
                await asyncio.wait_for(self._wake.wait(), LONGEST_NAP)
            except asyncio.TimeoutError:
                pass
        await self._streams.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


backgrounds: weakref.WeakSet[Background] = weakref.WeakSet()


def _serve(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(main)
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()
