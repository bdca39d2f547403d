"""Answers that get lost, and gateways that die."""

from __future__ import annotations

import asyncio
import threading
import unittest
import uuid

import kvslots
from tests.gateways import PATIENCE, Gateway, Proxy, eventually

gateway: Gateway
other: Gateway


def setUpModule() -> None:
    global gateway, other
    gateway, other = Gateway(), Gateway()


def tearDownModule() -> None:
    gateway.stop()
    other.stop()


class Test(unittest.TestCase):
    def setUp(self) -> None:
        self.proxy = Proxy(gateway.url)
        self.addCleanup(self.proxy.stop)
        self.client = self.dial(self.proxy.url)
        self.direct = self.dial(other.url)
        self.uuid = uuid.uuid4()
        self.state = self.direct.pool(self.uuid).inspect
        self.direct.pool(self.uuid).register(5)

    def dial(self, *urls: str) -> kvslots.Client:
        client = kvslots.Client(*urls)
        self.addCleanup(client.close)
        return client


class LostAnswers(Test):
    """Whatever gets lost, a call is repeated, and takes one slot."""

    faults = ("lose", "drop", "refuse")

    def test_borrow(self) -> None:
        for how in self.faults:
            for times in (1, 3):
                with self.subTest(how=how, times=times):
                    self.proxy.lose_first("POST /l/self/borrow", times, how)
                    with self.client.pool(self.uuid).borrow(wait=PATIENCE) as lease:
                        self.assertEqual((lease.position, self.state().in_use), (0, 1))
                    self.assertEqual(self.state().in_use, 0)

    def test_borrow_with_asyncio(self) -> None:
        async def hold() -> None:
            async with kvslots.AsyncClient(self.proxy.url) as client:
                for how in self.faults:
                    self.proxy.lose_first("POST /l/self/borrow", 2, how)
                    async with client.pool(self.uuid).borrow(wait=PATIENCE):
                        self.assertEqual(self.state().in_use, 1)
                    self.assertEqual(self.state().in_use, 0)

        asyncio.run(hold())

    def test_renew_and_return(self) -> None:
        for path in ("POST /l/self/renew", "POST /l/self/return"):
            for how in self.faults:
                with self.subTest(path=path, how=how):
                    self.proxy.lose_first(path, 1, how)
                    renewals = self.proxy.count("POST /l/self/renew")
                    with self.client.pool(self.uuid).borrow(ttl=2) as lease:
                        eventually(lambda: self.proxy.count("POST /l/self/renew") > renewals + 1)
                        self.assertIsNone(lease.lost.cause)
                    self.assertEqual(self.state().in_use, 0)

    def test_register_and_the_rest(self) -> None:
        pool = self.client.pool(uuid.uuid4())
        for how in self.faults:
            with self.subTest(how=how):
                self.proxy.lose_first("PUT", 2, how)
                self.assertEqual(pool.register(3).count, 3)
                self.proxy.lose_first("GET", 2, how)
                self.assertEqual(pool.inspect().count, 3)
                self.proxy.lose_first("DELETE", 2, how)
                pool.delete()
        keys = [r.headers["Idempotency-Key"] for r in self.proxy.received if r.method == "PUT"]
        self.assertEqual((len(keys), len(set(keys))), (9, 3))

    def test_locks(self) -> None:
        for path in ("POST /v1/sessions", "POST /v1/locks", "POST /v1/locks/a/release", "DELETE /v1/sessions"):
            for how in self.faults:
                with self.subTest(path=path, how=how), self.dial(self.proxy.url) as client:
                    name = "a" if "release" in path else str(uuid.uuid4())
                    self.proxy.lose_first(path, 1, how)
                    with client.lock(name, wait=PATIENCE):
                        with self.assertRaises(kvslots.NoSlotError):
                            self.direct.lock(name, wait=0).acquire()
                    with self.direct.lock(name, wait=0):
                        pass

    def test_a_grant_is_found_when_the_wait_is_over(self) -> None:
        """Its answer is lost again and again, but not that to the last request, which does not wait."""
        self.proxy.fault = lambda request: "lose" if '"wait": 1' in request.body else ""
        pool = self.client.pool(self.uuid)
        with pool.borrow(wait=1) as lease:
            self.assertEqual((lease.position, self.state().in_use), (0, 1))
        self.assertEqual(self.state().in_use, 0)


class Deaths(Test):
    def pair(self) -> tuple[Gateway, Gateway, kvslots.Client]:
        first, second = Gateway(), Gateway()
        self.addCleanup(first.stop)
        self.addCleanup(second.stop)
        return first, second, self.dial(first.url, second.url)

    def test_a_lease_survives_its_gateway_and_the_next(self) -> None:
        first, second, client = self.pair()
        with client.pool(self.uuid).borrow(ttl=3) as slot, client.lock(str(self.uuid), ttl=3) as lock:
            first.kill()
            self.renewed(slot, lock)
            first.start()
            second.kill()
            self.renewed(slot, lock)
        self.assertEqual(self.state().in_use, 0)

    def renewed(self, *leases: kvslots.Lease) -> None:
        before = [lease.deadline for lease in leases]
        eventually(lambda: all(lease.deadline > d or lease.lost.is_set() for lease, d in zip(leases, before)))
        self.assertEqual([lease.lost.cause for lease in leases], [None] * len(leases))

    def test_a_lease_is_lost_with_all_gateways(self) -> None:
        first, second, client = self.pair()
        lease = client.pool(self.uuid).borrow(ttl=2).acquire()
        first.kill()
        second.kill()
        self.assertTrue(lease.lost.wait(PATIENCE))
        self.assertIsInstance(lease.lost.cause, kvslots.UnreachableError)
        with self.assertLogs("kvslots"):
            self.assertFalse(lease.release())

    def test_a_silent_gateway_does_not_cost_a_lease(self) -> None:
        first, _, client = self.pair()
        with client.pool(self.uuid).borrow(ttl=6) as lease:
            first.pause()
            self.renewed(lease)
            first.resume()

    def test_a_wait_survives_its_gateway(self) -> None:
        pool = self.direct.pool(self.uuid)
        pool.register(1)
        first, second, client = self.pair()
        granted = threading.Event()

        def borrow() -> None:
            with client.pool(self.uuid).borrow(wait=PATIENCE):
                granted.set()

        with pool.borrow():
            thread = threading.Thread(target=borrow)
            thread.start()
            eventually(lambda: pool.inspect().waiting == 1)
            first.kill()
            eventually(lambda: client._gateways._first == 1)
        thread.join()
        self.assertTrue(granted.is_set())
        self.assertEqual(pool.inspect().in_use, 0)

    def test_a_call_survives_a_restart(self) -> None:
        first, _, _ = self.pair()
        client = self.dial(first.url)
        with client.lock(str(self.uuid)):
            pass
        first.kill()
        thread = threading.Thread(target=first.start)
        thread.start()
        with client.lock(str(self.uuid), wait=PATIENCE):
            pass
        thread.join()


if __name__ == "__main__":
    unittest.main()
