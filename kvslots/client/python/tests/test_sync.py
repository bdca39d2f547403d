"""Leases of a gateway, in threads."""

from __future__ import annotations

import os
import signal
import ssl
import sys
import threading
import time
import unittest
import uuid
from collections.abc import Callable
from unittest import mock

import kvslots
from kvslots import _core
from tests.gateways import PATIENCE, Gateway, Proxy, eventually, line_of, program

gateway: Gateway


def setUpModule() -> None:
    global gateway
    gateway = Gateway()


def tearDownModule() -> None:
    gateway.stop()


class Test(unittest.TestCase):
    def setUp(self) -> None:
        self.client = self.dial(gateway.url)
        self.uuid = uuid.uuid4()
        self.pool = self.client.pool(self.uuid)
        self.pool.register(1)

    def dial(self, *urls: str) -> kvslots.Client:
        client = kvslots.Client(*urls)
        self.addCleanup(client.close)
        return client

    def proxy(self) -> tuple[Proxy, kvslots.Client]:
        proxy = Proxy(gateway.url)
        self.addCleanup(proxy.stop)
        return proxy, self.dial(proxy.url)

    def wait_for_waiters(self, count: int, pool: kvslots.Pool | None = None) -> None:
        eventually(lambda: (pool or self.pool).inspect().waiting == count)


class Pools(Test):
    def test_register_inspect_delete(self) -> None:
        self.assertEqual(self.pool.register(3), kvslots.PoolState(count=3, in_use=0, available=3, waiting=0))
        with self.pool.borrow():
            self.assertEqual(self.pool.inspect(), kvslots.PoolState(count=3, in_use=1, available=2, waiting=0))
        self.pool.delete()
        self.pool.delete()
        with self.assertRaises(kvslots.NoPoolError):
            self.pool.inspect()
        with self.assertRaises(kvslots.NoPoolError):
            self.pool.borrow().acquire()

    def test_a_refused_argument(self) -> None:
        with self.assertRaises(kvslots.BadRequestError) as raised:
            self.pool.register(1001)
        self.assertEqual((raised.exception.status, raised.exception.field), (400, "count"))

    def test_positions_and_fences(self) -> None:
        self.pool.register(2)
        with self.pool.borrow() as first, self.pool.borrow() as second:
            self.assertEqual((first.position, second.position), (0, 1))
        with self.pool.borrow() as third:
            self.assertGreater(third.fence, first.fence)

    def test_no_slot(self) -> None:
        with self.pool.borrow():
            for wait in (0, 0.5):
                with self.assertRaises(kvslots.NoSlotError):
                    self.pool.borrow(wait=wait).acquire()
            self.assertEqual(self.pool.inspect().waiting, 0)

    def test_a_borrow_holds_one_slot_at_a_time(self) -> None:
        self.pool.register(2)
        borrow = self.pool.borrow()
        for _ in range(2):
            with borrow:
                with self.assertRaises(RuntimeError), borrow:
                    pass
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_the_id_of_a_pool_is_in_no_path(self) -> None:
        proxy, client = self.proxy()
        with client.pool(self.uuid).borrow(ttl=1) as lease:
            eventually(lambda: proxy.count("POST /l/self/renew") > 0)
            self.assertFalse(lease.lost.is_set())
        client.pool(str(self.uuid).upper()).inspect()
        self.assertTrue(all("/l/self" in r.path and r.headers["Kvslots-Pool"] == str(self.uuid) for r in proxy.received))

    def test_the_line_is_served_in_order_beyond_the_gateways_longest_wait(self) -> None:
        short = Gateway("--max-wait", "1s")
        self.addCleanup(short.stop)
        proxy = Proxy(short.url)
        self.addCleanup(proxy.stop)
        order: list[int] = []

        def borrow(client: kvslots.Client, number: int) -> None:
            with client.pool(self.uuid).borrow(wait=PATIENCE):
                order.append(number)

        with self.pool.borrow():
            threads = []
            for number, client in enumerate((self.dial(proxy.url), self.client)):
                thread = threading.Thread(target=borrow, args=(client, number))
                thread.start()
                threads.append(thread)
                self.wait_for_waiters(number + 1)
            eventually(lambda: proxy.count("POST /l/self/borrow") > 2)
        for thread in threads:
            thread.join()
        self.assertEqual(order, [0, 1])
        self.assertEqual(len({r.headers["Idempotency-Key"] for r in proxy.received if r.path.endswith("borrow")}), 1)


class Leases(Test):
    def test_release_is_idempotent(self) -> None:
        lease = self.pool.borrow().acquire()
        self.assertTrue(lease.release())
        self.assertTrue(lease.release(), "the first call counts")
        self.assertFalse(lease.lost.is_set())
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_a_lease_is_renewed(self) -> None:
        with self.pool.borrow(ttl=1) as lease:
            first, fence = lease.deadline, lease.fence
            eventually(lambda: kvslots.clock() > first + 1)
            self.assertGreater(lease.deadline, first)
            self.assertEqual((lease.lost.is_set(), lease.lost.cause, lease.fence), (False, None, fence))
            self.assertFalse(lease.lost.wait(0))

    def lost(self, lease: kvslots.Lease, cause: type[kvslots.KvslotsError]) -> None:
        self.assertTrue(lease.lost.wait(PATIENCE))
        self.assertIsInstance(lease.lost.cause, cause)
        self.assertFalse(lease.release())

    def test_lost_with_its_pool(self) -> None:
        lease = self.pool.borrow(ttl=1).acquire()
        self.pool.delete()
        self.lost(lease, kvslots.NoPoolError)

    def test_lost_since_it_was_returned_elsewhere(self) -> None:
        lease = self.pool.borrow(ttl=1).acquire()
        claim = lease._keeper.claim
        self.client._run(claim.release())
        self.lost(lease, kvslots.NotHeldError)

    def test_lost_with_its_session(self) -> None:
        lease = self.client.lock(str(self.uuid), ttl=1).acquire()
        self.client._run(lease._keeper.claim.leave())
        self.lost(lease, kvslots.SessionGoneError)

    def test_lost_since_no_gateway_renews_it(self) -> None:
        proxy, client = self.proxy()
        lease = client.pool(self.uuid).borrow(ttl=1).acquire()
        proxy.fault = lambda request: "drop" if request.path.endswith("renew") else ""
        self.assertTrue(lease.lost.wait(PATIENCE))
        self.assertIsInstance(lease.lost.cause, kvslots.UnreachableError)
        lease.release()

    def test_the_clock_alone_shows_a_loss(self) -> None:
        lease = self.pool.borrow(ttl=1).acquire()
        with mock.patch("kvslots._lease.clock", return_value=lease.deadline - 0.05):
            self.assertTrue(lease.lost.is_set())
        self.assertTrue(lease.lost.is_set(), "a lost lease stays lost")
        lease.release()

    def test_a_loss_is_raised_at_the_end_of_the_block(self) -> None:
        with self.assertRaises(kvslots.LeaseLostError) as raised:
            with self.pool.borrow(ttl=1) as lease:
                self.pool.delete()
                lease.lost.wait(PATIENCE)
        self.assertIsInstance(raised.exception.__cause__, kvslots.NoPoolError)

    def test_the_error_of_the_block_is_not_masked(self) -> None:
        for lose in (True, False):
            self.pool.register(1)
            with self.assertRaises(ZeroDivisionError):
                with self.pool.borrow(ttl=1) as lease:
                    if lose:
                        self.pool.delete()
                        lease.lost.wait(PATIENCE)
                    1 / 0
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_a_release_that_fails_is_bounded_and_raises_nothing(self) -> None:
        proxy, client = self.proxy()
        with self.assertLogs("kvslots"), client.pool(self.uuid).borrow(ttl=2):
            proxy.fault = lambda request: "drop"
        with self.pool.borrow(wait=PATIENCE):
            pass

    def test_a_forgotten_lease_ends(self) -> None:
        lease = self.pool.borrow(ttl=1).acquire()
        del lease
        self.pool.borrow(wait=PATIENCE).acquire().release()

    def test_no_deadline_is_later_than_the_gateways(self) -> None:
        """Whatever the wall clock says, and however slow the network is."""
        proxy, client = self.proxy()
        proxy.fault = lambda request: "slow"
        with mock.patch("time.time", return_value=0.0):
            sent = kvslots.clock()
            lease = client.pool(self.uuid).borrow(ttl=1).acquire()
            self.assertLessEqual(lease.deadline, kvslots.clock() - 0.5 + 1)
            self.assertGreaterEqual(lease.deadline, sent + 1)
            lease._keeper.stop(release=False)
            with self.pool.borrow(wait=PATIENCE):
                self.assertGreaterEqual(kvslots.clock(), lease.deadline)

    def test_a_waiters_deadline_counts_from_its_grant(self) -> None:
        with self.pool.borrow(ttl=1) as first:
            first._keeper.stop(release=False)
            with self.pool.borrow(ttl=1, wait=PATIENCE) as second:
                self.assertGreater(second.deadline, first.deadline + 0.9)


class Names(Test):
    def test_a_lock_excludes_other_clients(self) -> None:
        name, other = str(self.uuid), self.dial(gateway.url)
        with self.client.lock(name, ttl=2) as lease:
            self.assertIsNone(lease.position)
            for client in (other, self.client):
                with self.assertRaises(kvslots.NoSlotError):
                    client.lock(name, wait=0).acquire()
        with other.lock(name, wait=0) as again:
            self.assertGreater(again.fence, lease.fence)

    def test_a_semaphore(self) -> None:
        name = f"ü/{self.uuid}"
        with self.client.semaphore(name, 2), self.client.semaphore(name, 2):
            with self.assertRaises(kvslots.NoSlotError):
                self.client.semaphore(name, 2, wait=0).acquire()
            with self.assertRaises(kvslots.LimitMismatchError):
                self.client.semaphore(name, 3).acquire()
            with self.assertRaises(kvslots.LimitMismatchError):
                self.client.lock(name).acquire()

    def test_a_lock_keeps_its_session(self) -> None:
        short = Gateway("--http-session-idle-timeout", "1s")
        self.addCleanup(short.stop)
        with self.dial(short.url).lock(str(self.uuid), ttl=60) as lease:
            end = kvslots.clock() + 3
            eventually(lambda: kvslots.clock() > end)
            self.assertFalse(lease.lost.is_set())
            self.assertLess(lease.remaining, 1)

    def test_a_session_that_has_ended_meanwhile_is_replaced(self) -> None:
        with self.client.lock(str(self.uuid)):
            pass
        (session,) = self.client._sessions._unused
        self.client._run(_core.Sessions(self.client._gateways).end(session))
        with self.client.lock(str(self.uuid), wait=0):
            pass

    def test_a_wrong_name(self) -> None:
        with self.assertRaises(ValueError):
            self.client.lock("")
        with self.assertRaises(kvslots.BadRequestError):
            self.client.lock("a b").acquire()


class Processes(Test):
    def start(self, text: str) -> Callable[[], str]:
        process = program(f"import kvslots, os, sys\nclient = kvslots.Client({gateway.url!r})\n"
                          f"pool = client.pool({str(self.uuid)!r})\n{text}")  # fmt: skip
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
with pool.borrow(ttl=2) as lease, client.lock("parent") as lock:
    child = os.fork()
    if child:
        os.wait()
        assert not lease.lost.is_set() and not lock.lost.is_set()
    else:
        assert not lease.release() and not lock.release()
        with pool.borrow() as own, client.lock("child"):
            print(own.position, flush=True)
if child:
    sys.exit()
client.close()
print("in use", pool.inspect().in_use, flush=True)
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

    def test_ctrl_c_in_line_leaves_it(self) -> None:
        with self.pool.borrow():
            for text in ("pool.borrow().acquire()", "import asyncio\n"
                         f"pool = kvslots.AsyncClient({gateway.url!r}).pool({str(self.uuid)!r})\n"
                         "async def main():\n await asyncio.gather(*(pool.borrow().acquire() for _ in range(3)))\n"
                         "asyncio.run(main())"):  # fmt: skip
                self.start("sys.stderr = open(os.devnull, 'w')\n" + text)
                self.wait_for_waiters(3 if "async" in text else 1)
                self.process.send_signal(signal.SIGINT)
                self.assertNotEqual(self.process.wait(PATIENCE), 0)
                self.assertEqual(self.pool.inspect().waiting, 0, "a gateway keeps a place for 10 s")

    def test_ctrl_c_in_line_for_a_lock_leaves_it(self) -> None:
        with self.client.lock(str(self.uuid)) as lease:
            self.start(f"sys.stderr = open(os.devnull, 'w')\nprint('x', flush=True)\nclient.lock({str(self.uuid)!r}).acquire()")
            eventually(lambda: waiters(str(self.uuid)) == 1)
            self.process.send_signal(signal.SIGINT)
            self.assertNotEqual(self.process.wait(PATIENCE), 0)
            self.assertEqual(waiters(str(self.uuid)), 0)
            self.assertFalse(lease.lost.is_set())

    def test_ctrl_c_in_the_block_releases(self) -> None:
        line = self.start(
            "sys.stderr = open(os.devnull, 'w')\nwith pool.borrow():\n print('held', flush=True)\n sys.stdin.read()"
        )
        self.assertEqual(line(), "held")
        self.process.send_signal(signal.SIGINT)
        self.assertNotEqual(self.process.wait(PATIENCE), 0)
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_an_exit_releases(self) -> None:
        line = self.start("lease = pool.borrow().acquire()\nprint('held', flush=True)")
        self.assertEqual(line(), "held")
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.assertEqual(self.pool.inspect().in_use, 0)


def waiters(name: str) -> int:
    """Return the length of a lock's line, of which only the statistics know."""
    import json
    import urllib.request

    with urllib.request.urlopen(gateway.url + "/v1/stats") as answer:
        locks = json.load(answer)["locks"]
    return sum(int(lock["waiters"]) for lock in locks if lock["key"] == name)


@unittest.skipUnless("KVSLOTS_TEST_TLS" in os.environ, "KVSLOTS_TEST_TLS is not set: use go test")
class Access(unittest.TestCase):
    def test_tls_and_token(self) -> None:
        files = os.environ["KVSLOTS_TEST_TLS"]
        secure = Gateway(
            "--tls-cert", f"{files}/cert.pem", "--tls-key", f"{files}/key.pem", env={"KVSLOTS_AUTH_TOKEN": "hunter2"}
        )
        self.addCleanup(secure.stop)
        trust = ssl.create_default_context(cafile=f"{files}/cert.pem")
        with kvslots.Client(secure.url, token="hunter2", tls=trust) as client:
            pool = client.pool(uuid.uuid4())
            pool.register(1)
            for _ in range(2):
                with pool.borrow() as lease:
                    self.assertEqual(lease.position, 0)
        with self.assertRaises(kvslots.UnauthorizedError):
            kvslots.Client(secure.url, tls=trust).pool(uuid.uuid4()).register(1)
        for url, error in ((secure.url, "certificate verify failed"), (secure.url.replace("https", "http"), "400")):
            with self.assertRaises(kvslots.KvslotsError) as raised:
                kvslots.Client(url, token="hunter2").pool(uuid.uuid4()).register(1)
            self.assertIn(error, str(raised.exception))
            self.assertFalse(raised.exception.temporary)
        with self.assertRaises(kvslots.UnreachableError) as unreachable:
            kvslots.Client(gateway.url.replace("http", "https"), tls=trust).pool(uuid.uuid4()).register(1)
        self.assertTrue(unreachable.exception.permanent)


if __name__ == "__main__":
    unittest.main()
