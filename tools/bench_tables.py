"""Trains the tables of five seeds again and compares them with what docs/results prints.

    python tools/bench_tables.py --trainer bin/trainer --tables tools/tables --only gang

Each JSON file of the folder has the rows of one page: how a row is trained, how its models are
evaluated, and the figures in print. Trainings give equal bits for equal seeds, so a figure is in
order if it rounds to what is printed. Finished trainings are kept and found again. The command
fails if a figure differs, or if a line of the page no longer has it.

A row:
    name       what it is
    before     arguments of a command that makes LOGS/FILE for the training, if any
    train      arguments of `trainer train`, without seeds and log folder
    seeds      FIRST..LAST
    evaluate   arguments of the command that plays the models; each gets them by --model or --policy
    expect     the printed text of each figure, by the figure's name
    line       the beginning of the page's line that prints the figures
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

Json = Any


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


def trained(trainer: str, row: Json, data: str, logs: Path) -> list[str]:
    """Trains a row unless it is trained already, and returns its model files."""
    arguments = expand(row["train"], data, logs)
    key = hashlib.sha256(json.dumps([arguments, row["seeds"]]).encode()).hexdigest()[:12]
    record = logs / f"{key}.json"
    if record.exists():
        return json.loads(record.read_text())
    if "before" in row:
        before = expand(row["before"], data, logs)
        if not Path(before[-1]).exists():
            run([trainer, *before])
    document = run([trainer, "train", *arguments, "--seeds", row["seeds"], "--save-freq", "0", "-f", str(logs / key)])
    models = [str(best_or_last(Path(seed["model"]))) for seed in document["seeds"]]
    partial = record.with_suffix(".tmp")
    partial.write_text(json.dumps(models))
    partial.replace(record)
    return models


def figures(command: list[str], document: Json, models: list[str]) -> dict[str, float]:
    """Returns the figures that a command's document has of the models."""
    if command[0] == "compare":
        rows = [r for r in document["rows"] if r["kind"] == "model"]
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


def agrees(printed: str, value: float) -> bool:
    """Says whether value rounds to the printed figure, whose minus may be typographic."""
    text = printed.replace("−", "-").lstrip("+")
    return f"{value:.{len(text.partition('.')[2])}f}" == text


def unprinted(table: Json, row: Json) -> list[str]:
    """Returns which figures of a row its page does not print."""
    lines = [line for line in Path(table["page"]).read_text().splitlines() if line.startswith(row["line"])]
    return [
        f"{table['page']} has no line {row['line']!r} with {printed}"
        for printed in row["expect"].values()
        if not any(printed in line for line in lines)
    ]


def differing(trainer: str, row: Json, data: str, logs: Path) -> list[str]:
    """Trains and evaluates a row, and returns which figures are not those that are printed."""
    models = trained(trainer, row, data, logs)
    command = expand(row["evaluate"], data, logs)
    flag = "--policy" if command[:2] == ["lra", "learned"] else "--model"
    got = figures(command, run([trainer, *command, *(a for m in models for a in (flag, m))]), models)
    return [
        f"{name} is {got[name]:.6g}, printed {printed}"
        for name, printed in row["expect"].items()
        if not agrees(printed, got[name])
    ]


def main() -> int:
    """Checks the chosen rows and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the compiled command trainer; without it, only the pages are read")
    parser.add_argument("--tables", type=Path, default=Path("tools/tables"), help="folder of the tables")
    parser.add_argument("--only", default="", help="tables or rows whose name has this")
    parser.add_argument("--logs", type=Path, default=Path(".cache/tables"), help="folder of trainings, kept")
    args = parser.parse_args()
    data = os.environ.get("KUBERNASIUM_DATA", "../shared/data")
    if args.trainer:
        args.logs.mkdir(parents=True, exist_ok=True)
    failed = checked = 0
    for path in sorted(args.tables.glob("*.json")):
        table = json.loads(path.read_text())
        for row in table["rows"]:
            name = f"{path.stem}: {row['name']}"
            if args.only not in name:
                continue
            wrong = unprinted(table, row)
            if args.trainer and "DATA" in row["train"] + row["evaluate"] and not Path(data).is_dir():
                wrong.append("set KUBERNASIUM_DATA to the folder of public data")
            elif args.trainer:
                wrong += differing(args.trainer, row, data, args.logs)
            checked, failed = checked + 1, failed + bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '} {name} {'; '.join(wrong)}", flush=True)
    print(f"{checked - failed} passed, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
