"""How leases last, end and are lost."""

from __future__ import annotations

import unittest
from unittest import mock

import kvslots
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, eventually


class Leases(GatewayTest):
    def test_release_is_idempotent(self) -> None:
        lease = self.pool.borrow().acquire()
        self.assertTrue(lease.release())
        self.assertTrue(lease.release(), "the first call counts")
        self.assertFalse(lease.lost.is_set())
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_a_lease_is_renewed(self) -> None:
        with self.pool.borrow(ttl=4) as lease:
            first, fence = lease.deadline, lease.fence
            eventually(lambda: kvslots.clock() > first)
            self.assertGreater(lease.deadline, first)
            self.assertEqual((lease.lost.is_set(), lease.lost.cause, lease.fence), (False, None, fence))
            self.assertFalse(lease.lost.wait(0))

    def lost(self, lease: kvslots.Lease, cause: type[kvslots.KvslotsError]) -> None:
        self.assertTrue(lease.lost.wait(PATIENCE))
        self.assertIsInstance(lease.lost.cause, cause)
        self.assertFalse(lease.release())

    def test_lost_with_its_pool(self) -> None:
        lease = self.pool.borrow(ttl=3).acquire()
        self.pool.delete()
        self.lost(lease, kvslots.NoPoolError)

    def test_lost_since_it_was_returned_elsewhere(self) -> None:
        lease = self.pool.borrow(ttl=3).acquire()
        claim = lease._keeper.claim
        self.client._run(claim.release())
        self.lost(lease, kvslots.NotHeldError)

    def test_lost_with_its_session(self) -> None:
        lease = self.client.lock(str(self.uuid), ttl=3).acquire()
        self.client._run(lease._keeper.claim.leave())
        self.lost(lease, kvslots.SessionGoneError)

    def test_lost_since_no_gateway_renews_it(self) -> None:
        proxy, client = self.through_proxy()
        lease = client.pool(self.uuid).borrow(ttl=1).acquire()
        proxy.fault = lambda request: "drop" if request.path.endswith("renew") else ""
        self.assertTrue(lease.lost.wait(PATIENCE))
        self.assertIsInstance(lease.lost.cause, kvslots.UnreachableError)
        lease.release()

    def test_the_clock_alone_shows_a_loss(self) -> None:
        lease = self.pool.borrow(ttl=30).acquire()
        with mock.patch("kvslots._lease.clock", return_value=lease.deadline - 0.5):
            self.assertTrue(lease.lost.is_set())
        self.assertTrue(lease.lost.is_set(), "a lost lease stays lost")
        lease.release()

    def test_a_loss_is_raised_at_the_end_of_the_block(self) -> None:
        with self.assertRaises(kvslots.LeaseLostError) as raised:
            with self.pool.borrow(ttl=3) as lease:
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
        proxy, client = self.through_proxy()
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
        proxy, client = self.through_proxy()
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
            with self.pool.borrow(ttl=30, wait=PATIENCE) as second:
                self.assertGreater(second.deadline, first.deadline + 1)


if __name__ == "__main__":
    unittest.main()
