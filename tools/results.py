"""Makes the tables and pictures of the READMEs and of docs/results, and compares figures with what is printed.

    python tools/results.py                                  # is every figure in its place on its page?
    python tools/results.py --list                           # every part with its minutes, and which are made
    python tools/results.py --trainer bin/trainer --only gang

Each JSON file of tools/tables has the parts of one page. Trainings and comparisons give equal bits for equal
seeds, so a figure is in order if it rounds to what is printed. A part that is in order is noted in the journal
LOGS/journal.json, as is its duration, and is not made again unless the part or what is printed changes; finished
trainings of a part are found again, too. The command fails if a figure differs, or if its page no longer has it,
and if a row of a table of the page is of no part: the file's "elsewhere" lists the beginnings of rows, or of
headers for whole tables, that something else makes or checks, and what that is.

A part has a name, the minutes that it takes on two idle cores after the trainings of earlier parts, and one of five
forms:
    table, column    beginning of the header of a table of the page, and the column that has the figures of
    evaluate         this command of the trainer, in the rows of its policies

    table, rows      beginning of that header, and of rows, with what the row's numbers are in the document of
    evaluate         this command, such as "rows > greedy > mean"; "" for a number that it does not have (see measured)
    column           the only column with these numbers, if any
    names            what NAME stands for in rows, if any: there is a row for each of these
    texts            texts of the page with # for each number, and what these are, beside rows or in their place
    each             FIRST..LAST, if figures are means over commands with each of these numbers for EACH
    before           arguments of a command that makes LOGS/FILE for the command, if any
    train, seeds     as below, if the command plays models

    train, seeds     arguments of `trainer train` without seeds and log folder, and FIRST..LAST
    fit              in place of train: a command of the trainer with SEED, whose last argument is the model's file
    before           arguments of a command that makes LOGS/FILE for the training, if any
    evaluate         arguments of the command that plays the models; each gets them by --model or --policy
    search           with compare: a search that plays in place of each model, which it names MODEL
    expect           the printed text of each figure, by the figure's name
    line             the beginning of the page's line that prints the figures
    record           CSV file that the comparison writes, on which bold print rests
    sealed           CSV file of a comparison on the sealed block, its episodes and their first (0); played once

    csv, table, rows CSV file of a comparison in place of evaluate: the rows' numbers are POLICY > COLUMN, or
                     POLICY > COLUMN > N for the N-th number of a cell, from 0. These need no trainer

    run, writes      a command of the shell, and the files that it writes

A part with "for", a list of texts, stands for as many parts, with one of them in place of THIS in each.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pages

Json = Any

LABELS = ("list", "series", "forecaster", "policy", "method", "penalty", "workload", "baseline", "model")
KINDS: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "half": lambda numbers: statistics.mean(numbers) / 2,
}


def run(command: list[str]) -> Json:
    """Runs a command of the trainer with --json and returns its document."""
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def expand(arguments: str, data: str, logs: Path) -> list[str]:
    """Splits arguments; DATA becomes the folder of public data, LOGS that of the trainings."""
    return [a.replace("DATA", data).replace("LOGS", str(logs)) for a in arguments.split()]


def best_or_last(model: Path) -> Path:
    """Returns the model of the best evaluation beside the last one, where there were evaluations."""
    best = model.with_name("best_model.safetensors")
    return best if best.exists() else model


def seeds_of(text: str) -> range:
    """Returns the seeds FIRST..LAST."""
    first, last = map(int, text.split(".."))
    return range(first, last + 1)


def fitted(trainer: str, arguments: str, data: str, logs: Path) -> str:
    """Makes a model by a command of its own unless it is there, and returns its file."""
    command = expand(arguments, data, logs)
    if not Path(command[-1]).exists():
        run([trainer, *command])
    return command[-1]


def prepare(trainer: str, row: Json, data: str, logs: Path) -> None:
    """Makes the file that a part needs, unless it has none or it is there."""
    before = expand(row.get("before", ""), data, logs)
    if before and not Path(before[-1]).exists():
        run([trainer, *before])


def trained(trainer: str, row: Json, data: str, logs: Path) -> list[str]:
    """Trains a part unless it is trained already, and returns its model files."""
    if "fit" in row:
        return [fitted(trainer, row["fit"].replace("SEED", str(seed)), data, logs) for seed in seeds_of(row["seeds"])]
    arguments = expand(row["train"], data, logs)
    key = hashlib.sha256(json.dumps([arguments, row["seeds"]]).encode()).hexdigest()[:12]
    record = logs / f"{key}.json"
    if record.exists():
        return json.loads(record.read_text())
    document = run([trainer, "train", *arguments, "--seeds", row["seeds"], "--save-freq", "0", "-f", str(logs / key)])
    models = [str(best_or_last(Path(seed["model"]))) for seed in document["seeds"]]
    write_whole(record, models)
    return models


def with_models(command: list[str], models: list[str], search: str = "") -> list[str]:
    """Returns a command of the trainer that plays models, or a search over each of them."""
    if search:
        return [*command, *(a for m in models for a in ("--search", search.replace("MODEL", m)))]
    flag = "--policy" if command[:2] == ["lra", "learned"] else "--model"
    return [*command, *(a for m in models for a in (flag, m))]


def figures(command: list[str], document: Json, models: list[str]) -> dict[str, float]:
    """Returns the figures that a command's document has of the models, or of searches over them."""
    if command[0] == "compare":
        rows = [r for r in document["rows"] if r["kind"] in ("model", "search")]
        out = {"mean": statistics.mean(r["mean"] for r in rows)}
        if all("difference" in r for r in rows):
            out["difference"] = statistics.mean(r["difference"]["mean"] for r in rows)
        return out
    if command[:2] == ["lra", "learned"]:
        rows = [r for r in document if r["method"] in models]
        return {
            "mean": statistics.mean(r["throughput"] for r in rows),
            "gain": statistics.mean(r["gain"] for r in rows),
        }
    if command[:2] == ["vpa", "families"]:
        return {r["workload"]: r["models"]["cost"] for r in document}
    if command[:2] == ["reproduce", "fgd"]:
        return {r["list"]: r["mean"] for r in document if r["policy"] not in command}
    raise SystemExit(f"no figures are known of trainer {' '.join(command[:2])}")


def numbers_of(document: Json, *path: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yields each number of a document with the keys that lead to it.

    An element of a list has its LABELS for its index.
    """
    if isinstance(document, int | float):
        yield path, document
    elif isinstance(document, dict):
        for key, value in document.items():
            yield from numbers_of(value, *path, key)
    elif isinstance(document, list):
        for i, value in enumerate(document):
            named = value if isinstance(value, dict) else {}
            labels = [str(named[k]) for k in LABELS if isinstance(named.get(k), str | int | float)]
            yield from numbers_of(value, *path, " ".join(labels) or str(i))


def measured(name: str, documents: list[Json]) -> float:
    """Returns the figure NAME, min NAME, max NAME, half NAME or FIGURE - FIGURE of documents.

    A name has the keys of numbers_of, with " > " between them, and stands for the mean of the numbers that it
    matches; a key may be a pattern (*).
    """
    if " - " in name:
        first, second = name.split(" - ")
        return measured(first, documents) - measured(second, documents)
    kind, _, rest = name.partition(" ")
    over, keys = (KINDS[kind], rest.split(" > ")) if kind in KINDS else (statistics.mean, name.split(" > "))

    def matches(path: tuple[str, ...]) -> bool:
        return len(path) == len(keys) and all(map(fnmatch.fnmatchcase, path, keys))

    found = [number for document in documents for path, number in numbers_of(document) if matches(path)]
    if not found:
        paths = {" > ".join(path) for document in documents for path, _ in numbers_of(document)}
        raise SystemExit(f"no figure is named {name}, but {', '.join(sorted(paths)[:100])}")
    return over(found)


def csv_document(path: str) -> Json:
    """Returns the numbers of a table of compare, by policy and column.

    A column whose name occurred before, as an interval does, has the name of the column before it in brackets.
    """
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    columns = [f"{name} ({header[i - 1]})" if name in header[:i] else name for i, name in enumerate(header)]
    out = {}
    for policy, *row in rows:
        numbers = [[float(number.group()) for number in pages.NUMBER.finditer(cell)] for cell in row]
        found = [(name, cell[0] if len(cell) == 1 else cell) for name, cell in zip(columns[1:], numbers) if cell]
        out[policy.removesuffix(" (clairvoyant)")] = dict(found)
    return out


def differing_figures(page: str, part: Json, documents: list[Json]) -> list[str]:
    """Returns which of the numbers printed in the part's rows and texts are not those of the documents."""
    got = [(name, measured(name, documents), text) for name, text in pages.printed_figures(page, part)]
    return [f"{name} is {value:.6g}, printed {text}" for name, value, text in got if not pages.agrees(text, value)]


def play_sealed(trainer: str, command: list[str], sealed: Json) -> None:
    """Plays the sealed block by the command of a part, unless its table is there."""
    table = Path(sealed["table"])
    if table.exists():
        return
    partial = table.with_suffix(".tmp")
    options = ["--sealed", "docs/results/sealed.csv", "--episodes", str(sealed["episodes"]), "--csv", str(partial)]
    options += ["--sealed-first", str(sealed.get("first", 0))]
    run([trainer, *command, *options])
    partial.replace(table)


def policies(command: list[str], document: Json) -> dict[str, float]:
    """Returns the figure that a command's document has of each policy."""
    if command[0] == "compare":
        return {r["policy"]: r["mean"] for r in document["rows"]}
    if command[:2] == ["lra", "table"]:
        return {r["method"]: r["throughput"] for r in document}
    if command[:2] == ["reproduce", "fgd"]:
        return {r["policy"]: r["mean"] for r in document}
    raise SystemExit(f"no figures are known of trainer {' '.join(command[:2])}")


def unprinted(page: str, part: Json) -> list[str]:
    """Returns which figures of a part its page does not print, and which it prints bold without a record."""
    if "csv" in part:
        return differing_figures(page, part, [csv_document(part["csv"])])
    if "rows" in part or "texts" in part:
        return [] if pages.printed_figures(page, part) else [f"{page} has no figure of the part"]
    if "table" in part:
        return [] if pages.printed_column(page, part) else [f"{page}: the table {part['table']!r} has no figure"]
    if "run" in part:
        return [f"there is no {file}" for file in part["writes"] if "/" in file and not Path(file).exists()]
    lines = [line for line in Path(page).read_text().splitlines() if line.startswith(part["line"])]
    wrong = [
        f"{page} has no line {part['line']!r} with {printed}"
        for printed in part["expect"].values()
        if not any(printed in line for line in lines)
    ]
    bold = any(f"**{printed}**" in line for printed in part["expect"].values() for line in lines)
    if bold and ("record" not in part or "--baseline" in part["evaluate"]):
        wrong.append("bold without a record of a comparison with every baseline")
    return wrong


def differing_rows(trainer: str, page: str, part: Json, data: str, logs: Path) -> list[str]:
    """Makes the figures of rows and texts, and returns which are not those that are printed."""
    models = trained(trainer, part, data, logs) if "seeds" in part else []
    documents = []
    for number in seeds_of(part.get("each", "0..0")):
        command = with_models(expand(part["evaluate"].replace("EACH", str(number)), data, logs), models)
        documents.append(run([trainer, *command]))
    return differing_figures(page, part, documents)


def differing(trainer: str, page: str, part: Json, data: str, logs: Path) -> list[str]:
    """Makes a part, and returns which figures are not those that are printed."""
    if "csv" in part:
        return unprinted(page, part)
    if "run" in part:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", part["run"]], check=False)
        return [f"{part['run']} ended with {done.returncode}"] if done.returncode else unprinted(page, part)
    prepare(trainer, part, data, logs)
    if "rows" in part or "texts" in part:
        return differing_rows(trainer, page, part, data, logs)
    command = expand(part["evaluate"], data, logs)
    if "table" in part:
        got, printed = policies(command, run([trainer, *command])), pages.printed_column(page, part)
        of = {name: text for name, text in printed.items() if name in got}
        if len(of) < 2:
            return [f"the table {part['table']!r} has {len(of)} of the policies {', '.join(got)}"]
    else:
        models = trained(trainer, part, data, logs)
        command = with_models(command, models, part.get("search", ""))
        files = ["--csv", part["record"]] if "record" in part else []
        got = figures(command, run([trainer, *command, *files]), models)
        of = part["expect"]
        if "sealed" in part and all(pages.agrees(text, got[name]) for name, text in of.items()):
            play_sealed(trainer, command, part["sealed"])
    wrong = {name: text for name, text in of.items() if not pages.agrees(text, got[name])}
    return [f"{name} is {got[name]:.6g}, printed {text}" for name, text in wrong.items()]


def parts_of(path: Path) -> Json:
    """Reads a file of parts. A part with "for" stands for one with each of these texts in place of THIS."""
    table = json.loads(path.read_text())
    rows = []
    for part in table["rows"]:
        texts = part.pop("for", [""])
        rows += [json.loads(json.dumps(part, ensure_ascii=False).replace("THIS", text)) for text in texts]
    return {**table, "rows": rows}


def unmade(path: Path, table: Json) -> list[str]:
    """Returns the rows of tables on the page of a file of parts, and the pictures, that no part of it makes."""
    elsewhere = table.get("elsewhere", {})
    lacking = [f"the row {row} of {table['page']}" for row in pages.unmade(table["page"], table["rows"], elsewhere)]
    if path.name == "pictures.json":
        lacking += pages.undrawn(Path("docs/img"), table["rows"], elsewhere)
        sources = [*Path("docs/results").glob("*.md"), *Path("models/pretrained").glob("*/card.md")]
        for readme in [Path("README.md"), *sorted(Path("envs").rglob("README.md"))]:
            lacking += [f"the row {row} of {readme}" for row in pages.unfounded(readme, sources)]
    return lacking


def digest(page: str, part: Json) -> str:
    """Returns the key of a part in the journal: of what makes it, and of what is printed."""
    printed: Json = {}
    if "rows" in part or "texts" in part:
        printed = pages.printed_figures(page, part)
    elif "table" in part:
        printed = pages.printed_column(page, part)
    return hashlib.sha256(json.dumps([part, printed], sort_keys=True).encode()).hexdigest()[:16]


def write_whole(path: Path, document: Json) -> None:
    """Writes a JSON file so that an interrupt leaves the old one or the new one."""
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(document, indent=1))
    partial.replace(path)


def main() -> int:
    """Makes or checks the chosen parts and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the compiled command trainer; without it, only the pages are read")
    parser.add_argument("--tables", type=Path, default=Path("tools/tables"), help="folder of the parts")
    parser.add_argument("--only", default="", help="parts whose page or name has this")
    parser.add_argument("--logs", type=Path, default=Path(".cache/results"), help="folder of trainings and journal")
    parser.add_argument("--list", action="store_true", help="list the parts and make nothing")
    args = parser.parse_args()
    data = os.environ.get("KUBERNASIUM_DATA", "../shared/data")
    if args.trainer:
        args.logs.mkdir(parents=True, exist_ok=True)
    record = args.logs / "journal.json"
    journal = json.loads(record.read_text()) if record.exists() else {}
    failed = checked = 0
    minutes = {True: 0.0, False: 0.0}  # of parts that are made, and of others
    for path in sorted(args.tables.glob("*.json")):
        table = parts_of(path)
        lacking = [] if args.only or args.list else unmade(path, table)
        for what in lacking:
            print(f"FAIL no part of {path} makes {what}")
        failed, checked = failed + len(lacking), checked + len(lacking)
        for part in table["rows"]:
            name = f"{path.stem}: {part['name']}"
            if args.only not in name:
                continue
            key = digest(table["page"], part)
            minutes[key in journal] += part["minutes"]
            if args.list:
                made = f"made in {journal[key]['minutes']:.1f}" if key in journal else ""
                print(f"{part['minutes']:6.1f} min  {name}  {made}")
                continue
            begin, wrong = time.monotonic(), unprinted(table["page"], part)
            make = args.trainer and key not in journal
            if make and "DATA" in json.dumps(part) and not Path(data).is_dir():
                wrong.append("set KUBERNASIUM_DATA to the folder of public data")
            elif make and not ("run" not in part and wrong):
                wrong = differing(args.trainer, table["page"], part, data, args.logs)
            took = (time.monotonic() - begin) / 60
            if make and not wrong:
                journal[key] = {"part": name, "minutes": round(took, 2)}
                write_whole(record, journal)
            checked, failed = checked + 1, failed + bool(wrong)
            how = f"{took:.1f} min" if make else "already made" if args.trainer else ""
            print(f"{'FAIL' if wrong else 'ok  '} {name}  {how} {'; '.join(wrong)}", flush=True)
    if args.list:
        print(f"{minutes[False]:.0f} minutes to go, {minutes[True]:.0f} made")
        return 0
    print(f"{checked - failed} passed, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
