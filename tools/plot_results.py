"""Draws the pictures of the READMEs from the tables of docs/results.

    python tools/plot_results.py                              # draw all into docs/img
    python tools/plot_results.py --check                      # fail where a picture is not of today's figures
    python tools/plot_results.py --record logs/ppo/k8s-PodBalance-v0_1 --trainer bin/trainer
                                                              # first rewrite docs/results/balance_ppo.csv

A picture holds the SHA-256 of the figures that it shows, so that --check needs no matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS, IMAGES = ROOT / "docs" / "results", ROOT / "docs" / "img"
CURVE = RESULTS / "balance_ppo.csv"
BLUE, ORANGE, GREY, GREEN = "#0072b2", "#d55e00", "#767676", "#009e73"
AGENT = re.compile(r"PPO|A2C|DQN|learned|model")

Row = list[str]


def table(page: str, header: str) -> list[Row]:
    """Returns the cells of the table of a page whose first line begins with header, which is its first row."""
    lines = (RESULTS / page).read_text(encoding="utf-8").splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(header)]
    if len(starts) != 1:
        raise SystemExit(f"docs/results/{page} has {len(starts)} tables that begin with {header!r}, want 1")
    rows = []
    for line in lines[starts[0] :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("**", "").replace("`", "") for cell in line.strip().strip("|").split("|")])
    return [rows[0], *rows[2:]]


def numbers(cell: str) -> list[float]:
    """Returns the numbers of a cell, such as a mean and its interval."""
    return [float(n) for n in re.findall(r"[-+]?\d+(?:\.\d+)?", cell.replace("−", "-"))]


def dots(ax: Any, names: list[str], values: list[list[float]], title: str) -> None:
    """Draws a dot, with its interval if there is one, for each name that has a value, the best first."""
    for i, (name, v) in enumerate(zip(names, values, strict=True)):
        if not v:
            continue
        color = ORANGE if AGENT.match(name) else GREY if re.search("clairvoyant|bound|true sizes", name) else BLUE
        if len(v) == 3:
            ax.plot(v[1:], [i, i], color=color, linewidth=2, solid_capstyle="butt")
        ax.plot(v[0], i, "o", color=color)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_title(title, fontsize=10)


def gang() -> Any:
    """Returns completion times, generated and real."""
    return [r for r in table("gang.md", "| policy | generated |") if "random" not in r[0] and "exppo" not in r[0]]


def gang_forecast() -> Any:
    """Returns completion times where forecasts are corrected, generated and real."""
    return table("gang.md", "| corrections, planner | generated |")


def draw_gang(plt: Any, rows: list[Row]) -> Any:
    """Draws the policies by their completion times."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 1 + 0.24 * len(rows)), sharey=True)
    rows = [r for r in rows[1:] if "−" not in r[0]]
    names = [r[0].replace(", mean of 5 seeds", "") for r in rows]
    names = [n.replace("oracle_per_step_exact_minmax", "per_step_exact") for n in names]
    for ax, column, title in zip(axes, (1, 2), ("generated instances", "real series and profile"), strict=True):
        dots(ax, names, [[n / 1000 for n in numbers(r[column])] for r in rows], title)
        ax.set_xlabel("job completion time, 1000 s")
    return fig


def vpa() -> Any:
    """Returns the costs by weighting and type of workload."""
    rows: list[Row] = []
    for weighting in ("slack_heavy", "equal", "risk_heavy"):
        header, *costs = table("vpa.md", f"| type, `{weighting}` | `upstream` | PPO |")
        rows += [["type", *header[1:]]] if not rows else []
        rows += [[weighting] + [""] * len(header[1:]), *costs]
    return rows


def draw_vpa(plt: Any, rows: list[Row]) -> Any:
    """Draws the agents' costs in percent of upstream's."""
    agents, panels = rows[0][2:], {}
    for r in rows[1:]:
        if not r[1]:
            panels[r[0]] = []
        else:
            panels[next(reversed(panels))].append((r[0], [100 * numbers(c)[0] / float(r[1]) for c in r[2:]]))
    fig, axes = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True)
    for ax, (weighting, costs) in zip(axes, panels.items(), strict=True):
        for i, agent in enumerate(agents):
            ax.plot([c[1][i] for c in costs], range(len(costs)), "os^vD"[i], markersize=5, alpha=0.8, label=agent)
        ax.axvline(100, color=GREY, linewidth=1)
        ax.set_yticks(range(len(costs)), [c[0] for c in costs])
        ax.set_title(weighting, fontsize=10)
        ax.set_xlim(0, 110)
        ax.set_xlabel("cost, % of upstream's")
    axes[0].invert_yaxis()
    markers = axes[0].get_legend_handles_labels()
    fig.legend(*markers, loc="outside lower center", ncols=len(agents), fontsize=8, frameon=False)
    return fig


def lra() -> Any:
    """Returns the throughputs of dense batches on 81 nodes."""
    return table("lra.md", "| method, 81 nodes | 560 |")


def draw_lra(plt: Any, rows: list[Row]) -> Any:
    """Draws the methods by throughput, one line for each size of batch."""
    methods = [r for r in rows[1:] if len(numbers(r[1])) == 1 and "%" not in r[1]]
    fig, ax = plt.subplots(figsize=(7, 3.2))
    for column, marker, color in ((1, "o", BLUE), (2, "s", GREEN), (3, "^", GREY)):
        values = [numbers(r[column])[0] for r in methods]
        ax.plot(values, range(len(methods)), marker, color=color, label=f"{rows[0][column]} containers")
    for i, r in enumerate(methods):
        if AGENT.match(r[0]):
            ax.axhspan(i - 0.4, i + 0.4, color=ORANGE, alpha=0.15, linewidth=0)
    ax.set_yticks(range(len(methods)), [r[0].replace(", mean of 5 seeds", "") for r in methods])
    ax.invert_yaxis()
    ax.set_xlabel("throughput of a container, of that alone on a node")
    ax.legend(fontsize=8, frameon=False)
    return fig


def balance() -> Any:
    """Returns the costs of baselines and agents in the mixed setting."""
    policies = table("balance.md", "| policy | source | mixed |")[1:]
    agents = table("balance.md", "| agent | mixed |")[1:]
    rows = [[r[0], r[2]] for r in policies] + [[r[0], r[1]] for r in agents]
    return sorted(rows, key=lambda r: float(r[1]))


def draw_balance(plt: Any, rows: list[Row]) -> Any:
    """Draws baselines and agents by their cost."""
    fig, ax = plt.subplots(figsize=(7, 3.4))
    dots(ax, [r[0] for r in rows], [numbers(r[1]) for r in rows], "")
    ax.set_xlim(0)
    ax.set_xlabel("cost, %: mean deviation over nodes of the requested shares of CPU and memory")
    return fig


def curve() -> Any:
    """Returns the evaluations of PPO's trainings on PodBalance and the returns of baselines."""
    return list(csv.reader(CURVE.read_text(encoding="utf-8").splitlines()))


def draw_curve(plt: Any, rows: list[Row]) -> Any:
    """Draws PPO's curve over five seeds between lines of the baselines."""
    by_step: dict[int, list[float]] = {}
    fig, ax = plt.subplots(figsize=(8, 3.6))
    for policy, _, steps, mean in rows[1:]:
        if steps:
            by_step.setdefault(int(steps), []).append(float(mean))
            continue
        ax.axhline(float(mean), color=BLUE, linewidth=1, linestyle="--")
        label = policy.replace("KubeDefault", "KubeDefault\n(kube-scheduler)")
        ax.text(1.01, float(mean), label, color=BLUE, fontsize=9, va="center", transform=ax.get_yaxis_transform())
    steps = sorted(by_step)
    seeds = len(by_step[steps[0]])
    low, high = [min(by_step[s]) for s in steps], [max(by_step[s]) for s in steps]
    ax.fill_between(steps, low, high, color=ORANGE, alpha=0.25, linewidth=0)
    ax.plot(steps, [sum(by_step[s]) / seeds for s in steps], color=ORANGE, linewidth=2)
    title = f"PPO on k8s/PodBalance-v0, mixed nodes and pods: mean, lowest and highest of {seeds} seeds"
    ax.set_title(title, fontsize=10)
    ax.set_xlim(0, steps[-1])
    ax.set_xticks(range(0, 1_000_001, 200_000), ["0", "200 k", "400 k", "600 k", "800 k", "1 M"])
    ax.set_xlabel("environment steps")
    ax.set_ylabel("return on held-out episodes")
    return fig


PLOTS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "results_gang.png": (gang, draw_gang),
    "results_gang_forecast.png": (gang_forecast, draw_gang),
    "results_vpa.png": (vpa, draw_vpa),
    "results_lra.png": (lra, draw_lra),
    "results_balance.png": (balance, draw_balance),
    "learning_balance.png": (curve, draw_curve),
}


def digest(figures: Any) -> str:
    """Returns the SHA-256 of figures."""
    return hashlib.sha256(json.dumps(figures).encode()).hexdigest()


def text_of(png: Path, key: str) -> str:
    """Returns the text that a PNG file holds under key, or the empty string."""
    data = png.read_bytes() if png.exists() else b""
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if zlib.crc32(kind + body) != struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]:
            return ""
        if kind == b"tEXt" and body.startswith(key.encode() + b"\0"):
            return body[len(key) + 1 :].decode("latin-1")
        at += 12 + length
    return ""


def record(folder: Path, trainer: str) -> None:
    """Writes the evaluations of the trainings in folder, and baselines on the same episodes, to CURVE."""
    rows = [["policy", "seed", "timesteps", "mean_return"]]
    episodes = 0
    for path in sorted(folder.glob("seed_*/evaluations.csv")):
        for row in csv.DictReader(path.open(encoding="utf-8")):
            episodes = int(row["episodes"])
            rows.append(["PPO", path.parent.name.removeprefix("seed_"), row["timesteps"], f"{float(row['mean']):.2f}"])
    model = next(folder.glob("seed_*/best_model.safetensors"))
    command = [trainer, "eval", "--json", "--seed", "1000000000", "--episodes", str(episodes)]
    of_model = json.loads(subprocess.run([*command, "--model", str(model)], capture_output=True, check=True).stdout)
    options = [a for k, v in of_model["env_kwargs"].items() for a in ("--env-kwargs", f"{k}:{v}")]
    for name in ("Greedy", "KubeDefault", "Random"):
        baseline = [*command, "--env", of_model["env"], *options, "--baseline", name]
        done = subprocess.run(baseline, capture_output=True, check=True)
        rows.append([name, "", "", f"{json.loads(done.stdout)['mean']:.2f}"])
    with CURVE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def main() -> int:
    """Draws or checks the pictures and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="draw nothing")
    parser.add_argument("--record", type=Path, help="folder of the trainings of PPO on k8s/PodBalance-v0")
    parser.add_argument("--trainer", default="bin/trainer", help="the compiled command trainer, for --record")
    args = parser.parse_args()
    if args.check:
        stale = [name for name, (read, _) in PLOTS.items() if text_of(IMAGES / name, "Figures") != digest(read())]
        for name in stale:
            print(f"docs/img/{name} does not show the figures of docs/results: make plots")
        return 1 if stale else 0
    if args.record:
        record(args.record, args.trainer)
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3})
    mpl.rcParams.update({"figure.constrained_layout.use": True, "font.size": 9})
    for name, (read, draw) in PLOTS.items():
        figures = read()
        draw(plt, figures).savefig(IMAGES / name, dpi=110, metadata={"Figures": digest(figures), "Software": None})
        print(f"docs/img/{name}: {(IMAGES / name).stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
