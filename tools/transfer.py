"""Tunes or trains a policy on one source of pods and plays it on the others: the matrix of docs/results/gpu.md.

    python tools/transfer.py --trainer bin/trainer --csv docs/results/gpu_transfer.csv --agents

Sources are pod lists of openb, drawn with replacement onto 64 nodes of its node list, and the environment's generator.
For each, `trainer tune` searches the weights of WeightedFGD, and with --agents `trainer train` trains a node scorer,
both on training seeds and with equal budgets. Then `trainer compare` plays all of them on held-out episodes of each
source, next to policies that no source was chosen for. What was tuned, trained or played already is taken from the
folder --work.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import statistics
import subprocess
from pathlib import Path

ENV = "k8s/GPUPodScheduling-v0"
LISTS = ["default", "gpuspec10", "multigpu20", "gpushare40"]
GENERATOR = "generator"
SHIPPED = "models/pretrained/k8s-GPUPodScheduling-v0/ppo.safetensors"
FIXED = ["FGD", "WeightedFGD"]  # differences are to the second
METRICS = ["alloc_100_pct", "alloc_pct"]
AT = ["100", "130"]  # percent arrived of these
# The settings of "A trained policy" on docs/results/gpu.md; the budget is smaller, and pods are bound as in the source.
AGENT = (
    "--algo ppo --env-kwargs reward:weighted --env-kwargs alloc_weight:0 --env-kwargs frag_weight:1"
    " --env-kwargs scarcity_weight:1 --eval-env-kwargs reward:allocation"
    " --eval-episodes 20 --eval-freq 25000 --imitate WeightedFGD"
    " --imitate-learning-rate lin_0.003"
)


def options(source: str, data: Path) -> list[str]:
    """Returns the flags of the environment that draw pods of a source."""
    if source == GENERATOR:  # said in full, since a model brings the options of its training along
        return ["--env-kwargs", "nodes:", "--env-kwargs", "pods:[]"]
    pods = data / f"openb_pod_list_{source}.csv"
    return ["--env-kwargs", f"nodes:{data / 'openb_node_list_gpu_node.csv'}", "--env-kwargs", f"pods:[{pods}]"]


def run(command: list[str], record: Path) -> dict:
    """Returns the JSON document of a command of the trainer, from the record if there is one."""
    if not record.exists():
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        record.write_text(done.stdout)
    return json.loads(record.read_text())


def quantile(freedom: int) -> float:
    """Returns Student's t of 97.5 %, by Hill's expansion of the normal one (Algorithm 396, 1970)."""
    z = 1.959964
    terms = [
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    ]
    return z + sum(t / freedom ** (i + 1) for i, t in enumerate(terms))


def paired(values: list[float], base: list[float]) -> tuple[float, float]:
    """Returns the mean difference of episodes and the half width of its 95 % interval."""
    differences = [a - b for a, b in zip(values, base, strict=True)]
    spread = statistics.stdev(differences) / math.sqrt(len(differences))
    return statistics.mean(differences), quantile(len(differences) - 1) * spread


def play(command: list[str], record: Path) -> list[dict[str, str]]:
    """Returns the episodes of a comparison, from the record if it has this command's."""
    note = record.with_suffix(".txt")
    if not record.exists() or not note.exists() or note.read_text() != " ".join(command):
        subprocess.run([*command, "--csv-episodes", str(record)], stdout=subprocess.DEVNULL, check=True)
        note.write_text(" ".join(command))
    with record.open() as f:
        return list(csv.DictReader(f))


def label(source: str, policy: str) -> str:
    """Returns the first cell of a row of the matrix."""
    if policy.startswith("shipped") or not source:
        return policy if source else f"`{policy}`"
    return f"{policy.split(':')[0] if policy.startswith('node') else 'weights'}, {source}"


def matrix(file: Path, at: str) -> list[str]:
    """Returns the lines of the matrix at 100 or 130 % arrived of a file that main has written."""
    with file.open() as f:
        rows = list(csv.DictReader(f))
    columns = list(dict.fromkeys(r["played_on"] for r in rows))
    lines: dict[str, str] = {}
    for r in rows:
        first = label(r["chosen_on"], r["policy"])
        cell = r[f"at_{at}"]
        if r["policy"] != FIXED[1] or r["chosen_on"]:
            cell += f" ({r[f'difference_{at}']} ± {r[f'half_{at}']})".replace("-", "−")
        if r["chosen_on"] == r["played_on"]:
            cell = f"*{cell}*"
        lines[first] = lines.get(first, f"| {first} |") + f" {cell} |"
    return [f"| at {at} % | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *lines.values()]


def main() -> None:
    """Makes the matrix and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", required=True, help="the compiled command trainer")
    parser.add_argument("--csv", type=Path, required=True, help="file to write")
    parser.add_argument("--work", type=Path, default=Path(".cache/transfer"), help="folder of what is made on the way")
    parser.add_argument("--tune-steps", type=int, default=1_000_000, help="steps of each search")
    parser.add_argument("--imitate-steps", type=int, default=50_000, help="decisions that each agent imitates")
    parser.add_argument("--train-steps", type=int, default=25_000, help="steps of PPO that follow")
    parser.add_argument("--agents", action="store_true", help="train agents, too")
    parser.add_argument("--episodes", type=int, default=100, help="held-out episodes of each source")
    args = parser.parse_args()
    data = Path(os.environ.get("KUBERNASIUM_DATA", "../shared/data")) / "openb"
    args.work.mkdir(parents=True, exist_ok=True)
    baselines = [("", name) for name in FIXED]  # the source that each was chosen on, and its name
    models = [(GENERATOR, "shipped model", SHIPPED)]
    for source in [*LISTS, GENERATOR]:
        where = ["--env", ENV, *options(source, data), "-f", str(args.work / source)]
        tune = [args.trainer, "tune", "--baseline", FIXED[1], "-n", str(args.tune_steps), *where]
        baselines.append((source, run(tune, args.work / f"tune-{source}.json")["tuned"]))
        if args.agents:
            budget = ["--imitate-steps", str(args.imitate_steps), "-n", str(args.train_steps), "--seed", "1"]
            train = [args.trainer, "train", *AGENT.split(), *budget, *where]
            model = Path(run(train, args.work / f"train-{source}.json")["model"]).with_name("best_model.safetensors")
            models.append((source, "node scorer", str(model)))
    rows = []
    for column in [*LISTS, GENERATOR]:
        held = ["--env", ENV, "--env-kwargs", "split:heldout", *options(column, data), "--episodes", str(args.episodes)]
        command = [args.trainer, "compare", *held]
        names = list(dict.fromkeys(name for _, name in baselines))
        played = play([*command, *(a for name in names for a in ("--baseline", name))], args.work / f"{column}.csv")
        of = [(source, name, [e for e in played if e["policy"] == name]) for source, name in baselines]
        for k, (source, name, model) in enumerate(models):  # one by one: a comparison calls all models alike
            played = play([*command, "--baseline", FIXED[1], "--model", model], args.work / f"{column}-{k}.csv")
            of.append((source, name, [e for e in played if e["kind"] == "model"]))
        base = of[1][2]
        for source, name, mine in of:
            if [e["seed"] for e in mine] != [e["seed"] for e in base]:
                raise SystemExit(f"{name} played other episodes of {column} than {FIXED[1]}")
            row = [source, name, column]
            for m in METRICS:
                values = [float(e[m]) for e in mine]
                mean, half = paired(values, [float(e[m]) for e in base])
                row += [f"{statistics.mean(values):.2f}", f"{mean:+.2f}", f"{half:.2f}"]
            rows.append(row)
    with args.csv.open("w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(
            [
                "chosen_on",
                "policy",
                "played_on",
                "at_100",
                "difference_100",
                "half_100",
                "at_130",
                "difference_130",
                "half_130",
            ]
        )
        w.writerows(rows)
    for at in AT:
        print("\n".join(matrix(args.csv, at)), end="\n\n")


if __name__ == "__main__":
    main()
