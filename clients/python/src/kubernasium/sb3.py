"""Many environments at a server as a Stable-Baselines3 `VecEnv`.

from stable_baselines3 import PPO
from kubernasium.sb3 import VecEnv

model = PPO("MlpPolicy", VecEnv("k8s/GangWindow-v0", num_envs=16)).learn(100_000)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common import vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from kubernasium.protocol.connection import DEFAULT_TIMEOUT
from kubernasium.protocol.resume import DEFAULT_RECONNECT
from kubernasium.session import AtServer, Session
from kubernasium.spaces import from_description


class VecEnv(AtServer, vec_env.VecEnv):
    """n environments at a server, stepped together by one request.

    Episodes restart within the step that ends them. The info of such a step holds
    `terminal_observation`, `TimeLimit.truncated`, and, as if SB3's Monitor were around each
    environment, `episode` with its return `r`, length `l` and time `t`. Action masks are
    those of the last reply: `env_method("action_masks")` sends nothing.

    Attributes:
        vector: the vector in terms of the protocol.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        url: str | Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        reconnect: float = DEFAULT_RECONNECT,
        max_episode_steps: int | None = None,
        threads: int | None = None,
        env_error: bool = False,
        obs_keys: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        """Makes the environments.

        Args:
            env_id: their id at the server.
            num_envs: n.
            seed: of the first reset; environment i gets seed+i.
            render_mode: `"ansi"`, `"rgb_array"` or None.
            url: where the server is; by default KUBERNASIUM_URL or the bundled server. The environments are spread
                over several URLs, or the servers behind `k8s+dns://name:port`, with the results of one server.
            weights: relative speeds of several servers; None measures them.
            timeout: seconds to wait for each reply, or None to wait without end.
            reconnect: seconds for which to reconnect after a lost connection, without losing state; 0: never.
            max_episode_steps: time limit in place of the environment's.
            threads: for the server to step with; it changes no result.
            env_error: whether a failure of an environment truncates its episode instead of raising an exception. Its
            message
                is in the row's info as `env_error`, and a new environment replaces the failed one.
            obs_keys: the parts of Dict observations to send; None: all.
            **options: the environment's options.
        """
        self._session = Session(
            url,
            timeout,
            env_id,
            num_envs,
            reconnect=reconnect,
            weights=weights,
            options=options,
            autoreset="SAME_STEP",
            max_episode_steps=max_episode_steps,
            threads=threads,
            env_error=env_error,
            obs_keys=obs_keys,
        )
        self.vector = self._session.open(render_mode)
        self.spec = gymnasium.registry.get(self.vector.env_id)
        self._attributes = {"render_mode": render_mode, "spec": self.spec}
        self._mask: np.ndarray | None = None
        self._start = time.monotonic()
        super().__init__(num_envs, from_description(self.vector.obs_space), from_description(self.vector.act_space))
        if seed is not None:
            self.seed(seed)

    def reset(self) -> VecEnvObs:
        """Starts an episode in each environment, with the seeds and options that were set.

        If the server or the connection was lost, the environments are made again first.
        """
        seeds = None if all(seed is None for seed in self._seeds) else self._seeds
        if all(options == self._options[0] for options in self._options):
            self.vector, reply = self._session.reset(self.vector, seed=seeds, options=self._options[0])
        else:
            if self.vector.connection.lost:
                self.vector = self._session.open()
            for i, options in enumerate(self._options):  # the last reply has the rows of all
                reply = self.vector.reset(seed=seeds, options=options, mask=np.arange(self.num_envs) == i)
        self._reset_seeds()
        self._reset_options()
        self._mask = reply.get("mask")
        self.reset_infos = self._split(reply.get("info"), self.num_envs)
        _add_failures(self.reset_infos, reply)
        return reply["obs"]

    def step(
        self, actions: np.ndarray | None = None, *, policy: str | None = None, seed: int | None = None
    ) -> VecEnvStepReturn:
        """Carries out actions, or lets a baseline step at the server, as `VectorEnv.step` does."""
        self.vector.step_async(actions, policy=policy, seed=seed)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Sends the actions, an array with one row for each environment."""
        self.vector.step_async(actions)

    def policy(self, name: str, *, seed: int | None = None) -> Any:
        """Returns the actions that a baseline takes in this state, as `VectorEnv.policy` does."""
        return self.vector.policy(name, seed=seed)

    def step_wait(self) -> VecEnvStepReturn:
        """Returns observations, rewards (float32), dones (bool), and a list of infos."""
        reply = self.vector.step_wait()
        n = self.num_envs
        terminated, truncated = reply.get("te"), reply.get("tr")
        final = reply.get("fin")
        infos = self._split(reply.get("info"), n)
        for info in infos:
            info["TimeLimit.truncated"] = False
        if final is None:
            dones = np.zeros(n, np.bool_)
        else:
            if terminated is None or truncated is None:
                dones = truncated if terminated is None else terminated
            else:
                dones = terminated | truncated
            self._add_final(infos, reply, terminated, truncated)
        if "inv" in reply:
            for i in np.flatnonzero(reply["inv"]):
                infos[i]["invalid"] = True
        _add_failures(infos, reply)
        self._mask = reply.get("mask")
        return reply["obs"], reply["r"].astype(np.float32), dones, infos

    def _add_final(
        self,
        infos: list[dict[str, Any]],
        reply: dict[str, Any],
        terminated: np.ndarray | None,
        truncated: np.ndarray | None,
    ) -> None:
        """Puts into infos what belongs to the episodes that ended in this step."""
        final, episodes = reply["fin"], reply["ep"]
        rows = final["idx"].tolist()
        seconds = round(time.monotonic() - self._start, 6)
        last = self._split(final.get("info"), len(rows))
        for k, i in enumerate(rows):
            # What reply.info says of this row belongs to the next episode.
            self.reset_infos[i] = {key: value for key, value in infos[i].items() if key != "TimeLimit.truncated"}
            infos[i] = last[k]
            infos[i]["terminal_observation"] = _pick(final["obs"], k)
            infos[i]["TimeLimit.truncated"] = bool(
                truncated is not None and truncated[i] and not (terminated is not None and terminated[i])
            )
        for k, i in enumerate(episodes["idx"].tolist()):
            infos[i]["episode"] = {"r": float(episodes["r"][k]), "l": int(episodes["l"][k]), "t": seconds}

    @staticmethod
    def _split(columns: dict[str, np.ndarray] | None, n: int) -> list[dict[str, Any]]:
        """Returns columns of n rows as n maps of Python's own scalars."""
        if not columns:
            return [{} for _ in range(n)]
        names = [name for name in columns if name[0] != "_"]
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        infos = [dict(zip(names, row, strict=True)) for row in rows]
        for name in names:
            if "_" + name in columns:
                for i in np.flatnonzero(~columns["_" + name]):
                    del infos[i][name]
        return infos

    def action_masks(self) -> np.ndarray:
        """Returns the action masks of the last observations, bool of shape (n, A)."""
        if self._mask is None:
            return np.ones((self.num_envs, self.vector.mask_size), np.bool_)
        return self._mask.astype(np.bool_)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of each environment: `action_masks` or `render`."""
        rows = list(self._get_indices(indices))
        if method_name == "action_masks" and self.vector.mask_size:
            masks = self.action_masks()
            return [masks[i] for i in rows]
        if method_name == "render":
            return [self._render(i) for i in rows]
        raise AttributeError(f"environments at a server have no method {method_name!r}")

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of each environment: `render_mode`, `spec`, a space or a method."""
        rows = list(self._get_indices(indices))
        if attr_name == "action_masks" and self.vector.mask_size:
            return [lambda i=i: self.action_masks()[i] for i in rows]
        if attr_name in ("observation_space", "action_space"):
            return [getattr(self, attr_name) for _ in rows]
        if attr_name not in self._attributes:
            raise AttributeError(f"environments at a server have no attribute {attr_name!r}")
        return [self._attributes[attr_name] for _ in rows]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Raises an error: the environments are at the server."""
        raise AttributeError(f"cannot set {attr_name!r} of environments at a server")

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Reports True for SB3's Monitor, whose `episode` infos these environments give."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Returns an image of each environment, if `render_mode` is `"rgb_array"`."""
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return [self._render(i) for i in range(self.num_envs)]

    def _render(self, i: int) -> Any:
        return None if self.render_mode is None else self.vector.render(i, self.render_mode)

    def close(self) -> None:
        """Closes the session at the server. Further calls do nothing."""
        self.vector.connection.close()


def _add_failures(infos: list[dict[str, Any]], reply: dict[str, Any]) -> None:
    """Puts into infos why environments failed."""
    failed = reply.get("env_error")
    if failed is not None:
        for i, message in zip(failed["idx"].tolist(), failed["msg"], strict=True):
            infos[i]["env_error"] = message


def _pick(batch: Any, k: int) -> Any:
    if isinstance(batch, dict):
        return {key: _pick(part, k) for key, part in batch.items()}
    return batch[k].copy()
