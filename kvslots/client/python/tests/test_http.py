"""Answers as they arrive, and errors."""

from __future__ import annotations

import time
import unittest

import kvslots
from kvslots._http import Address, Parser, Request, Response
from kvslots._sockets import run

HEAD = b"HTTP/1.1 200 OK\r\nKvslots-Waited: 12\r\nContent-Length: 7\r\n\r\n"


class Parsing(unittest.TestCase):
    def parse(self, answer: bytes, size: int = 1) -> Response:
        """Return an answer that arrives in parts of the given size, and after which the connection ends."""
        parser = Parser()
        for i in range(0, len(answer), size):
            if response := parser.feed(answer[i : i + size]):
                return response
        response = parser.feed(b"")
        assert response is not None
        return response

    def test_answers_in_parts(self) -> None:
        chunks = b'Transfer-Encoding: chunked\r\n\r\n3;a=b\r\n{"a\r\n4\r\n":1}\r\n0\r\n'
        for answer, reusable in (
            (HEAD + b'{"a":1}', True),
            (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b'{"a":1}', True),
            (HEAD.replace(b"1.1", b"1.0") + b'{"a":1}', False),
            (HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b'{"a":1}', False),
            (b"HTTP/1.1 200 OK\r\n" + chunks + b"\r\n", True),
            (b"HTTP/1.1 200 OK\r\n" + chunks + b"Trailer: 1\r\n\r\n", True),
            (b'HTTP/1.1 200\r\n\r\n{"a":1}', False),
        ):
            for size in (1, 2, 3, 1000):
                with self.subTest(answer=answer, size=size):
                    response = self.parse(answer, size)
                    self.assertEqual((response.json(), response.reusable), ({"a": 1}, reusable))

    def test_an_answer_that_ends_early(self) -> None:
        for answer in (b"", HEAD[:20], HEAD, HEAD + b"{", b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"):
            with self.subTest(answer), self.assertRaises(ConnectionError):
                self.parse(answer)

    def test_what_is_not_http(self) -> None:
        chunked = b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n"
        for answer in (
            b"SSH-2.0-OpenSSH\r\n",
            b"\x15\x03\x01\x00\x02\x02\x50",
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n{}",
            chunked + b"zz\r\n",
            b"HTTP/1.1 200\r\n\r\n" + b"x" * (17 << 20),
        ):
            with self.subTest(answer[:40]), self.assertRaises(kvslots.UnreachableError) as raised:
                self.parse(answer, 1 << 16)
            self.assertTrue(raised.exception.permanent)

    def test_small_chunks_take_no_longer_than_large_ones(self) -> None:
        """A megabyte in chunks of 4 bytes took 52 s; this takes a second, also on a busy machine."""
        answer = b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n" + b"4\r\n    \r\n" * (1 << 18) + b"2\r\n{}\r\n0\r\n\r\n"
        before = time.process_time()
        self.assertEqual(self.parse(answer, 1 << 10).json(), {})
        self.assertLess(time.process_time() - before, 10)

    def test_no_content(self) -> None:
        self.assertEqual(self.parse(b"HTTP/1.1 204 No Content\r\n\r\n").json(), {})

    def test_json_of_others(self) -> None:
        for body in (b"<html>", b"[]", b"null", b"\xff", b"[" * 100_000):
            with self.subTest(body), self.assertRaises(kvslots.UnreachableError):
                Response(200, {}, body, True).json()


class Refusals(unittest.TestCase):
    def error(self, status: int, body: bytes = b"", **headers: str) -> kvslots.KvslotsError:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        error = Response(status, names, body, True).error()
        assert error is not None
        return error

    def test_of_a_gateway(self) -> None:
        error = self.error(400, b'{"error": "ttl must be 1"}', kvslots_error="bad_request", kvslots_field="ttl")
        self.assertIsInstance(error, kvslots.BadRequestError)
        self.assertEqual((str(error), error.status, error.field), ("ttl must be 1", 400, "ttl"))

    def test_details_say_more_than_codes(self) -> None:
        error = self.error(410, b'{"error": "session_gone", "detail": "no such session"}', kvslots_error="session_gone")
        self.assertEqual(str(error), "no such session")

    def test_of_a_proxy(self) -> None:
        for status, kind, temporary in (
            (502, kvslots.UnavailableError, True),
            (504, kvslots.UnavailableError, True),
            (429, kvslots.RateLimitedError, True),
            (302, kvslots.KvslotsError, False),
            (413, kvslots.KvslotsError, False),
        ):
            error = self.error(status, b"<html>")
            self.assertEqual((type(error), error.temporary, str(error)), (kind, temporary, f"HTTP status {status}"))

    def test_retry_after(self) -> None:
        self.assertEqual(self.error(429, retry_after="7").retry_after, 7)
        self.assertEqual(self.error(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT").retry_after, 0)
        for nonsense in ("", "-1", "soon", "1e3", "9" * 30):
            self.assertIsNone(self.error(429, retry_after=nonsense).retry_after)


class Requests(unittest.TestCase):
    def test_encoding(self) -> None:
        gateway = Address.parse("https://[::1]:8443/proxied/")
        raw = gateway.encode(Request("POST", "/v1/sessions", {"a": 1}, {"Kvslots-Pool": "p"}), "hunter2")
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.assertEqual((lines[0], body), ("POST /proxied/v1/sessions HTTP/1.1", b'{"a": 1}'))
        wanted = {"Host: [::1]:8443", "Content-Length: 8", "Authorization: Bearer hunter2", "Kvslots-Pool: p"}
        self.assertLessEqual(wanted, set(lines))

    def test_ports(self) -> None:
        self.assertEqual([Address.parse(url).port for url in ("http://a", "https://a", "http://a:1")], [80, 443, 1])


class Secrets(unittest.TestCase):
    def test_no_text_holds_one(self) -> None:
        pool = "6c8d6a0e-5b2f-4a39-9c41-2f6f6a1d7b02"
        client = kvslots.Client("http://127.0.0.1:1", token="hunter2")
        request = Request("PUT", "/l/self", {}, {"Kvslots-Pool": pool})
        for thing in (client, client.pool(pool), client.pool(pool).borrow(), client.lock("a"), request):
            self.assertNotRegex(repr(thing), "hunter2|6c8d6a0e")
        with self.assertRaises(kvslots.UnreachableError) as raised:
            run(client._gateways.ask(request), client._sockets.send)
        self.assertRegex(str(raised.exception), "^http://127.0.0.1:1: ")
        self.assertNotRegex(repr(raised.exception), "hunter2|6c8d6a0e")
        with self.assertRaises(ValueError) as refused:
            client.pool(pool + "x")
        self.assertNotRegex(str(refused.exception), "6c8d6a0e")
        with self.assertRaises(ValueError) as refused:
            kvslots.Client("http://a", token="hunter2\r\n")
        self.assertNotRegex(str(refused.exception), "hunter2")


if __name__ == "__main__":
    unittest.main()
