"""The rules without I/O, on a clock that the test sets."""

from __future__ import annotations

import json
import math
import random
import unittest
from collections.abc import Callable
from typing import Any

import kvslots
from kvslots import _claims, _gateways
from kvslots._claims import Claim, NameClaim, SlotClaim
from kvslots._gateways import Flow, Gateways, Send, T
from kvslots._http import Request, Response
from kvslots._sessions import Session, Sessions

A, B = "http://a:1", "http://b:1"
LEASE: dict[str, Any] = {"lease": "l", "position": 3, "fence": 7, "expires_in": 30, "expires_at_unix": 0}


class World:
    """A clock, and gateways whose answers a test gives."""

    def __init__(self, *urls: str) -> None:
        self.time = 1000.0
        self.sent: list[tuple[float, Send]] = []
        self.slept: list[float] = []
        self.gateways = Gateways(urls or (A,), lambda: self.time)
        self.answers: list[Callable[[Send], Response]] = []
        self.last: Callable[[Send], Response] | None = None  # what comes after them

    def run(self, flow: Flow[T]) -> T:
        answer: Response | None = None
        error: kvslots.UnreachableError | None = None
        while True:
            try:
                effect = flow.send(answer) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            answer = error = None
            if isinstance(effect, Send):
                self.sent.append((self.time, effect))
                try:
                    reply = self.answers.pop(0) if self.answers or not self.last else self.last
                    answer = reply(effect)
                except kvslots.UnreachableError as unreachable:
                    error = unreachable
            else:
                assert effect.seconds >= 0
                self.slept.append(effect.seconds)
                self.time += effect.seconds

    def answer(self, status: int, body: object = None, after: float = 0.0, **headers: str) -> None:
        def reply(send: Send) -> Response:
            self.time += after
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            return Response(status, names, json.dumps(body or {}).encode(), True)

        self.answers.append(reply)

    def refuse(self, status: int, code: str, after: float = 0.0, **headers: str) -> None:
        self.answer(status, {"error": code}, after, kvslots_error=code, **headers)

    def lose(self, after: float = 0.0) -> None:
        def reply(send: Send) -> Response:
            self.time += min(after, send.timeout)
            raise kvslots.UnreachableError(f"{send.gateway}: lost")

        self.answers.append(reply)

    def lose_all(self, after: float = 0.0) -> None:
        self.lose(after)
        self.last = self.answers.pop()

    def claim(self, ttl: float = 30, wait: float | None = None) -> SlotClaim:
        return SlotClaim(self.gateways, {"Kvslots-Pool": "p"}, ttl, wait)

    def bodies(self, field: str) -> list[Any]:
        return [send.request.body[field] for _, send in self.sent if send.request.body]

    def keys(self) -> set[str]:
        return {send.request.headers["Idempotency-Key"] for _, send in self.sent}


class Taking(unittest.TestCase):
    def test_deadline_is_counted_from_the_sending_and_the_wait(self) -> None:
        world = World()
        world.answer(200, LEASE, 12, kvslots_waited="10000")
        claim = world.claim()
        world.run(claim.take())
        self.assertEqual((claim.deadline, claim.position, claim.fence), (1000 + 10 + 30, 3, 7))

    def test_a_gateway_cannot_have_waited_longer_than_the_request_took(self) -> None:
        world = World()
        world.answer(200, LEASE, 2, kvslots_waited="999999")
        claim = world.claim()
        world.run(claim.take())
        self.assertEqual(claim.deadline, 1000 + 2 + 30)

    def test_a_silent_gateway_before_does_not_shorten_the_lease(self) -> None:
        world = World(A, B)
        world.lose(math.inf)
        world.answer(200, LEASE)
        claim = world.claim(wait=30)
        world.run(claim.take())
        self.assertEqual(claim.deadline, 1000 + (30 + _claims.GRACE) / 2 + 30)

    def test_repetitions_have_one_key_and_other_pauses(self) -> None:
        world = World()
        world.lose()
        world.refuse(502, "unavailable")
        world.refuse(503, "draining", retry_after="1")
        world.answer(503)  # of a proxy
        world.answer(200, LEASE)
        world.run(world.claim(wait=60).take())
        self.assertEqual(len(world.keys()), 1)
        self.assertEqual(len(world.sent), 5)
        self.assertEqual(world.slept[2], 1)
        for pause, longest in zip(world.slept, (0.05, 0.1, 1, 0.4)):
            self.assertTrue(longest / 2 <= pause <= longest, world.slept)

    def test_another_claim_has_another_key(self) -> None:
        world = World()
        for _ in range(2):
            world.answer(200, LEASE)
            world.run(world.claim().take())
        self.assertEqual(len(world.keys()), 2)

    def test_final_refusals_are_raised_at_once(self) -> None:
        for status, code, error in (
            (404, "no_pool", kvslots.NoPoolError),
            (422, "key_reused", kvslots.KeyReusedError),
            (503, "max_waiters", kvslots.MaxWaitersError),
            (401, "unauthorized", kvslots.UnauthorizedError),
            (500, "internal_error", kvslots.InternalError),
            (507, "store_full", kvslots.StoreFullError),
            (418, "new_code", kvslots.KvslotsError),
        ):
            with self.subTest(code):
                world = World()
                world.refuse(status, code)
                with self.assertRaises(error) as raised:
                    world.run(world.claim(wait=60).take())
                self.assertEqual(raised.exception.status, status)

    def test_a_wait_is_asked_for_in_parts_and_ends_with_a_request_that_leaves_the_line(self) -> None:
        world = World()
        for part in (30, 30, 5):
            world.refuse(409, "no_slot", part, kvslots_wait=str(part))
        world.refuse(409, "no_slot")
        with self.assertRaises(kvslots.NoSlotError):
            world.run(world.claim(wait=65).take())
        self.assertEqual((world.bodies("wait"), len(world.keys()), world.slept), ([30, 30, 5, 0], 1, []))

    def test_a_gateway_that_does_not_wait_is_not_flooded(self) -> None:
        world = World()
        for _ in range(1000):
            world.refuse(409, "no_slot")
        with self.assertRaises(kvslots.NoSlotError):
            world.run(world.claim(wait=60).take())
        self.assertLess(len(world.sent), 70)
        self.assertLessEqual(world.time, 1061)

    def test_no_wait_is_one_request(self) -> None:
        world = World()
        world.refuse(409, "no_slot")
        with self.assertRaises(kvslots.NoSlotError):
            world.run(world.claim(wait=0).take())
        self.assertEqual(world.bodies("wait"), [0])

    def test_a_lost_answer_is_repeated_for_a_moment_without_a_wait_and_for_a_minute_with_any(self) -> None:
        for wait, least, most in ((0, 2.3, 2.5), (20, 20, 20.1), (None, 59.8, 60.1), (3600, 59.8, 60.1)):
            with self.subTest(wait=wait):
                world = World()
                world.lose_all()
                with self.assertRaises(kvslots.UnreachableError):
                    world.run(world.claim(wait=wait).take())
                self.assertTrue(least <= world.time - 1000 <= most, world.time)
                self.assertEqual(len(world.keys()), 1)

    def test_a_last_repetition_without_time_does_not_hide_why_no_gateway_answers(self) -> None:
        world = World()
        for wait in (0, 0.5):
            begun = world.time

            def lose(send: Send) -> Response:
                raise kvslots.UnreachableError("refused" if world.time < begun + wait + 2 else "no answer in time")

            world.last = lose
            with self.assertRaisesRegex(kvslots.UnreachableError, "refused"):
                world.run(world.claim(wait=wait).take())

    def test_a_silent_gateway_ends_no_call_late(self) -> None:
        for wait, most in ((0, 3), (1, 4), (20, 23), (None, 60), (3600, 60)):
            for urls in ((A,), (A, B), (A, B, "http://c:1")):
                with self.subTest(wait=wait, gateways=len(urls)):
                    world = World(*urls)
                    world.lose_all(math.inf)
                    for claim in (world.claim(wait=wait), NameClaim(world.gateways, Sessions(world.gateways), "a", None, 30, wait, "")):
                        start = world.time
                        with self.assertRaises(kvslots.UnreachableError):
                            world.run(claim.take())
                        self.assertLessEqual(world.time - start, most)

    def test_a_silent_gateway_ends_no_other_call_late(self) -> None:
        world = World(A, B)
        world.lose_all(math.inf)
        with self.assertRaises(kvslots.UnreachableError):
            world.run(world.gateways.repeat(Request("GET", "/")))
        self.assertLessEqual(world.time - 1000, _gateways.TIMEOUT)

    def test_a_refusal_says_the_place(self) -> None:
        world = World()
        world.refuse(409, "no_slot", kvslots_place="3")
        with self.assertRaises(kvslots.NoSlotError) as raised:
            world.run(world.claim(wait=0).take())
        self.assertEqual(raised.exception.place, 3)

    def test_a_lease_that_is_shorter_than_asked_for(self) -> None:
        world = World()
        world.answer(200, {**LEASE, "expires_in": 20})
        with self.assertLogs("kvslots") as logs:
            world.run(world.claim(ttl=600).take())
        self.assertIn("20 seconds instead of 600", logs.output[0])

    def test_an_answer_that_was_waited_for_in_vain_is_repeated_too(self) -> None:
        world = World(A, B)
        world.lose(math.inf)
        world.answer(200, LEASE)
        world.run(world.claim(wait=0).take())
        world.lose(math.inf)
        world.answer(200)
        world.run(world.gateways.repeat(Request("GET", "/")))
        self.assertEqual(world.answers, [])

    def test_a_longer_pause_than_is_left_is_not_waited_for(self) -> None:
        world = World()
        world.refuse(429, "rate_limited", retry_after="100")
        with self.assertRaises(kvslots.RateLimitedError) as raised:
            world.run(world.claim(wait=60).take())
        self.assertEqual((world.time, raised.exception.retry_after), (1000, 100))

    def test_what_is_not_a_gateways_answer(self) -> None:
        for body in ([1], {}, {**LEASE, "expires_in": "30"}, {**LEASE, "position": -1}, {**LEASE, "fence": True}, {**LEASE, "expires_in": 10**400}):
            with self.subTest(body=body):
                world = World()
                world.answer(200, body)
                with self.assertRaises(kvslots.UnreachableError) as raised:
                    world.run(world.claim().take())
                self.assertTrue(raised.exception.permanent)

    def test_arguments(self) -> None:
        world = World()
        for ttl, wait in ((0, 1), (-1, 1), (math.nan, 1), (math.inf, 1), (1, -1), (1, math.nan)):
            with self.subTest(ttl=ttl, wait=wait), self.assertRaises(ValueError):
                world.claim(ttl, wait)
        for url in ("", "a:1", "ftp://a", "http://", "http://u:hunter2@a", "http://a:99999", "http://a/?b", "http://a/ b", "http://\xfc"):
            with self.subTest(url), self.assertRaises(ValueError) as raised:
                Gateways([url])
            self.assertNotIn("hunter2", str(raised.exception))

    def test_leave_returns_what_the_interrupted_request_was_granted(self) -> None:
        world = World()
        world.lose(1)
        claim = world.claim()
        taking = claim.take()
        next(taking)
        taking.close()
        world.answers.clear()
        world.lose()
        world.answer(200, LEASE)
        world.answer(200, {"returned": True})
        world.run(claim.leave())
        self.assertEqual([send.request.path for _, send in world.sent], ["/l/self/borrow"] * 2 + ["/l/self/return"])
        self.assertEqual(world.sent[0][1].request.body, {"ttl": 30, "wait": 0, "uncounted": True})

    def test_leave_sends_nothing_if_nothing_was_sent(self) -> None:
        world = World()
        world.run(world.claim().leave())
        self.assertEqual(world.sent, [])


class Turns(unittest.TestCase):
    def gateways(self, world: World) -> str:
        return "".join(send.gateway.host for _, send in world.sent)

    def test_the_next_request_begins_with_the_gateway_that_has_answered(self) -> None:
        world = World(A, B)
        world.lose()
        world.answer(200, LEASE)
        world.answer(200, LEASE)
        world.run(world.claim().take())
        world.run(world.claim().take())
        self.assertEqual(self.gateways(world), "abb")

    def test_another_gateway_is_asked_after_an_overload_but_not_after_a_rate_limit(self) -> None:
        world = World(f"{A},{B}")
        world.refuse(503, "draining", retry_after="1")
        world.refuse(429, "rate_limited")
        world.answer(200, LEASE)
        world.run(world.claim(wait=60).take())
        self.assertEqual(self.gateways(world), "abb")

    def test_two_stores_are_refused_and_what_the_second_one_grants_is_given_back(self) -> None:
        for name in (False, True):
            world = World(A, B)
            claim: Claim = world.claim()
            if name:
                claim = NameClaim(world.gateways, Sessions(world.gateways), "a", None, 30, None)
            world.refuse(503, "draining", kvslots_store="1")
            world.answer(200, {"session_id": "s2", "idle_timeout_s": 60} if name else LEASE, kvslots_store="2")
            world.answer(204, kvslots_store="2")
            with self.subTest(name=name), self.assertRaises(kvslots.TwoStoresError) as raised:
                world.run(claim.take())
            self.assertFalse(raised.exception.temporary)
            self.assertEqual((self.gateways(world), world.answers), ("abb", []))
            back = world.sent[-1][1].request
            self.assertEqual((back.method, back.path), ("DELETE", "/v1/sessions/s2") if name else ("POST", "/l/self/return"))

    def test_a_store_that_is_new_at_its_address(self) -> None:
        world = World(A, B)
        for store in ("1", "2", ""):
            world.answer(200, kvslots_store=store)
            world.run(world.gateways.ask(Request("GET", "/")))

    def test_a_refusal_says_more_than_no_answer(self) -> None:
        world = World(A, B)
        world.lose()
        world.refuse(503, "draining", retry_after="2")
        with self.assertRaises(kvslots.DrainingError):
            world.run(world.gateways.ask(Request("GET", "/")))

    def test_what_is_no_gateway_is_passed_over(self) -> None:
        world = World(A, B)
        for body in ([1], LEASE):
            world.answer(200, body)
        world.run(world.claim().take())
        for _ in (A, B):
            world.answer(200, [1])
        with self.assertRaises(kvslots.UnreachableError) as raised:
            world.run(world.claim().take())
        self.assertTrue(raised.exception.permanent)

    def test_a_silent_gateway_does_not_take_the_others_time(self) -> None:
        world = World(A, B)
        world.lose(math.inf)
        world.answer(200, LEASE)
        world.run(world.claim(wait=20).take())
        self.assertEqual((world.sent[1][0], world.bodies("wait")), (1000 + (20 + _claims.GRACE) / 2, [10, 10]))
        world.lose(math.inf)
        world.answer(200)
        start = world.time
        world.run(world.gateways.ask(Request("GET", "/"), until=start + 4))
        self.assertEqual(world.sent[-1][0] - start, 2)


class Keeping(unittest.TestCase):
    def taken(self, world: World, ttl: float = 30) -> SlotClaim:
        claim = world.claim(ttl)
        world.answer(200, {**LEASE, "expires_in": int(ttl)})
        world.run(claim.take())
        return claim

    def test_it_is_renewed_at_a_third_and_lost_when_it_has_ended(self) -> None:
        world = World()
        claim = self.taken(world, 9)
        world.answer(200, {**LEASE, "expires_in": 9}, 1)
        world.refuse(404, "not_held")
        self.assertIsInstance(world.run(claim.keep()), kvslots.NotHeldError)
        self.assertEqual([round(at, 3) for at, _ in world.sent], [1000, 1003, 1006])
        self.assertEqual(claim.deadline, 1003 + 9)

    def test_an_end_is_known_within_5_seconds_without_a_write(self) -> None:
        """Whatever the ttl; what is not an answer that the lease is held is asked again by a renewal."""
        sessions = Sessions(World().gateways)
        sessions.put(Session("s", 600, 600))
        for limit in (0, None, 8):
            world = World()
            claim: Claim = world.claim(600)
            if limit != 0:
                sessions = Sessions(world.gateways)
                sessions.put(Session("s", 600, 600))
                claim = NameClaim(world.gateways, sessions, "a", limit, 600, None)
            grant = {"status": "ok", "token": f"{7:016x}{0:016x}", "lease_ttl_s": 600}
            world.answer(200, {**LEASE, "expires_in": 600} if limit == 0 else grant)
            world.run(claim.take())
            for _ in range(3):
                world.answer(200, {})
            world.lose()
            world.answer(200, {"expires_in": 600, "remaining_s": 600})
            world.refuse(404, "not_held")
            world.refuse(404, "not_held", kvslots_cause="evicted")
            with self.subTest(limit=limit):
                self.assertEqual(getattr(world.run(claim.keep()), "cause", None), "evicted")
                asked = [(at, send.request.method) for at, send in world.sent[1:]]
                self.assertEqual([method for _, method in asked], ["GET"] * 4 + ["POST", "GET", "POST"])
                self.assertTrue(all(at - before <= 4 for (before, _), (at, _) in zip(asked, asked[1:])), asked)
                self.assertTrue(world.sent[2][1].request.path.endswith("/leases/self"))

    def test_it_is_lost_before_it_ends_if_no_gateway_answers(self) -> None:
        for ttl, margin in ((1, 0.1), (5, 0.5), (30, 1), (3600, 1)):
            for delay in (0.0, 1.0, math.inf):
                with self.subTest(ttl=ttl, delay=delay):
                    world = World(A, B)
                    claim = self.taken(world, ttl)
                    world.lose_all(delay)
                    cause = world.run(claim.keep())
                    self.assertIsInstance(cause, kvslots.UnreachableError)
                    assert cause is not None
                    self.assertIsInstance(cause.__cause__, kvslots.UnreachableError)
                    self.assertAlmostEqual(world.time, 1000 + ttl - margin)
                    self.assertGreaterEqual(len(world.sent), 3, "each gateway is asked")

    def test_a_final_refusal_is_tried_again_while_the_lease_lives(self) -> None:
        world = World()
        claim = self.taken(world)
        world.refuse(401, "unauthorized")
        world.refuse(429, "rate_limited", retry_after="5")
        world.answer(200, LEASE)
        world.refuse(404, "no_pool")
        self.assertIsInstance(world.run(claim.keep()), kvslots.NoPoolError)
        self.assertEqual(len(world.sent), 5)

    def test_a_suspended_machine_has_lost_it(self) -> None:
        world = World()
        claim = self.taken(world)
        keeping = claim.keep()
        next(keeping)
        world.time += 3600
        with self.assertRaises(StopIteration) as done:
            next(keeping)
        self.assertIsInstance(done.exception.value, kvslots.UnreachableError)

    def test_release_is_bounded(self) -> None:
        for ttl, bound in ((30, 10), (5, 5), (1, 1)):
            for delay in (0.0, math.inf):
                world = World(A, B)
                claim = self.taken(world, ttl)
                world.lose_all(delay)
                with self.assertLogs("kvslots"):
                    self.assertFalse(world.run(claim.release()))
                self.assertLessEqual(world.time - 1000, bound + 1e-6)

    def test_release_of_what_has_ended(self) -> None:
        world = World()
        claim = self.taken(world)
        world.answer(200, {"returned": False})
        self.assertFalse(world.run(claim.release()))
        world.refuse(404, "no_pool")
        self.assertFalse(world.run(claim.release()))

    def test_release_whose_answer_was_lost(self) -> None:
        for urls in ((A,), (A, B)):
            world = World(*urls)
            claim = self.taken(world)
            world.lose()
            world.answer(200, {"returned": False})
            self.assertTrue(world.run(claim.release()))
            world.lose()
            world.refuse(404, "not_held")
            self.assertTrue(world.run(claim.release()))

    def test_the_deadline_is_never_later_than_the_gateways(self) -> None:
        seed = random.randrange(1 << 32)
        rand = random.Random(seed)
        for _ in range(300):
            world = World(A, B)
            claim, ends = world.claim(rand.randint(1, 60), rand.choice((0, 5, None))), [-math.inf]
            answers: list[str] = []

            def gateway(send: Send) -> Response:
                """Lend with random delays of the network, and lose some answers."""
                if send.request.method == "GET":
                    return Response(200, {}, b"{}", True)
                body = send.request.body or {}
                world.time += rand.expovariate(2)
                waited = rand.uniform(0, body.get("wait", 0))
                world.time += waited
                ends[0] = world.time + body["ttl"] - 1e-3  # Kvslots-Waited is in milliseconds
                world.time += rand.expovariate(2)
                answers.append(send.request.path)
                if rand.random() < 0.2:
                    raise kvslots.UnreachableError("lost")
                lease = {**LEASE, "expires_in": body["ttl"]}
                return Response(200, {"kvslots-waited": str(int(waited * 1000))}, json.dumps(lease).encode(), True)

            world.answers = [gateway] * 8
            try:
                world.run(claim.take())
                self.assertLessEqual(claim.deadline, ends[0] + 2e-3, f"seed {seed}")
                keeping = claim.keep()
                world.run(keeping)
            except IndexError:
                pass  # the script has ended
            except kvslots.UnreachableError:
                continue
            self.assertLessEqual(claim.deadline, ends[0] + 2e-3, f"seed {seed}")


class Names(unittest.TestCase):
    token = f"{7:016x}{0:016x}"

    def setUp(self) -> None:
        self.world = World()
        self.sessions = Sessions(self.world.gateways)

    def claim(self, ttl: float = 30, wait: float | None = None) -> NameClaim:
        return NameClaim(self.world.gateways, self.sessions, "a/b", None, ttl, wait)

    def grant(self, claim: Claim, idle: int = 60, ttl: int = 30) -> None:
        self.world.answer(200, {"session_id": "s1", "idle_timeout_s": idle})
        self.world.answer(200, {"status": "ok", "token": self.token, "lease_ttl_s": ttl})
        self.world.run(claim.take())

    def test_a_lock(self) -> None:
        claim = self.claim()
        self.grant(claim)
        self.assertEqual(claim.fence, 7)
        self.assertEqual(self.world.sent[1][1].request.path, "/v1/locks/a%2Fb")

    def test_a_session_that_is_not_one(self) -> None:
        for session in ("", "a\r\nb", 7.5):
            self.world.answer(200, {"session_id": session, "idle_timeout_s": 20})
            with self.subTest(session), self.assertRaises(kvslots.UnreachableError):
                self.world.run(self.claim().take())

    def test_a_lock_lasts_no_longer_than_its_session_is_sure_to(self) -> None:
        claim = self.claim(300)
        self.grant(claim, 20, 300)
        self.assertEqual(claim.deadline, 1000 + 20)
        self.world.answer(200, {"remaining_s": 300})
        self.world.refuse(410, "session_gone")
        self.assertIsInstance(self.world.run(claim.keep()), kvslots.SessionGoneError)
        self.assertTrue(all(at - before < 7 for (before, _), (at, _) in zip(self.world.sent, self.world.sent[1:])))

    def test_a_session_is_used_again_by_one_lock_after_the_other(self) -> None:
        first, second = self.claim(), self.claim()
        self.grant(first)
        self.grant(second)
        self.world.answer(204)
        self.world.run(first.release())
        self.world.answer(200, {"status": "ok", "token": self.token, "lease_ttl_s": 30})
        self.world.run(self.claim().take())
        self.assertEqual(self.world.answers, [])

    def test_a_session_that_was_idle_is_not_used_again(self) -> None:
        self.sessions.put(Session("old", 20, 60))
        self.world.time += 21
        self.grant(self.claim())

    def test_a_take_survives_the_end_of_its_session(self) -> None:
        self.sessions.put(Session("old", 20, 60))
        self.world.refuse(410, "session_gone")
        self.grant(self.claim(wait=0))
        self.assertEqual(len({send.request.headers.get("Idempotency-Key") for _, send in self.world.sent}), 3)

    def test_leave_ends_the_session(self) -> None:
        claim = self.claim()
        self.grant(claim)
        self.world.answer(204)
        self.world.run(claim.leave())
        self.assertEqual(self.world.sent[-1][1].request.method, "DELETE")

    def test_a_timeout_keeps_the_session(self) -> None:
        self.world.answer(200, {"session_id": "s1", "idle_timeout_s": 20})
        self.world.answer(200, {"status": "timeout"})
        with self.assertRaises(kvslots.NoSlotError):
            self.world.run(self.claim(wait=0).take())
        self.world.answer(204)
        self.world.run(self.sessions.close())
        self.assertEqual(self.world.sent[-1][1].request.path, "/v1/sessions/s1")


if __name__ == "__main__":
    unittest.main()
