"""Forks, interrupts and exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import unittest
import urllib.request
from collections.abc import Callable

from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, Gateway, eventually, line_of, program


class Processes(GatewayTest):
    def start(self, text: str, stderr: int | None = None) -> Callable[[], str]:
        """Start a program with a client and a pool; the result reads a line that it prints."""
        begin = f"import kvslots, os, signal, sys\nclient = kvslots.Client({self.gateway.url!r})\n"
        begin += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in a shell's background
        process = program(f"{begin}pool = client.pool({str(self.uuid)!r})\n{text}", stderr)
        self.process = process

        def clean() -> None:
            process.kill()
            process.communicate()

        self.addCleanup(clean)
        return lambda: line_of(process)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_child_neither_renews_nor_releases(self) -> None:
        self.pool.register(2)
        line = self.start(
            """
with client.lock("before"), client.lock("before-too"):
    pass
with pool.borrow() as lease, client.lock("parent") as lock:
    assert client._sockets._idle and client._sessions._unused
    child = os.fork()
    if child:
        os.wait()
        assert not lease.lost.is_set() and not lock.lost.is_set()
    else:
        assert not any(client._sockets._idle.values()) and not client._sessions._unused
        assert not lease.release() and not lock.release()
        with pool.borrow() as own, client.lock("child"):
            print(own.position, flush=True)
if child:
    sys.exit()
print("in use", pool.inspect().in_use, flush=True)
client.close()
"""
        )
        self.assertEqual(line(), "1")
        self.assertEqual(line(), "in use 1", "the child has returned its own lease alone")
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.assertEqual(self.pool.inspect().in_use, 0)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_lease_ends_with_its_process_although_a_child_lives(self) -> None:
        line = self.start(
            """
lease = pool.borrow(ttl=1).acquire()
child = os.fork()
if not child:
    sys.stdin.read()
    os._exit(0)
print("held", flush=True)
os.kill(os.getpid(), 9)
"""
        )
        self.assertEqual(line(), "held")
        with self.pool.borrow(wait=PATIENCE):
            pass

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.assertNotEqual(self.process.wait(PATIENCE), 0)

    def test_ctrl_c_in_line_leaves_it(self) -> None:
        asynchronous = f"""
import asyncio
pool = kvslots.AsyncClient({self.gateway.url!r}).pool({str(self.uuid)!r})
async def main():
    await asyncio.gather(*(pool.borrow().acquire() for _ in range(3)))
asyncio.run(main())
"""
        with self.pool.borrow():
            for text, waiting in (("pool.borrow().acquire()", 1), (asynchronous, 3)):
                self.start(text, subprocess.DEVNULL)
                self.wait_for_waiters(waiting)
                self.interrupt()
                self.wait_for_waiters(0)

    def test_ctrl_c_in_line_for_a_lock_leaves_it(self) -> None:
        name = str(self.uuid)
        with self.client.lock(name) as lease:
            self.start(f"client.lock({name!r}).acquire()", subprocess.DEVNULL)
            eventually(lambda: waiters(self.gateway, name) == 1)
            self.interrupt()
            eventually(lambda: waiters(self.gateway, name) == 0)
            self.assertFalse(lease.lost.is_set())

    def test_ctrl_c_in_the_block_releases(self) -> None:
        # Not sys.stdin.read(), which does not notice an interrupt that comes just before it blocks.
        text = "import time\nwith pool.borrow():\n print('held', flush=True)\n while True:\n  time.sleep(0.01)"
        line = self.start(text, subprocess.DEVNULL)
        self.assertEqual(line(), "held")
        self.interrupt()
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_an_exit_releases(self) -> None:
        line = self.start("lease = pool.borrow().acquire()\nprint('held', flush=True)")
        self.assertEqual(line(), "held")
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.assertEqual(self.pool.inspect().in_use, 0)


def waiters(gateway: Gateway, name: str) -> int:
    """Return the length of a lock's line, of which only the statistics know."""
    with urllib.request.urlopen(gateway.url + "/v1/stats") as answer:
        locks = json.load(answer)["locks"]
    return sum(int(lock["waiters"]) for lock in locks if lock["key"] == name)


if __name__ == "__main__":
    unittest.main()
