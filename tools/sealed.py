"""Compares the shipped models with every baseline on the sealed block, and writes docs/results/sealed.md.

    python tools/sealed.py --trainer bin/trainer

docs/results/sealed.csv records what has played the block (docs/results/method.md). Playing again repeats the
results of the same models, and fails for others. Each environment's table of all policies goes to
docs/results/sealed, and an environment that has one is not played again.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS, MODELS = ROOT / "docs" / "results", ROOT / "models" / "pretrained"
EPISODES = {"k8s-GPUPodScheduling-v0": 50, "k8s-GPUPodScheduling-v2": 50}  # the others 100: RolloutWeightedFGD takes seconds for an episode
HEADER = """# The sealed block

Final scores of the [shipped models](../../models/pretrained), on episodes that no training, search or comparison had
played before; they were played once ([method](method.md)). [sealed.csv](sealed.csv) records the comparisons, and
[sealed](sealed) has the tables of all policies. `make results ONLY="the sealed block"` makes missing tables, and fails
for other models. A model is better only if it is better than every baseline that is not an oracle, corrected for the
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


def lines(env: str) -> list[str]:
    """Returns the lines of the page's table for an environment."""
    rows = list(csv.reader((RESULTS / "sealed" / f"{env}.csv").open(encoding="utf-8")))
    header, rows = rows[0], rows[1:]
    best = header[3].removeprefix("difference to ")
    mean = next(row[1] for row in rows if row[0] == best)
    out = []
    for row in rows:
        cell = dict(zip(header, row, strict=True))
        if not cell["verdict"]:
            continue
        name = Path(row[0]).stem
        name = f"**{name}**" if cell["verdict"] == "better" else name
        figures = [row[1], f"`{best}`", mean, row[3], row[4], cell["p (Holm)"], cell["verdict"]]
        out.append(f"| `{env.replace('-', '/', 1)}` | {EPISODES.get(env, 100)} | {name} | {' | '.join(figures)} |")
    return out


def main() -> int:
    """Plays what has no table yet, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="bin/trainer", help="the compiled command trainer")
    args = parser.parse_args()
    page = HEADER
    for env in sorted(p.name for p in MODELS.iterdir() if p.is_dir()):
        if not (RESULTS / "sealed" / f"{env}.csv").exists():
            play(str(Path(args.trainer).resolve()), env)
        page += "\n".join(lines(env)) + "\n"
        (RESULTS / "sealed.md").write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
