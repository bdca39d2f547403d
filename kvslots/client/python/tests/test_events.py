"""What happens, as it happens."""

from __future__ import annotations

import threading
import unittest
import uuid

import kvslots
from tests.fixture import GatewayTest


class Streams(GatewayTest):
    def test_a_pool(self) -> None:
        self.pool.register(1, name="screens")
        with self.pool.events() as events:
            self.assertEqual(next(events).type, "starts_over")
            with self.pool.borrow(label="me <b> ü") as lease:
                granted = next(events)
            returned = next(events)
        self.assertEqual((granted.type, granted.position, granted.fence), ("granted", 0, lease.fence))
        self.assertEqual((granted.label, granted.name, granted.kind), ("me <b> ü", "screens", "pool"))
        self.assertEqual((returned.type, returned.fence), ("returned", lease.fence))
        assert returned.held is not None and granted.waited is not None
        with self.pool.events(types=["returned"], after=granted.id) as again:  # without granted, which came before
            self.assertEqual(next(again), returned)

    def test_a_name(self) -> None:
        name = f"ü/{self.uuid}"
        with self.client.events(keys=[name], types=["granted"]) as events:
            next(events)
            with self.client.lock(name):
                event = next(events)
        self.assertEqual((event.kind, event.key, event.type), ("lock", name, "granted"))

    def test_close_ends_the_iteration(self) -> None:
        self.pool.register(1)
        events, seen = self.pool.events(), threading.Event()

        def body() -> None:
            for _ in events:
                seen.set()

        thread = threading.Thread(target=body)
        thread.start()
        seen.wait()
        events.close()
        thread.join()

    def test_refusals(self) -> None:
        with self.assertRaises(kvslots.NoPoolError):
            next(self.client.pool(uuid.uuid4()).events())
        with self.assertRaises(kvslots.KvslotsError):
            next(self.client.events(types=["none such"]))


if __name__ == "__main__":
    unittest.main()
