"""Changes of inputs: of bytes, of words, of numbers, and of values in JSON."""

from __future__ import annotations

import json
import random
import re
from typing import Any

NUMBERS = """0 -0 1 -1 2 3 7 64 1000 65536 2147483648 4294967296 9223372036854775807
18446744073709551616 nan inf -inf 1e308 1e400 -1e308 1e-308 5e-324 0.1 0x10 1_000 1e3 --1 1/2 2%
1,2 1,1 3x4 2x2x2 0x0 -1x4
99999999999x99999999999 yes no auto true null [] {} '' . é ٣ \u2028""".split()
VALUES: list[Any] = [None, True, False, 0, -1, 1, 0.5, 1e308, 1 << 62, 10**30, "", "x", [], {}]
VALUES += ["<script>", [[]], [None], {"a": 1}, -5, 1e-320, "\ud800", "a\nb", ["x"] * 3, "é" * 300]
NUMBER = re.compile(rb"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


def of_bytes(data: bytes, dice: random.Random) -> bytes:
    """A few bytes replaced, removed, repeated or moved."""
    bad = bytearray(data or b"0")
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16))):
        place, length = dice.randrange(len(bad) + 1), dice.choice((0, 1, 1, 2, 4, 8, 64))
        part = bytes(bad[place : place + length])
        word = dice.choice(
            (dice.randbytes(length), b"", part * 2, b"\0" * length, b"\xff" * length)
        )
        bad[place : place + length] = word
    return bytes(bad)


def of_numbers(data: bytes, dice: random.Random) -> bytes:
    """A number in a text replaced by another one, or by what is no number."""
    found = list(NUMBER.finditer(data))
    if not found:
        return of_bytes(data, dice)
    place = dice.choice(found)
    return data[: place.start()] + dice.choice(NUMBERS).encode() + data[place.end() :]


def of_words(data: bytes, dice: random.Random, known: list[str]) -> bytes:
    """A word of a command line replaced, removed or added."""
    words = data.decode(errors="replace").split() or ["run"]
    place, word = dice.randrange(len(words) + 1), dice.choice((*known, *NUMBERS))
    keep = dice.choice((0, 0, 1))
    words[place : place + 1 - keep] = [] if dice.random() < 0.15 else [word]
    if word.startswith("--") and dice.random() < 0.8:
        words.insert(place + 1, dice.choice(NUMBERS))
    return " ".join(words).encode()


def of_lines(data: bytes, dice: random.Random) -> bytes:
    """A line removed, repeated or moved."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    place = dice.randrange(len(lines))
    line = lines.pop(place) if dice.random() < 0.7 else lines[place]
    if dice.random() < 0.6:
        lines.insert(dice.randrange(len(lines) + 1), line)
    return b"".join(lines)


def of_json(value: Any, dice: random.Random) -> Any:
    """A value of a JSON value, replaced, removed, repeated or a number changed; in place."""
    holder, key = None, None
    inner = value
    while isinstance(inner, dict | list) and inner and (holder is None or dice.random() < 0.85):
        holder = inner
        key = dice.choice(list(inner)) if isinstance(inner, dict) else dice.randrange(len(inner))
        inner = inner[key]
    if holder is None:
        return dice.choice(VALUES)
    number = isinstance(inner, int | float) and not isinstance(inner, bool)
    if dice.random() < 0.15:
        del holder[key]
    elif number and dice.random() < 0.5:
        holder[key] = dice.choice((-inner, inner + 1, inner * 2, inner * 1.0001, inner / 2))
    elif dice.random() < 0.1 and isinstance(holder, list):
        holder.append(inner)
    else:
        holder[key] = dice.choice(VALUES)
    return value


def of_json_lines(data: bytes, dice: random.Random) -> bytes:
    """A value in one line of JSON changed; of bytes if the line is no JSON any more."""
    lines = data.splitlines() or [b"{}"]
    place = dice.randrange(len(lines))
    try:
        lines[place] = json.dumps(of_json(json.loads(lines[place]), dice)).encode()
    except (ValueError, RecursionError):
        return of_bytes(data, dice)
    return b"\n".join(lines) + b"\n"
