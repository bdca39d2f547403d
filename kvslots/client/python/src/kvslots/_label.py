"""What a program says about itself, to those who look at who holds what."""

from __future__ import annotations

import getpass
import os
import socket
import sys

LONGEST = 64  # characters


def default_label() -> str:
    """Return user@host:pid and the program's name, without its arguments, which may be secret."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "?"
    directory, name = os.path.split(sys.argv[0] if sys.argv else "")
    if name == "__main__.py":  # python -m
        name = os.path.basename(directory)
    text = f"{user}@{socket.gethostname()}:{os.getpid()} {name or 'python'}"
    return "".join(c if c.isprintable() else "?" for c in text)[:LONGEST].strip()
