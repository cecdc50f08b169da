"""Rewrites the table of steps per second in README.md from docs/wire.md, the only source of these figures.

    make bench-wire                                # then copy .cache/wire.md's table into docs/wire.md
    python clients/python/tools/update_speed.py

test_figures.py fails until README.md has the figures of docs/wire.md.
"""

from __future__ import annotations

import re
from pathlib import Path

CLIENT = Path(__file__).resolve().parent.parent
README, SOURCE = CLIENT / "README.md", CLIENT.parent.parent / "docs" / "wire.md"
BEGIN, END = "<!-- from docs/wire.md by tools/update_speed.py -->\n", "<!-- end -->"
COLUMNS = {
    "`make` or `make_vec`": ("ours, make, unix", "ours, make_vec, unix"),
    "Gymnasium's NumPy environment": ("Gymnasium, make", "Gymnasium, CartPoleVectorEnv"),
    "Gymnasium's SyncVectorEnv": ("Gymnasium, make", "Gymnasium, SyncVectorEnv"),
    "EnvPool": ("EnvPool", "EnvPool"),
}  # of one environment, of several
SIZES = (1, 64, 256)


def figures(text: str) -> dict[tuple[str, int], str]:
    """Returns the steps per second of CartPole in a page's table, by environment and number."""
    rows = re.findall(r"^\| CartPole \| (.+?) \| (\d+) \| ([\d,]+) \|", text, re.MULTILINE)
    return {(name, int(n)): steps for name, n, steps in rows}


def table(text: str) -> str:
    """Returns README's table with the figures of the page text."""
    found = figures(text)
    lines = ["| environments | " + " | ".join(COLUMNS) + " |", "|--:|" + "--:|" * len(COLUMNS)]
    for n in SIZES:
        cells = [found[names[n > 1], n] for names in COLUMNS.values()]
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def updated(readme: str, source: str) -> str:
    """Returns readme with the table that source gives."""
    before, _, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"README.md has no part between {BEGIN.strip()} and {END}")
    return before + BEGIN + table(source) + END + after


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8"), SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
