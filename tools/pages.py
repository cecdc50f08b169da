"""Reads what the pages of docs/results print: figures of tables and of texts, and the rows that no part makes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = Any

NUMBER = re.compile(r"[−+-]?\d+(?:\.\d+)?")


def agrees(printed: str, value: float) -> bool:
    """Says whether value rounds to the printed figure, whose minus may be typographic."""
    text = printed.replace("−", "-").lstrip("+")
    return f"{value:.{len(text.partition('.')[2])}f}" == text


def cells(line: str) -> list[str]:
    """Returns the cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the header and the rows of each table of a page."""
    lines = [line.strip() for line in Path(page).read_text().splitlines()]
    for i, line in enumerate(lines):
        if line.startswith("|") and not (i and lines[i - 1].startswith("|")):
            yield line, list(itertools.takewhile(lambda row: row.startswith("|"), lines[i + 2 :]))


def table_of(page: str, part: Json) -> tuple[list[str], int | None]:
    """Returns the rows of the part's table, and the index of its column if the part names one."""
    found = [(header, rows) for header, rows in tables(page) if header.startswith(part["table"])]
    if len(found) != 1:
        raise SystemExit(f"{page} has {len(found)} tables that begin with {part['table']!r}, want 1")
    header, rows = found[0]
    if "column" not in part:
        return rows, None
    names = [cell.split(" (")[0].strip("*`") for cell in cells(header)]
    if part["column"] not in names:
        raise SystemExit(f"{page}: the table {part['table']!r} has no column {part['column']!r}")
    return rows, names.index(part["column"])


def printed_column(page: str, part: Json) -> dict[str, str]:
    """Returns the first number of each row in the part's column, by the row's policy."""
    rows, at = table_of(page, part)
    out = {}
    for row in map(cells, rows):
        number = NUMBER.search(row[at])
        if number:
            out[row[0].split(" (")[0].split(", ")[0].strip("*`")] = number.group()
    return out


def rows_of(part: Json) -> dict[str, list[str]]:
    """Returns the part's rows by their beginnings, those of each name that stands for NAME if it lists names."""
    names = part.get("names", [""])
    return {
        begin.replace("NAME", n): [f.replace("NAME", n) for f in fs]
        for n in names
        for begin, fs in part["rows"].items()
    }


def printed_rows(page: str, part: Json) -> list[tuple[str, str]]:
    """Returns the names of the figures of the part's rows, each with the number that the page has for it."""
    rows, at = table_of(page, part)
    out = []
    for begin, names in rows_of(part).items():
        found = [row for row in rows if row.startswith(begin)]
        if len(found) != 1:
            raise SystemExit(f"{page}: {part['table']!r} has {len(found)} rows that begin with {begin!r}, want 1")
        text = " | ".join(cells(found[0])[1:]) if at is None else cells(found[0])[at]
        numbers = NUMBER.findall(text)
        if len(numbers) < len(names):
            raise SystemExit(f"{page}: the row {begin!r} of {part['table']!r} has numbers {numbers} for {names}")
        out += [(name, number) for name, number in zip(names, numbers) if name]
    return out


def printed_texts(page: str, part: Json) -> list[tuple[str, str]]:
    """Returns the names of the figures of the part's texts, each with the number that the page has for it."""
    text = " ".join(Path(page).read_text().split())
    out = []
    for phrase, names in part["texts"].items():
        pattern = f"({NUMBER.pattern})".join(map(re.escape, phrase.split("#")))
        found = re.findall(pattern, text)
        if len(found) != 1:
            raise SystemExit(f"{page} has {len(found)} texts {phrase!r}, want 1")
        numbers = [found[0]] if isinstance(found[0], str) else found[0]
        if len(numbers) != len(names):
            raise SystemExit(f"{page}: the text {phrase!r} has numbers {numbers} for {names}")
        out += [(name, number) for name, number in zip(names, numbers) if name]
    return out


def printed_figures(page: str, part: Json) -> list[tuple[str, str]]:
    """Returns the names of the figures of a part's rows and texts, each with the number that the page has for it."""
    rows = printed_rows(page, part) if "rows" in part else []
    return rows + (printed_texts(page, part) if "texts" in part else [])


def makes(part: Json, header: str, row: str) -> bool:
    """Says whether a part makes a row of the table with this header."""
    if "table" in part and header.startswith(part["table"]):
        return "rows" not in part or any(map(row.startswith, rows_of(part)))
    if "expect" in part:
        return row.startswith(part["line"]) and any(text in row for text in part["expect"].values())
    return False


def unmade(page: str, parts: list[Json], elsewhere: dict[str, str]) -> list[str]:
    """Returns the rows of the page's tables that no part makes, and that elsewhere does not list, nor their table."""
    if any(page in part.get("writes", []) for part in parts):
        return []
    listed = tuple(elsewhere)
    return [
        row
        for header, rows in tables(page)
        for row in rows
        if not row.startswith(listed)
        and not header.startswith(listed)
        and not any(makes(part, header, row) for part in parts)
    ]


def undrawn(folder: Path, parts: list[Json], elsewhere: dict[str, str]) -> list[str]:
    """Returns the pictures of a folder that no part writes, and that do not begin as one of elsewhere."""
    written = {file for part in parts for file in part.get("writes", [])}
    return [
        str(png)
        for png in sorted(folder.glob("*.png"))
        if str(png) not in written and not str(png).startswith(tuple(elsewhere))
    ]


def unfounded(readme: Path, sources: list[Path]) -> list[str]:
    """Returns the rows of a README's tables of scores with a decimal number that the sources do not have."""
    founded = {number.lstrip("+−-") for source in sources for number in NUMBER.findall(source.read_text())}

    def known(number: str) -> bool:
        bare = number.lstrip("+−-")
        return "." not in bare or bare in founded or any(agrees(bare, float(f)) for f in founded)

    scores = ("| environment |", "| policy |", "| method |", "| agent |")
    found = [(header, rows) for header, rows in tables(str(readme)) if header.replace("| |", "|").startswith(scores)]
    return [row for _, rows in found for row in rows if not all(map(known, NUMBER.findall(row)))]
