"""What a key of the configuration may hold: the same rules for the file, the options and imported tables."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

LONGEST_SHOWN = 40
MOST_SHOWN = 20
BARE = re.compile(r"[A-Za-z0-9_-]+")
FLAG_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class BadValueError(ValueError):
    """A key that is not known, or a value that its rule refuses; `key` is empty for the whole table."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what is expected in words, the test of a TOML value, and the reading of a table's cell."""

    expected: str
    accept: Callable[[object], object]
    """The value in its final type; raises TypeError or ValueError, whose text (if any) becomes the error."""
    read: Callable[[str], object]
    """A cell's text as the value it stands for, or the text itself where it stands for none."""
    secret: bool = False
    """The value may hold a password, so that an error never shows it."""

    def check(self, key: str, value: object) -> Any:
        """Give the value in its final type, or raise BadValueError: what was found, what was expected."""
        try:
            return self.accept(value)
        except (TypeError, ValueError) as error:
            found = "" if self.secret else f"found {shown(value)}, "
            raise BadValueError(key, str(error) or f"{found}expected {self.expected}") from None


ANYTHING = Rule("anything", lambda value: value, str)


def checked(table: Mapping[str, object], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """Check a whole table; raises BadValueError at the first key that is unknown or holds what it may not."""
    for key in table:
        if key not in rules:
            raise BadValueError(key, unknown("key", key, rules))
    return {key: rules[key].check(key, value) for key, value in table.items()}


def unknown(kind: str, word: str, known: Mapping[str, object]) -> str:
    """Say that a word is none of the known ones, and which of them is nearest."""
    from difflib import get_close_matches

    if nearest := get_close_matches(word, known, n=1):
        return f"unknown {kind} {shown(word)}; did you mean {bare(nearest[0])}?"
    words = [bare(word) for word in islice(known, MOST_SHOWN)]
    more = ", …" if len(known) > len(words) else ""
    return f"unknown {kind} {shown(word)}; known: {', '.join(words) or 'none'}{more}"


def bare(word: str) -> str:
    """Write a key or a name for an error message: in quotes where TOML wants them."""
    return word if BARE.fullmatch(word) else shown(word)


def shown(value: object) -> str:
    """Write a value for an error message, as TOML would and not at any length."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…"
            return '"' + "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text) + '"'
        case Mapping():
            return "a table"
        case list() | tuple():
            return "an array"
        case _:
            return str(value)


def number(least: float, most: float) -> Rule:
    """Allow a finite number in a range, whole or not."""

    def accept(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError
        return float(value)

    return Rule(f"a number from {least:g} to {most:g}", accept, lambda text: _parsed(float, text))


def whole(least: int, most: int) -> Rule:
    """Allow a whole number in a range."""

    def accept(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return value

    return Rule(f"a whole number from {least} to {most}", accept, lambda text: _parsed(int, text))


def flag() -> Rule:
    """Allow true and false; yes, no, 1 and 0 as well in a table's cell."""

    def accept(value: object) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    return Rule("true or false", accept, lambda text: FLAG_WORDS.get(text.lower(), text))


def choice(*words: str) -> Rule:
    """Allow one of a few words."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return value

    return Rule(" or ".join(shown(word) for word in words), accept, str)


def text(what: str, longest: int) -> Rule:
    """Allow text of 1 to `longest` characters, without control characters."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= longest or has_control_character(value):
            raise ValueError
        return value

    return Rule(f"{what}: 1 to {longest} characters, no control characters", accept, str)


def words(what: str, longest: int, most_bytes: int) -> Rule:
    """Allow an array of texts, bounded as sent; a table's cell parts them by semicolons."""
    each = text(what, longest)

    def accept(value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise TypeError
        accepted = tuple(each.accept(word) for word in value)
        if sum(len(quote(str(word))) + 1 for word in accepted) > most_bytes:
            raise ValueError
        return accepted

    def read(cell: str) -> list[str]:
        return [word.strip() for word in cell.split(";") if word.strip()]

    return Rule(
        f"an array of {what}, each of 1 to {longest} characters, {most_bytes} bytes as sent",
        accept,
        read,
    )


def polygons(most: int, most_points: int) -> Rule:
    """Allow an array of polygons, each an array of [x, y] from 0 to 1; in a table's cell as typed.

    Typed, the points of a polygon are parted by blanks, its polygons by semicolons: 0,0 0.5,0 0.5,1; …
    """

    def fraction(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError
        return float(value)

    def point(value: object) -> tuple[float, float]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError
        return fraction(value[0]), fraction(value[1])

    def polygon(value: object) -> tuple[tuple[float, float], ...]:
        if not isinstance(value, list | tuple) or not 3 <= len(value) <= most_points:
            raise ValueError
        return tuple(map(point, value))

    def accept(value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise ValueError
        return tuple(map(polygon, value))

    def read(cell: str) -> object:
        try:
            return [
                [[float(number) for number in typed.split(",")] for typed in part.split()]
                for part in cell.split(";")
                if part.strip()
            ]
        except ValueError:
            return cell

    return Rule(
        f"at most {most} polygons, each of 3 to {most_points} points x,y from 0 to 1"
        ' (in the file [[[0, 0], [0.5, 0], [0.5, 1]]], typed "0,0 0.5,0 0.5,1")',
        accept,
        read,
    )


def has_control_character(value: str) -> bool:
    """Tell whether text holds what would break a line, a header or a terminal, or is no text at all."""
    return any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in value)


def _parsed(kind: Callable[[str], object], cell: str) -> object:
    try:
        return kind(cell)
    except ValueError:
        return cell
