"""How leases last, end and are lost."""

from __future__ import annotations

import contextlib
import threading
import unittest
from collections.abc import Callable
from concurrent.futures import Future
from unittest import mock

import kvslots
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, eventually, renewed_early


class Leases(GatewayTest):
    def test_release_is_idempotent(self) -> None:
        lease = self.pool.borrow().acquire()
        self.assertTrue(lease.release())
        self.assertTrue(lease.release(), "the first call counts")
        self.assertFalse(lease.lost.is_set())
        self.assertEqual(self.pool.inspect().in_use, 0)

    @renewed_early
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

    @renewed_early
    def test_lost_with_its_pool(self) -> None:
        lease = self.pool.borrow(ttl=30).acquire()
        self.pool.delete()
        self.lost(lease, kvslots.NoPoolError)

    @renewed_early
    def test_lost_since_it_was_returned_elsewhere(self) -> None:
        lease = self.pool.borrow(ttl=30).acquire()
        claim = lease._keeper.claim
        self.client._run(claim.release())
        self.lost(lease, kvslots.NotHeldError)

    @renewed_early
    def test_lost_with_its_session(self) -> None:
        lease = self.client.lock(str(self.uuid), ttl=30).acquire()
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
        with mock.patch("kvslots._keeper.clock", return_value=lease.deadline - 0.5):
            self.assertTrue(lease.lost.is_set())
        self.assertTrue(lease.lost.is_set(), "a lost lease stays lost")
        lease.release()

    @renewed_early
    def test_a_loss_is_raised_at_the_end_of_the_block(self) -> None:
        with self.assertRaises(kvslots.LeaseLostError) as raised:
            with self.pool.borrow(ttl=30) as lease:
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
        with self.assertLogs("kvslots"), client.pool(self.uuid).borrow(ttl=4):
            proxy.fault = lambda request: "drop"
        with self.pool.borrow(wait=PATIENCE):
            pass

    def test_a_dropped_lease_ends_and_that_is_told(self) -> None:
        lease = self.pool.borrow(ttl=1).acquire()
        lost = lease.lost
        with self.assertWarns(ResourceWarning):
            del lease
        self.assertTrue(lost.wait(PATIENCE))
        self.assertIsInstance(lost.cause, kvslots.UnreachableError)
        self.pool.borrow(wait=PATIENCE).acquire().release()

    def test_a_wait_for_the_loss_ends_with_the_release(self) -> None:
        lease, told = self.pool.borrow().acquire(), Future[bool]()
        thread = threading.Thread(target=lambda: told.set_result(lease.lost.wait()))
        thread.start()
        lease.release()
        self.assertFalse(told.result(PATIENCE))
        thread.join()

    def test_one_thread_renews_all_leases(self) -> None:
        self.pool.register(300)
        threads = threading.active_count()
        with renewed_early, contextlib.ExitStack() as held:
            leases = [held.enter_context(self.pool.borrow(ttl=60)) for _ in range(300)]
            deadlines = [lease.deadline for lease in leases]
            self.assertLessEqual(threading.active_count(), threads + 1)
            eventually(lambda: all(lease.deadline > before for lease, before in zip(leases, deadlines)))
            self.assertEqual([lease for lease in leases if lease.lost.is_set()], [])

    def test_a_lease_is_released_with_its_client(self) -> None:
        client = self.dial(self.gateway.url)
        slot, lock = client.pool(self.uuid).borrow().acquire(), client.lock(str(self.uuid)).acquire()
        client.close()
        self.assertFalse(slot.held or lock.held or slot.lost.is_set() or lock.lost.is_set())
        self.assertEqual(self.pool.inspect().in_use, 0)
        pool, lock_ = client.pool(self.uuid), client.lock("a")
        calls: list[Callable[[], object]] = [pool.inspect, lock_.acquire, client.events, client.__enter__]
        for call in calls:
            with self.assertRaises(RuntimeError):
                call()

    def test_extend(self) -> None:
        lease = self.pool.borrow(ttl=30).acquire()
        lease.extend(600)
        self.assertGreater(lease.remaining, 590)
        self.pool.delete()
        with self.assertRaises(kvslots.LeaseLostError):
            lease.extend()
        self.assertTrue(lease.lost.is_set())
        self.assertFalse(lease.release())

    def test_no_deadline_is_later_than_the_gateways(self) -> None:
        """Whatever the wall clock says, and however slow the network is."""
        proxy, client = self.through_proxy()
        proxy.fault = lambda request: "slow"
        with mock.patch("time.time", return_value=0.0):
            sent = kvslots.clock()
            lease = client.pool(self.uuid).borrow(ttl=1).acquire()
            self.assertLessEqual(lease.deadline, kvslots.clock() - 0.5 + 1)
            self.assertGreaterEqual(lease.deadline, sent + 1)
            lease._keeper.drop()
            with self.pool.borrow(wait=PATIENCE):
                self.assertGreaterEqual(kvslots.clock(), lease.deadline)

    def test_a_waiters_deadline_counts_from_its_grant(self) -> None:
        first = self.pool.borrow(ttl=1).acquire()
        first._keeper.drop()
        with self.pool.borrow(ttl=30, wait=PATIENCE) as second:
            self.assertGreater(second.deadline, first.deadline + 1)


if __name__ == "__main__":
    unittest.main()
