"""Compares the shipped models with every baseline on the sealed block, and writes docs/results/sealed.md.

The page also has the trainings of tools/tables that have played the block; tools/results.py plays those.

    python tools/sealed.py --trainer bin/trainer

docs/results/sealed.csv records what has played the block (docs/results/method.md). Playing again repeats the
results of the same models, and fails for others. Each environment's table of all policies goes to
docs/results/sealed, and an environment that has one is not played again.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS, MODELS = ROOT / "docs" / "results", ROOT / "models" / "pretrained"
EPISODES = {"k8s-GPUPodScheduling-v0": 50, "k8s-GPUPodScheduling-v2": 50}  # the others 100: RolloutWeightedFGD takes seconds for an episode
BY_TRAINING = {"k8s-LRAOnline-v0", "k8s-VerticalPodAutoscaler-v1"}  # the parts of their trainings play the block
TRAININGS = """
## Trainings
Five seeds of a training each. Differences are the means of the five models, with intervals and p-values over seeds and
episodes. The parts of `make results` with these names train the models, and play the block if it has not been played.

| part | episodes | mean | best baseline | its mean | difference | 95 % interval | p (Holm) | verdict |
|---|--:|--:|---|--:|--:|--:|--:|---|
"""
HEADER = """# The sealed block

Final scores of the [shipped models](../../models/pretrained), on episodes that no training, search or comparison had
played before; they were played once ([method](method.md)). [sealed.csv](sealed.csv) records the comparisons, and
[sealed](sealed) has the tables of all policies. `make results ONLY="the sealed block"` makes missing tables, and fails
for other models. A model is better only if it is better than every baseline that is not clairvoyant, corrected for the
number of models in its environment.

| environment | episodes | model | mean | best baseline | its mean | difference | 95 % interval | p (Holm) | verdict |
|---|--:|---|--:|---|--:|--:|--:|--:|---|
"""


def play(trainer: str, env: str) -> None:
    """Plays the sealed block of an environment and writes its table."""
    table = RESULTS / "sealed" / f"{env}.csv"
    table.parent.mkdir(exist_ok=True)
    models = [a for path in sorted((MODELS / env).glob("*.safetensors")) for a in ("--model", str(path.relative_to(ROOT)))]
    command = [trainer, "compare", "--sealed", str(RESULTS / "sealed.csv"), "--episodes", str(EPISODES.get(env, 100))]
    partial = table.with_suffix(".tmp")
    subprocess.run([*command, *models, "--csv", str(partial)], cwd=ROOT, check=True)
    partial.replace(table)


def judged(table: Path) -> list[tuple[str, str]]:
    """Returns the policies of a table that have a verdict, and their cells from the mean to the verdict."""
    header, *rows = csv.reader(table.open(encoding="utf-8"))
    best = header[3].removeprefix("difference to ")
    mean = next(row[1] for row in rows if row[0] == best)
    out = []
    for row in rows:
        cell = dict(zip(header, row, strict=True))
        if cell["verdict"]:
            figures = [row[1], f"`{best}`", mean, row[3], row[4], cell["p (Holm)"], cell["verdict"]]
            out.append((row[0], " | ".join(figures)))
    return out


def bold(name: str, cells: str) -> str:
    """Returns the name, in bold print if the verdict is better."""
    return f"**{name}**" if cells.endswith("| better") else name


def lines(env: str) -> list[str]:
    """Returns the lines of the page's table for an environment."""
    start = f"| `{env.replace('-', '/', 1)}` | {EPISODES.get(env, 100)} |"
    return [f"{start} {bold(Path(name).stem, cells)} | {cells} |" for name, cells in judged(RESULTS / "sealed" / f"{env}.csv")]


def trainings() -> list[str]:
    """Returns the lines of the page's table of trainings, of the parts that have played the block."""
    out = []
    for path in sorted((ROOT / "tools" / "tables").glob("*.json")):
        for part in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            if "sealed" not in part or not (ROOT / part["sealed"]["table"]).exists():
                continue
            name = f"{path.stem}: {part['name']}"
            cells = next(cells for row, cells in judged(ROOT / part["sealed"]["table"]) if row.endswith(" seeds"))
            out.append(f"| {bold(name, cells)} | {part['sealed']['episodes']} | {cells} |")
    return out


def main() -> int:
    """Plays what has no table yet, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="bin/trainer", help="the compiled command trainer")
    args = parser.parse_args()
    page = HEADER
    for env in sorted(p.name for p in MODELS.iterdir() if p.is_dir() and p.name not in BY_TRAINING):
        if not (RESULTS / "sealed" / f"{env}.csv").exists():
            play(str(Path(args.trainer).resolve()), env)
        page += "\n".join(lines(env)) + "\n"
    if rows := trainings():
        page += TRAININGS + "\n".join(rows) + "\n"
    (RESULTS / "sealed.md").write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
