"""The client's requests, errors and constants against the document that gateways serve."""

from __future__ import annotations

import json
import math
import re
import unittest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import kvslots
from kvslots import _claims, _errors, _gateways, _http, _pools
from kvslots._claims import NameClaim, SlotClaim
from kvslots._gateways import Gateways
from kvslots._http import Request
from kvslots._reads import Lent
from kvslots._sessions import Session, Sessions

DOCUMENT = json.loads(Path(__file__).parents[4].joinpath("gateway", "openapi.json").read_text())
OWN = {"unreachable", "lease_lost", "two_stores"}  # codes of errors that no gateway sends
NAME = "/v1/pools/42185bac3da8d38c46ed2509e10c07b8"
POOL = {"Kvslots-Pool": "6c8d6a0e-5b2f-4a39-9c41-2f6f6a1d7b02"}


def resolve(node: Any) -> Any:
    """Return what a reference stands for."""
    while "$ref" in node:
        target: Any = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def requests() -> list[Request]:
    """Return one request of each kind that the client sends."""
    gateways = Gateways(["http://127.0.0.1:1"])
    sessions = Sessions(gateways)
    slot = SlotClaim(gateways, POOL, 30, 10, "who")
    slot._lease = POOL["Kvslots-Pool"]
    names = [NameClaim(gateways, sessions, "name", limit, 30, 10, "who") for limit in (None, 8)]
    all = [slot._taking(1, True), slot._renewing(), slot._releasing()]
    for name in names:
        name._session, name._token = Session("0" * 32, 60, 60), "0" * 32
        all += [name._taking(1, True), name._renewing(), name._releasing()]
    sessions.put(Session("0" * 32, 60, 60))
    lent = [Lent(gateways, "/v1/pools/self", POOL), *(Lent(gateways, name.lent) for name in names)]
    for flow in (
        *(claim._held(math.inf) for claim in (slot, *names)),
        *(flow for one in lent for flow in (one.holders(), one.line(), one.evict(0, 1))),
        _pools.register(gateways, POOL, 1, "name"),
        _pools.inspect(gateways, POOL),
        _pools.delete(gateways, POOL),
        Sessions(gateways).take(30, math.inf),
        sessions.close(),
    ):
        effect = next(flow)
        assert isinstance(effect, _gateways.Send)
        all.append(effect.request)
    return all


def operation(request: Request) -> dict[str, Any]:
    """Return the document's description of a request."""
    for path, methods in DOCUMENT["paths"].items():
        asked = request.path.partition("?")[0]
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), asked) and request.method.lower() in methods:
            parameters = methods.get("parameters", []) + methods[request.method.lower()].get("parameters", [])
            return {**methods[request.method.lower()], "parameters": [resolve(p) for p in parameters]}
    raise AssertionError(f"the document has no {request.method} {request.path}")


def schemas(content: Any) -> list[dict[str, Any]]:
    """Return the schemas that a body may have."""
    schema = resolve(content["content"]["application/json"]["schema"])
    return [resolve(one) for one in schema.get("oneOf", schema.get("anyOf", [schema]))]


class Contract(unittest.TestCase):
    def test_each_code_has_a_class_and_no_other(self) -> None:
        codes = set(DOCUMENT["components"]["headers"]["ErrorName"]["schema"]["enum"])
        self.assertEqual(codes, set(_errors._by_code) - OWN)
        for error in _errors._by_code.values():
            self.assertIs(getattr(kvslots, error.__name__), error)

    def test_requests(self) -> None:
        self.assertEqual(len(requests()), 26)
        for request in requests():
            with self.subTest(request.method + " " + request.path):
                described = operation(request)
                headers = {p["name"]: p for p in described["parameters"] if p["in"] == "header"}
                self.assertLessEqual(set(request.headers), set(headers))
                for name, value in request.headers.items():
                    self.assertRegex(value, resolve(headers[name]["schema"]).get("pattern", ""))
                required = {name for name, p in headers.items() if p.get("required")}
                self.assertLessEqual(required, set(request.headers))
                query = {p["name"]: p for p in described["parameters"] if p["in"] == "query"}
                asked = dict(parse_qsl(urlsplit(request.path).query, strict_parsing="?" in request.path))
                self.assertLessEqual(set(asked), set(query))
                self.assertLessEqual({name for name, p in query.items() if p.get("required")}, set(asked))
                self.assertLessEqual(int(asked.get("limit", 1)), query.get("limit", {"schema": {"maximum": 1}})["schema"]["maximum"])
                if request.body is None:
                    self.assertFalse(described.get("requestBody", {}).get("required", False))
                    continue
                (schema,) = schemas(resolve(described["requestBody"]))
                self.assertLessEqual(set(request.body), set(schema["properties"]))
                self.assertLessEqual(set(schema.get("required", [])), set(request.body))

    def test_answers_have_the_fields_that_are_read(self) -> None:
        read = {
            "/l/self": ("count", "in_use", "available", "waiting"),
            "/l/self/borrow": ("lease", "position", "fence", "expires_in"),
            "/l/self/renew": ("expires_in",),
            **{f"{lent}/leases": ("leases",) for lent in ("/v1/pools/self", NAME)},
            **{f"{lent}/line": ("line",) for lent in ("/v1/pools/self", NAME)},
            "/v1/sessions": ("session_id", "idle_timeout_s"),
            "/v1/locks/name": ("status", "token", "lease_ttl_s"),
            "/v1/locks/name/renew": ("remaining_s",),
            "/v1/semaphores/name": ("status", "token", "lease_ttl_s"),
            "/v1/semaphores/name/renew": ("remaining_s",),
        }
        for request in requests():
            path = request.path.partition("?")[0]
            if request.method == "DELETE" or path not in read:
                continue
            answers = schemas(resolve(operation(request)["responses"]["200"]))
            self.assertTrue(any(set(read[path]) <= set(a["properties"]) for a in answers), path)

    def test_leases_and_places_have_the_fields_that_are_read(self) -> None:
        for name, fields in {
            "Holder": {"position", "label", "fence", "age_s", "expires_in_s"},
            "Waiter": {"place", "label", "waited_s"},
        }.items():
            schema = DOCUMENT["components"]["schemas"][name]
            self.assertEqual((set(schema["required"]), set(schema["properties"])), (fields, fields | {"owner_conn_id"}))
        self.assertIn("next_from", DOCUMENT["components"]["schemas"]["PoolDetail"]["properties"])
        self.assertIn("next_after", DOCUMENT["components"]["schemas"]["PoolDetail"]["properties"])
        self.assertEqual(set(DOCUMENT["components"]["schemas"]["Evicted"]["required"]), {"evicted"})

    def test_requests_with_a_wait_are_answered_with_how_long_it_was(self) -> None:
        for request in requests():
            if request.body and ("ttl" in request.body or "acquire_timeout_s" in request.body):
                self.assertIn("Kvslots-Waited", resolve(operation(request)["responses"]["200"])["headers"], request.path)

    def test_headers(self) -> None:
        for status, names in ((400, {"Kvslots-Field", "Kvslots-Range"}), (409, {"Kvslots-Error"}), (429, {"Retry-After"})):
            refusal = resolve(operation(requests()[0])["responses"][str(status)])
            self.assertLessEqual(names, set(refusal["headers"]))

    def test_constants(self) -> None:
        """A proxy ends a request after a minute, and a gateway keeps a place for 10 s, and idle connections for 2 min."""
        self.assertLess(_claims.LONGEST_ASK, 60)
        self.assertLess(_gateways.LONGEST_PAUSE, 10)
        self.assertLessEqual(64 << 10, _http.MAX_ANSWER)


if __name__ == "__main__":
    unittest.main()
