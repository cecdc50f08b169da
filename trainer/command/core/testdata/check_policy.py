"""Prints what kubernasium.Policy makes of model files.

Usage: check_policy.py < JOBS

Reads a JSON list of jobs as check_sb3.py does, with the path of clients/python/src before them in PYTHONPATH. Prints
a JSON list with, for each job and of shape (steps, N, ...), "scores" and the greedy "actions" of the whole
batch, and "single", the actions of its rows alone. Needs NumPy.
"""

import json
import sys

import numpy as np

from kubernasium.policy import Policy


def run(path: str, inputs: dict) -> dict:
    """Plays a model over the steps."""
    policy = Policy(path)
    starts = inputs.pop("episode_start", None)
    arrays = {name: np.array(values, np.float32) for name, values in inputs.items()}
    steps, rows = next(iter(arrays.values())).shape[:2]
    whole, alone = None, [None] * rows
    document = {"scores": [], "actions": [], "single": []}
    for t in range(steps):
        obs = arrays["obs"][t] if "obs" in arrays else {name: a[t] for name, a in arrays.items()}
        start = np.array(starts[t], bool) if starts else None
        state = whole
        document["scores"].append(policy.scores(obs, state, start).tolist())
        actions, whole = policy.predict(obs, state, start, deterministic=True)
        document["actions"].append(actions.reshape(rows, -1).tolist())
        single = []
        for i in range(rows):
            row = obs[i] if "obs" in arrays else {name: a[i] for name, a in obs.items()}
            if policy.recurrent:
                action, alone[i] = policy.predict(row, alone[i], None if start is None else start[i], deterministic=True)
            else:
                action = policy(row)
            single.append(np.ravel(action).tolist())
        document["single"].append(single)
    return document


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    json.dump([run(job["model"], job["inputs"]) for job in json.load(sys.stdin)], sys.stdout)
