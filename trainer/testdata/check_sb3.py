"""Prints what Stable-Baselines3 makes of a model file, or of a log folder.

Usage: check_sb3.py MODEL < OBSERVATIONS
       check_sb3.py --logs FOLDER

With a model, reads a JSON list of rows from standard input and prints one JSON document: the
greedy "actions", and the "probabilities" and "values" of the policy or its "q_values". With a
folder, prints the rows of monitor.csv as SB3's load_results and ts2xy read them, and the columns
of progress.csv as pandas does. Needs stable-baselines3 and this repository's Python package.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch


def logs(folder: str) -> dict:
    """Reads the CSV files of a log folder with SB3's and pandas' readers."""
    import pandas
    from stable_baselines3.common.monitor import get_monitor_files, load_results
    from stable_baselines3.common.results_plotter import X_EPISODES, X_TIMESTEPS, ts2xy

    monitor = load_results(folder)
    progress = pandas.read_csv(Path(folder) / "progress.csv")
    steps, _ = ts2xy(monitor, X_TIMESTEPS)
    episodes, returns = ts2xy(monitor, X_EPISODES)
    return {
        "files": len(get_monitor_files(folder)),
        "columns": list(monitor.columns),
        "r": monitor["r"].tolist(),
        "l": monitor["l"].tolist(),
        "steps": steps.tolist(),
        "episodes": episodes.tolist(),
        "returns": returns.tolist(),
        "progress": {name: progress[name].dropna().tolist() for name in progress.columns},
    }


def model(path: str) -> dict:
    """Plays a model of ours in SB3's policy."""
    from kubernasium.load_sb3 import load

    torch.set_num_threads(1)  # networks this small are slower with more
    algorithm = load(path)
    obs = np.array(json.load(sys.stdin), np.float32)
    actions, _ = algorithm.predict(obs, deterministic=True)
    document = {"class": type(algorithm).__name__, "actions": actions.tolist(), "timesteps": algorithm.num_timesteps}
    tensor = torch.as_tensor(obs)
    with torch.no_grad():
        if hasattr(algorithm.policy, "q_net"):
            document["q_values"] = algorithm.policy.q_net(tensor).tolist()
        else:
            document["probabilities"] = algorithm.policy.get_distribution(tensor).distribution.probs.tolist()
            document["values"] = algorithm.policy.predict_values(tensor).tolist()
    return document


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--logs":
        json.dump(logs(sys.argv[2]), sys.stdout)
    elif len(sys.argv) == 2:
        json.dump(model(sys.argv[1]), sys.stdout)
    else:
        sys.exit(__doc__)
