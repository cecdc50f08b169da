"""Writes recorded transitions for the native trainer's DQN to start with.

From a shell, of a Minari dataset (pip install minari):

    python -m kubernasium.save_transitions cartpole/expert-v0 recorded.safetensors --env classic/CartPole-v1
    trainer train --algo dqn --env classic/CartPole-v1 --transitions recorded.safetensors

From Python, of any episodes that look like Minari's:

    save("recorded.safetensors", dataset.iterate_episodes(), env="classic/CartPole-v1")
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from kubernasium.errors import KubernasiumError

FORMAT = 1  # of the files


class TransitionsError(KubernasiumError):
    """Episodes cannot be written; the message says why."""


def save(path: str | Path, episodes: Iterable[Any], *, env: str = "", policy: str = "") -> int:
    """Writes the transitions of episodes.

    Args:
        path: of the safetensors file.
        episodes: with the attributes of Minari's EpisodeData: `observations` of T + 1 rows, an
            array or a dict of arrays, whose parts are written side by side; `actions`, whole
            numbers, `rewards`, `terminations` and `truncations` of T rows each. An `infos` with
            "action_mask", of T + 1 rows, gives action masks.
        env: id of the environment; empty if it is not to be checked.
        policy: who acted.

    Returns:
        How many transitions there are.

    Raises:
        TransitionsError: there are none, or they are not of discrete actions.
    """
    columns: dict[str, list[np.ndarray]] = {}
    for k, episode in enumerate(episodes):
        steps = len(episode.actions)
        observations = _rows(episode.observations)
        actions = np.asarray(episode.actions)
        if actions.ndim != 1 or not np.issubdtype(actions.dtype, np.integer):
            raise TransitionsError(
                f"episode {k} has actions of shape {actions.shape} and type {actions.dtype}, want whole numbers"
            )
        if len(observations) != steps + 1:
            raise TransitionsError(
                f"episode {k} has {len(observations)} observations for {steps} actions, want one more"
            )
        parts = {
            "observations": observations[:-1],
            "next_observations": observations[1:],
            "actions": actions.astype(np.float32),
            "rewards": np.asarray(episode.rewards, np.float64),
            "terminations": np.asarray(episode.terminations, np.uint8),
            "truncations": np.asarray(episode.truncations, np.uint8),
        }
        mask = (getattr(episode, "infos", None) or {}).get("action_mask")
        if mask is not None:
            mask = np.asarray(mask, np.uint8)
            parts |= {"action_masks": mask[:-1], "next_action_masks": mask[1:]}
        if columns and set(parts) != set(columns):
            raise TransitionsError(f"episode {k} and those before it differ in having action masks")
        for name, rows in parts.items():
            columns.setdefault(name, []).append(rows)
    if not columns:
        raise TransitionsError("no episodes, want at least one")
    tensors = {name: np.ascontiguousarray(np.concatenate(rows)) for name, rows in columns.items()}
    meta = {"format": FORMAT, "env": env, "policy": policy}
    save_file(tensors, path, {"kubernasium_transitions": json.dumps(meta)})
    return len(tensors["actions"])


def _rows(observations: Any) -> np.ndarray:
    """Returns observations as rows of float32, the parts of a dict side by side in its order."""
    parts = observations.values() if isinstance(observations, dict) else [observations]
    arrays = [np.asarray(part, np.float32) for part in parts]
    return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)


def main() -> None:
    """Converts a Minari dataset."""
    parser = argparse.ArgumentParser(
        prog="python -m kubernasium.save_transitions",
        description="Writes the transitions of a Minari dataset for trainer train --transitions.",
    )
    parser.add_argument("dataset", help="id of a Minari dataset that is on this machine")
    parser.add_argument("file", help="safetensors file to write")
    parser.add_argument("--env", default="", help="id of our environment that it was recorded in")
    arguments = parser.parse_args()
    try:
        import minari

        dataset = minari.load_dataset(arguments.dataset)
        count = save(arguments.file, dataset.iterate_episodes(), env=arguments.env, policy=arguments.dataset)
    except ImportError:
        parser.exit(1, f"{parser.prog}: Minari is not installed: pip install 'minari[hdf5]'\n")
    except (TransitionsError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(f"{arguments.file}: {count} transitions")


if __name__ == "__main__":
    main()
