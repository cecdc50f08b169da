"""Prints what Stable-Baselines3 makes of model files, or of a log folder.

Usage: check_sb3.py < JOBS
       check_sb3.py --logs FOLDER

Reads a JSON list of jobs from standard input: {"model": a path, "inputs": {a name: an array of
shape (steps, N, ...)}}, where the name is that of a part of a Dict observation, "obs", or
"episode_start". Prints a JSON list with, for each job, the "class" and "timesteps" of the model and,
of shape (steps, N, ...), its greedy "actions" and either "q_values" or "logits" (normalized, or
the means of a Gaussian) and "value". The state of a recurrent model is that of the step before.
With a folder, prints the rows of monitor.csv as SB3's load_results and ts2xy read them, and the columns
of progress.csv as pandas does. Needs stable-baselines3 and this repository's Python package.
"""

import json
import sys
import warnings
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


def model(path: str, inputs: dict) -> dict:
    """Plays a model of ours in SB3's policy."""
    from kubernasium.load_sb3 import load

    torch.set_num_threads(1)  # networks this small are slower with more
    warnings.simplefilter("ignore")  # of what a further training lacks
    algorithm = load(path)
    starts = inputs.pop("episode_start", None)
    arrays = {name: np.array(values, np.float32) for name, values in inputs.items()}
    steps, rows = next(iter(arrays.values())).shape[:2]
    document = {"class": type(algorithm).__name__, "timesteps": algorithm.num_timesteps, "actions": []}
    play = recurrent(algorithm.policy, rows) if starts else feedforward(algorithm.policy)
    for t in range(steps):
        obs = arrays["obs"][t] if "obs" in arrays else {name: a[t] for name, a in arrays.items()}
        tensor, _ = algorithm.policy.obs_to_tensor(obs)
        with torch.no_grad():
            results, actions = play(obs, tensor, np.array(starts[t], np.float32) if starts else None)
        document["actions"].append(actions.tolist())
        for name, value in results.items():
            document.setdefault(name, []).append(value.tolist())
    return document


def logits(distribution) -> torch.Tensor:
    """Returns what describes a distribution of SB3."""
    inner = distribution.distribution
    return inner.logits if hasattr(inner, "logits") else inner.mean


def feedforward(policy):
    """Returns what plays a step of a policy without a state."""

    def play(obs, tensor, _):
        actions, _ = policy.predict(obs, deterministic=True)
        if hasattr(policy, "q_net"):
            return {"q_values": policy.q_net(tensor)}, actions
        return {"logits": logits(policy.get_distribution(tensor)), "value": policy.predict_values(tensor)}, actions

    return play


def recurrent(policy, rows: int):
    """Returns what plays a step of a policy with LSTMs."""
    layers, _, cells = policy.lstm_hidden_state_shape
    zeros = torch.zeros(layers, rows, cells)
    states = {"pi": (zeros, zeros), "vf": (zeros, zeros), "predict": None}

    def play(obs, tensor, start):
        starts = torch.from_numpy(start)
        actions, states["predict"] = policy.predict(obs, states["predict"], start, deterministic=True)
        value = policy.predict_values(tensor, states["pi" if policy.shared_lstm else "vf"], starts)
        distribution, pi = policy.get_distribution(tensor, states["pi"], starts)
        if policy.lstm_critic is not None:
            features = policy.extract_features(tensor)
            _, states["vf"] = policy._process_sequence(features, states["vf"], starts, policy.lstm_critic)
        states["pi"] = pi
        return {"logits": logits(distribution), "value": value}, actions

    return play


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--logs":
        json.dump(logs(sys.argv[2]), sys.stdout)
    elif len(sys.argv) == 1:
        json.dump([model(job["model"], job["inputs"]) for job in json.load(sys.stdin)], sys.stdout)
    else:
        sys.exit(__doc__)
