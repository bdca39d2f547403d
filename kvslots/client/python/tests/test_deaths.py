"""Gateways that die."""

from __future__ import annotations

import threading
import unittest

import kvslots
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, Gateway, eventually


class Deaths(GatewayTest):
    def pair(self) -> tuple[Gateway, Gateway, kvslots.Client]:
        first, second = Gateway(), Gateway()
        self.addCleanup(first.stop)
        self.addCleanup(second.stop)
        return first, second, self.dial(first.url, second.url)

    def test_a_lease_survives_its_gateway_and_the_next(self) -> None:
        first, second, client = self.pair()
        with client.pool(self.uuid).borrow(ttl=5) as slot, client.lock(str(self.uuid), ttl=5) as lock:
            first.kill()
            self.renewed(slot, lock)
            first.start()
            second.kill()
            self.renewed(slot, lock)
        self.assertEqual(self.pool.inspect().in_use, 0)

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
        first, second, client = self.pair()
        granted = threading.Event()

        def borrow() -> None:
            with client.pool(self.uuid).borrow(wait=PATIENCE):
                granted.set()

        with self.pool.borrow():
            thread = threading.Thread(target=borrow)
            thread.start()
            eventually(lambda: self.pool.inspect().waiting == 1)
            first.kill()
            eventually(lambda: client._gateways._first == 1)
        thread.join()
        self.assertTrue(granted.is_set())
        self.assertEqual(self.pool.inspect().in_use, 0)

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
