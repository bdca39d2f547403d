"""The examples of the manual: each line that prints ends in a comment with what it prints."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, program

PACKAGE = Path(__file__).parent.parent
ROOT = PACKAGE.parents[2]
REPOSITORY = "https://github.com/kvslots/kvslots/blob/main/"


class Links(unittest.TestCase):
    def test_they_hold_wherever_the_text_is_shown(self) -> None:
        for name in ("README.md", "CHANGELOG.md", "pyproject.toml"):
            text = (PACKAGE / name).read_text()
            for link in re.findall(r"\]\(([^)#]+)", text) + re.findall(rf"{REPOSITORY}[\w./-]+", text):
                self.assertTrue(link.startswith(REPOSITORY) and (ROOT / link.removeprefix(REPOSITORY)).exists(), link)


class Examples(GatewayTest):
    def test_each_prints_what_it_says(self) -> None:
        examples = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(examples), 2)
        for example in examples:
            wanted = re.findall(r"^ *print\(.*\)  # (.*)$", example, re.MULTILINE)
            process = program(example.replace("http://127.0.0.1:8080", self.gateway.url))
            printed, _ = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, printed.splitlines()), (0, wanted))
            self.assertTrue(wanted)


if __name__ == "__main__":
    unittest.main()
