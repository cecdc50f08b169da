"""Writes recorded transitions for the native trainer's DQN to start with.

From a shell, of a Minari dataset (pip install minari):

    python -m kubernasium.save_transitions cartpole/expert-v0 recorded.safetensors --env classic/CartPole-v1
    trainer train --algo dqn --env classic/CartPole-v1 --transitions recorded.safetensors

From Python, of any episodes that look like Minari's:

    save("recorded.safetensors", dataset.iterate_episodes(), env="classic/CartPole-v1")

The trainer wants the parts of a Dict in the order of the environment's space. Minari's HDF5 files give them in that of
their names: name them by `keys`, as the command does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import numpy as safetensors

from kubernasium.errors import KubernasiumError

FORMAT = 1  # of the files


class TransitionsError(KubernasiumError):
    """Episodes cannot be written; the message says why."""


def save(
    path: str | Path,
    episodes: Iterable[Any],
    *,
    env: str = "",
    policy: str = "",
    keys: Sequence[str] | None = None,
) -> int:
    """Writes the transitions of episodes.

    Args:
        path: of the safetensors file.
        episodes: with the attributes of Minari's EpisodeData: `observations` of T + 1 rows, an
            array or a dict of arrays, whose parts are written side by side; `actions`, whole
            numbers, `rewards`, `terminations` and `truncations` of T rows each. An `infos` with
            "action_mask", of T + 1 rows, gives action masks.
        env: id of the environment; empty if it is not to be checked.
        policy: who acted.
        keys: the order of the parts of observations that are dicts; None is that of each dict.

    Returns:
        How many transitions there are.

    Raises:
        TransitionsError: there are none, or they are not of discrete actions.
        OSError: the file cannot be written.
    """
    columns: dict[str, list[np.ndarray]] = {}
    for k, episode in enumerate(episodes):
        steps = len(episode.actions)
        observations = _rows(episode.observations, keys)
        actions = np.asarray(episode.actions)
        if actions.ndim != 1 or not np.issubdtype(actions.dtype, np.integer):
            raise TransitionsError(
                f"episode {k} has actions of shape {actions.shape} and type {actions.dtype}, want"
                " a whole number for each of its steps, of a Discrete space"
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
    # Not save_file: it makes files that only their owner may read, and its errors are no OSError.
    Path(path).write_bytes(safetensors.save(tensors, {"kubernasium_transitions": json.dumps(meta)}))
    return len(tensors["actions"])


def _rows(observations: Any, keys: Sequence[str] | None) -> np.ndarray:
    """Returns observations as rows of float32, the parts of a dict side by side in the order of keys, or its own."""
    if not isinstance(observations, dict):
        parts = [observations]
    elif keys is None or set(keys) == set(observations):
        parts = [observations[key] for key in keys or observations]
    else:
        raise TransitionsError(f"observations have the parts {list(observations)}, want {list(keys)}")
    arrays = [np.asarray(part, np.float32) for part in parts]
    return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)


def space_keys(dataset: Any) -> list[str] | None:
    """Returns the parts of a Minari dataset's observations in the order of its environment's space; None of arrays.

    The space in the dataset itself has lost that order.

    Raises:
        TransitionsError: the dataset does not name the environment.
    """
    if not hasattr(dataset.observation_space, "spaces"):
        return None
    if dataset.spec.env_spec is None:
        raise TransitionsError("the dataset names no environment, whose space has the order of an observation's parts")
    with dataset.recover_environment() as env:
        return list(env.observation_space.spaces)


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
        more = {"env": arguments.env, "policy": arguments.dataset, "keys": space_keys(dataset)}
        count = save(arguments.file, dataset.iterate_episodes(), **more)
    except ImportError:
        parser.exit(1, f"{parser.prog}: Minari is not installed: pip install 'minari[hdf5]'\n")
    except (KubernasiumError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(f"{arguments.file}: {count} transitions")


if __name__ == "__main__":
    main()
