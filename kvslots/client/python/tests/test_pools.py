"""Pools, locks and semaphores of a gateway."""

from __future__ import annotations

import gc
import os
import ssl
import threading
import time
import unittest
import uuid

import kvslots
from kvslots._sessions import Sessions
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, Gateway, Proxy, eventually, renewed_early


class Pools(GatewayTest):
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

    def test_a_forgotten_client_closes_its_connections(self) -> None:
        client = kvslots.Client(self.gateway.url)
        client.pool(self.uuid).inspect()
        (connection,) = client._sockets._idle.values()
        sock = connection[0][0]
        del client
        gc.collect()
        self.assertEqual(sock.fileno(), -1)

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

    @renewed_early
    def test_the_id_of_a_pool_is_in_no_path(self) -> None:
        proxy, client = self.through_proxy()
        with client.pool(self.uuid).borrow() as lease:
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
            time.sleep(0.4)  # a place whose client is about to ask again is passed over
        for thread in threads:
            thread.join()
        self.assertEqual(order, [0, 1])
        self.assertEqual(len({r.headers["Idempotency-Key"] for r in proxy.received if r.path.endswith("borrow")}), 1)


class Names(GatewayTest):
    def test_a_lock_excludes_other_clients(self) -> None:
        name, other = str(self.uuid), self.dial(self.gateway.url)
        with self.client.lock(name) as lease:
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

    @renewed_early
    def test_a_lock_keeps_its_session(self) -> None:
        short = Gateway("--max-session-idle", "4s")
        self.addCleanup(short.stop)
        with self.assertLogs("kvslots") as logs, self.dial(short.url).lock(str(self.uuid), ttl=60) as lease:
            self.assertIn("4 seconds instead of 60", logs.output[0])
            first = lease.deadline
            self.assertLessEqual(lease.remaining, 4)
            eventually(lambda: kvslots.clock() > first)
            self.assertFalse(lease.lost.is_set())

    def test_a_lock_lives_as_long_as_its_ttl_without_its_gateway(self) -> None:
        short = Gateway("--http-session-idle-timeout", "1s")
        self.addCleanup(short.stop)
        client, name = self.dial(short.url), str(self.uuid)
        lease = client.lock(name, ttl=600).acquire()
        self.assertGreater(lease.remaining, 590)
        client.lock(name + "2").acquire().release()
        with client.lock(name + "3", ttl=600) as other:  # the session of a shorter lock is not used for it
            self.assertGreater(other.remaining, 590)
        short.kill()
        ended = kvslots.clock() + 4
        eventually(lambda: kvslots.clock() > ended)
        self.assertFalse(lease.lost.is_set())
        with self.assertRaises(kvslots.NoSlotError):
            self.client.lock(name, wait=0).acquire()
        short.start()
        self.assertTrue(lease.release())

    def test_a_session_that_has_ended_meanwhile_is_replaced(self) -> None:
        with self.client.lock(str(self.uuid)):
            pass
        (session,) = self.client._sessions._unused
        self.client._run(Sessions(self.client._gateways).end(session))
        with self.client.lock(str(self.uuid), wait=0):
            pass

    def test_a_wrong_name(self) -> None:
        with self.assertRaises(ValueError):
            self.client.lock("")
        with self.assertRaises(kvslots.BadRequestError):
            self.client.lock("a b").acquire()


@unittest.skipUnless("KVSLOTS_TEST_TLS" in os.environ, "KVSLOTS_TEST_TLS is not set: use go test")
class Access(GatewayTest):
    def test_tls_and_token(self) -> None:
        files = os.environ["KVSLOTS_TEST_TLS"]
        certificate = ["--tls-cert", f"{files}/cert.pem", "--tls-key", f"{files}/key.pem"]
        secure = Gateway(*certificate, "--auth-token", "hunter2")
        self.addCleanup(secure.stop)
        trust = ssl.create_default_context(cafile=f"{files}/cert.pem")
        with kvslots.Client(secure.url, token="hunter2", tls=trust) as client:
            pool = client.pool(uuid.uuid4())
            pool.register(1)
            for _ in range(2):
                with pool.borrow() as lease:
                    self.assertEqual(lease.position, 0)

        def refused(url: str, token: str, tls: ssl.SSLContext | None) -> kvslots.KvslotsError:
            with kvslots.Client(url, token=token, tls=tls) as client:
                with self.assertRaises(kvslots.KvslotsError) as raised:
                    client.pool(uuid.uuid4()).register(1)
                self.assertFalse(raised.exception.temporary)
                return raised.exception

        self.assertIsInstance(refused(secure.url, "hunter3", trust), kvslots.UnauthorizedError)
        self.assertIn("certificate verify failed", str(refused(secure.url, "hunter2", None)))
        self.assertEqual(refused(secure.url.replace("https", "http"), "hunter2", None).status, 400)
        plain = self.gateway.url.replace("http", "https")
        self.assertIsInstance(refused(plain, "hunter2", trust), kvslots.UnreachableError)


if __name__ == "__main__":
    unittest.main()
