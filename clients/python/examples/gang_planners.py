"""Planners for k8s/GangWindow-v0.

Some use no more than the actions and the observation; they are written here. The others plan with
the instance itself: they are baselines of the environment, which the server is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

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


def baselines() -> list[str]:
    """Returns the names of the environment's planners, without those that know the future."""
    with VecEnv("k8s/GangWindow-v0", 1) as envs:
        return [b["name"] for b in envs.vector.spec["baselines"] if not b["oracle"]]


def completion_times(act: Planner | str, episodes: int, seed: int, **options: object) -> np.ndarray:
    """Plays episodes side by side.

    Args:
        act: the planner, or a policy of the same form, or the name of a baseline.
        episodes: how many; episode i has the random seed seed+i.
        seed: see episodes.
        **options: of the environment.

    Returns:
        The jobs' completion times in seconds, of shape (episodes,).
    """
    with VecEnv("k8s/GangWindow-v0", episodes, seed=seed, **options) as envs:
        obs, step = envs.reset(), 0
        while True:
            obs, _, dones, infos = envs.step(policy=act) if isinstance(act, str) else envs.step(act(step, obs))
            step += 1
            if dones.all():  # all episodes are of one length
                return np.array([info["total_s"] for info in infos])
