"""Records what Gymnasium's own vector environments return, for test_vector.py.

Run in this folder, with gymnasium==1.4.0, to rewrite vector_traces.npz:

    python record.py

Each trace is one SyncVectorEnv of CartPole-v1 played with recorded random actions: `reset`
with a seed, then steps, now and then another `reset`. In the mode Disabled the environments
that ended are reset with `reset_mask`. The file holds arrays only (no pickles), named
`<trace>/<array>`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

NUM_ENVS = 5
STEPS = 300

# name: mode, time limit, seed of the first reset, options of the first reset
TRACES: dict[str, tuple[AutoresetMode, int | None, int | list[int], dict[str, Any]]] = {
    "next_step": (AutoresetMode.NEXT_STEP, None, 42, {}),
    "next_step_truncated": (AutoresetMode.NEXT_STEP, 15, 7, {}),
    "same_step": (AutoresetMode.SAME_STEP, None, 42, {}),
    "same_step_truncated": (AutoresetMode.SAME_STEP, 15, [3, 1, 4, 1, 5], {}),
    "disabled": (AutoresetMode.DISABLED, None, 42, {}),
    "disabled_options": (AutoresetMode.DISABLED, 15, 11, {"low": -0.2, "high": 0.15}),
}
RESET_AT = {100: 123, 200: None}  # step: seed of a reset of all environments before it


def play(mode: AutoresetMode, limit: int | None, seed: Any, options: dict[str, Any]) -> dict[str, np.ndarray]:
    """Plays one trace.

    Returns:
        Arrays over T steps of N environments: `actions` (T, N), `obs` (T+1, N, 4) of which
        the first is the reset's, `rewards`, `terminations`, `truncations` (T, N), the masks
        `reset_mask` (T, N) of resets before a step, the observations `reset_obs` (T, N, 4)
        they returned, and in the mode SameStep `final_obs` (T, N, 4) with `has_final` (T, N).
    """
    kwargs = {} if limit is None else {"max_episode_steps": limit}
    envs = gym.make_vec(
        "CartPole-v1", NUM_ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **kwargs
    )
    rng = np.random.default_rng(1)
    obs, _ = envs.reset(seed=seed, options=dict(options))
    out: dict[str, np.ndarray] = {
        "actions": rng.integers(0, 2, (STEPS, NUM_ENVS)),
        "obs": np.zeros((STEPS + 1, NUM_ENVS, 4), np.float32),
        "rewards": np.zeros((STEPS, NUM_ENVS)),
        "terminations": np.zeros((STEPS, NUM_ENVS), bool),
        "truncations": np.zeros((STEPS, NUM_ENVS), bool),
        "reset_mask": np.zeros((STEPS, NUM_ENVS), bool),
        "reset_obs": np.zeros((STEPS, NUM_ENVS, 4), np.float32),
        "final_obs": np.zeros((STEPS, NUM_ENVS, 4), np.float32),
        "has_final": np.zeros((STEPS, NUM_ENVS), bool),
    }
    out["obs"][0] = obs
    done = np.zeros(NUM_ENVS, bool)
    for t in range(STEPS):
        if t in RESET_AT:
            out["reset_mask"][t] = True
            out["reset_obs"][t], _ = envs.reset(seed=RESET_AT[t])
        elif mode is AutoresetMode.DISABLED and done.any():
            out["reset_mask"][t] = done
            out["reset_obs"][t], _ = envs.reset(options={"reset_mask": done.copy()})
        step = envs.step(out["actions"][t])
        out["obs"][t + 1], out["rewards"][t], out["terminations"][t], out["truncations"][t], infos = step
        done = step[2] | step[3]
        if "final_obs" in infos:
            out["has_final"][t] = infos["_final_obs"]
            for i in np.flatnonzero(infos["_final_obs"]):
                out["final_obs"][t, i] = infos["final_obs"][i]
    envs.close()
    return out


def main() -> None:
    """Writes vector_traces.npz."""
    arrays = {f"{name}/{key}": array for name, trace in TRACES.items() for key, array in play(*trace).items()}
    np.savez_compressed("vector_traces.npz", **arrays)
    ended = {name: int((arrays[f"{name}/terminations"] | arrays[f"{name}/truncations"]).sum()) for name in TRACES}
    print(f"gymnasium {gym.__version__}: episodes ended in each trace: {ended}")


if __name__ == "__main__":
    main()
