"""Planners for k8s/GangWindow-v0.

Some use no more than the actions and the observation, so that a client can play them. The
others plan with the instance itself and exist in Go only: the trainer plays them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kubernasium.sb3 import VecEnv

WINDOWS, HORIZON = 3, 6  # defaults of the environment's options
PENALTY = 15.0  # seconds that a plan costs
DURATION_LOW, DURATION_HIGH = 50.0, 250.0  # seconds that are 0 and 1 in an observation

# (step of the episode, observations of shape (n, 41)) → actions of shape (n,)
Planner = Callable[[int, np.ndarray], np.ndarray]


def static(window: int) -> Planner:
    """Plans for the next `window` supersteps after every `window`; 0 never plans."""

    def act(step: int, obs: np.ndarray) -> np.ndarray:
        due = window > 0 and step % window == 0
        return np.full(len(obs), window if due else 0)

    return act


def look_ahead(step: int, obs: np.ndarray) -> np.ndarray:
    """Takes the action with the least predicted time over the horizon, its penalty included."""
    durations = obs[:, : (WINDOWS + 1) * HORIZON].reshape(-1, WINDOWS + 1, HORIZON)
    seconds = (DURATION_LOW + (DURATION_HIGH - DURATION_LOW) * durations).sum(axis=2)
    seconds[:, 1:] += PENALTY if step else 0.0
    return seconds.argmin(axis=1)


PLANNERS: dict[str, Planner] = {
    "never": static(0),
    **{f"static_{w}": static(w) for w in range(1, WINDOWS + 1)},
    "look_ahead": look_ahead,
}


def completion_times(act: Planner, episodes: int, seed: int, **options: object) -> np.ndarray:
    """Plays episodes side by side.

    Args:
        act: the planner, or a policy of the same form.
        episodes: how many; episode i has the random seed seed+i.
        seed: see episodes.
        **options: of the environment.

    Returns:
        The jobs' completion times in seconds, of shape (episodes,).
    """
    with VecEnv("k8s/GangWindow-v0", episodes, seed=seed, **options) as envs:
        obs, step = envs.reset(), 0
        while True:
            obs, _, dones, infos = envs.step(act(step, obs))
            step += 1
            if dones.all():  # all episodes are of one length
                return np.array([info["total_s"] for info in infos])


def _trainer() -> list[str] | None:
    """Returns the command that runs the trainer, or None where there is none.

    It is the binary that KUBERNASIUM_TRAINER names, or else the trainer of the checkout that
    this file lies in, if Go is installed.
    """
    named = os.environ.get("KUBERNASIUM_TRAINER")
    if named:
        return [named]
    checkout = Path(__file__).resolve().parents[3]
    if shutil.which("go") and (checkout / "trainer" / "main.go").exists():
        return ["go", "-C", str(checkout), "run", "./trainer"]
    return None


def trainer_times(episodes: int, seed: int, **options: object) -> dict[str, float]:
    """Lets the trainer play all planners of the environment.

    Args:
        episodes: how many; episode i has the random seed seed+i, as in `completion_times`.
        seed: see episodes.
        **options: of the environment.

    Returns:
        The mean completion time in seconds by the planner's name, without random actions and
        without oracles, which know the future; nothing where there is no trainer.
    """
    command = _trainer()
    if command is None:
        return {}
    command += ["compare", "--env", "k8s/GangWindow-v0", "--json", f"--episodes={episodes}", f"--seed={seed}"]
    command += [f"--env-kwargs={name}:{value}" for name, value in options.items()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(done.stdout)["rows"]
    return {row["policy"]: row["mean"] for row in rows if row["kind"] == "baseline" and row["policy"] != "random"}
