"""Many environments at a server as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium.vector
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from kubernasium.batch import Batches
from kubernasium.protocol.connection import DEFAULT_TIMEOUT
from kubernasium.protocol.resume import DEFAULT_RECONNECT
from kubernasium.rollout import Rollout
from kubernasium.row import Row, pick
from kubernasium.session import NO_LIMIT, RENDER_FPS, AtServer, Session
from kubernasium.spaces import from_description


class VectorEnv(AtServer, gymnasium.vector.VectorEnv[Any, Any, np.ndarray]):
    """n environments at a server, stepped together by one request.

    `gymnasium.make_vec("k8s/GangWindow-v0", num_envs=64)` makes one. All keyword arguments
    that are not named below are options of the environment.

    `infos` holds the environment's diagnostics, `action_mask` (int8 of shape (n, A), 1 for a
    permitted action) if the action space has masks, and `invalid` after a step in which an
    action was masked out, each with its mask `_<key>`; in the mode SAME_STEP also `final_obs`
    and `final_info`; with the argument `env_error` the messages of environments that failed.

    Attributes:
        vector: the vector in terms of the protocol.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        url: str | Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        reconnect: float = DEFAULT_RECONNECT,
        max_episode_steps: int | None = None,
        threads: int | None = None,
        env_error: bool = False,
        obs_keys: Sequence[str] | None = None,
        copy: bool = True,
        **options: Any,
    ) -> None:
        """Makes the environments.

        Args:
            env_id: their id at the server.
            num_envs: n.
            autoreset_mode: how the next episode of an environment starts.
            render_mode: `"ansi"`, `"rgb_array"` or None.
            url: where the server is; by default KUBERNASIUM_URL or the bundled server. The environments are spread
                over several URLs, or the servers behind `k8s+dns://name:port`, with the results of one server.
            weights: relative speeds of several servers; None measures them.
            timeout: seconds to wait for each reply, or None to wait without end.
            reconnect: seconds for which to reconnect after a lost connection, without losing state; 0: never.
            max_episode_steps: time limit in place of the environment's; -1 is none.
            threads: for the server to step with; it changes no result.
            env_error: whether a failure of an environment truncates its episode instead of raising an exception. Its
            message
                is in the infos as `env_error`, and a new environment replaces the failed one.
            obs_keys: the parts of Dict observations to send; None: all.
            copy: whether `reset`, `step` and `recv` return observations in arrays of their own. Without it they may
                return the memory that the server writes to, as Gymnasium's vectors do: copy what you keep beyond the
                second next call of them. All else that they return is yours.
            **options: the environment's options.

        Raises:
            InvalidOptionError: an option is unknown or out of range.
            UnknownEnvError: the server has no such environment.
        """
        mode = AutoresetMode(autoreset_mode)
        self._session = Session(
            url,
            timeout,
            env_id,
            num_envs,
            reconnect=reconnect,
            weights=weights,
            options=options,
            autoreset=mode.name,
            max_episode_steps=NO_LIMIT if max_episode_steps == -1 else max_episode_steps,
            threads=threads,
            env_error=env_error,
            obs_keys=obs_keys,
            copy=copy,
        )
        self.vector = self._session.open(render_mode)
        modes = list(self.vector.spec["render_modes"])
        self.num_envs = num_envs
        self.autoreset_mode = mode
        self.metadata = {"render_modes": modes, "render_fps": RENDER_FPS, "autoreset_mode": mode}
        self.render_mode = render_mode
        self.single_observation_space = from_description(self.vector.obs_space)
        self.single_action_space = from_description(self.vector.act_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batches = Batches(num_envs, self.vector.mask_size)
        self._rows = [Row(self, i) for i in range(num_envs)]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in each environment, at a new server or connection if the last one was lost.

        Args:
            seed: s gives environment i the random seed s+i; a sequence gives each its own;
                None continues the streams, or after a lost connection starts new ones.
            options: the environment's reset options, and `reset_mask`, a bool array of shape
                (n,) that says which environments to reset.

        Returns:
            The observations of all n environments, and infos of those that were reset.
        """
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        elif seed is not None and len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments")
        options = dict(options or {})
        chosen = options.pop("reset_mask", None)
        if chosen is not None:
            _check_reset_mask(chosen, self.num_envs)
        self.vector, reply = self._session.reset(self.vector, seed=seed, options=options, mask=chosen)
        return reply["obs"], self._batches.infos(reply, chosen)

    def step(
        self, actions: Any = None, *, policy: str | None = None, seed: int | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Carries out row i of actions in environment i, or lets a baseline step at the server.

        Gymnasium's wrappers pass on actions only. Through them, `policy` is an argument of
        `envs.unwrapped.step`.

        Args:
            actions: a batch of the action space; or
            policy: one of `vector.spec["baselines"]`, or `"random"`. It may do more than its actions express.
            seed: restarts the stream of random actions.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool), all with n
            rows, and infos.

        Raises:
            InvalidActionError: an action is outside its space; nothing was stepped.
            ResetNeededError: an episode has ended and the mode is DISABLED, or none was begun.
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
        """
        self.step_async(actions, policy=policy, seed=seed)
        return self.step_wait()

    def step_async(self, actions: Any = None, *, policy: str | None = None, seed: int | None = None) -> None:
        """Sends the request of `step` and returns at once; `step_wait` returns what `step` would."""
        self.vector.step_async(actions, policy=policy, seed=seed)

    def policy(self, name: str, *, seed: int | None = None) -> Any:
        """Returns a baseline's actions in this state, without changing anything.

        Some baselines choose more than an action expresses; `step(policy=name)` carries out all of it.

        Args:
            name: one of `vector.spec["baselines"]`, or `"random"`.
            seed: restarts the stream of random actions.

        Returns:
            A batch of the action space. Rows of episodes that have ended hold zeros.

        Raises:
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
        """
        return self.vector.policy(name, seed=seed)

    def step_wait(self, timeout: float | None = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns the results of the last `step_async`.

        Args:
            timeout: seconds after which to raise TimeoutError; the step still runs then, and
                `step_wait` can be called again.
        """
        return self._batches.stepped(self.vector.step_wait(timeout))

    def send(self, actions: Any, env_ids: Sequence[int] | np.ndarray | None = None) -> None:
        """Starts a step in some environments, and returns at once; `recv` returns the results.

        Slow environments then do not delay others. Each environment takes the same steps as with `step`. Until all
        results are received, calls other than `send` and `recv` raise PendingStepError.

        Args:
            actions: a batch of k actions; row j is for environment env_ids[j].
            env_ids: k different environments, such as `infos["env_id"]` of the last `recv`; None is all.

        Raises:
            InvalidActionError: an action is outside its space; no step was begun.
            PendingStepError: the last step of one of them was not received; no step was begun.
            ResetNeededError: no episode is running.
            UnimplementedError: the server is too old.
        """
        self.vector.send(actions, env_ids)

    def recv(
        self, k: int = 1, *, most: int | None = None, timeout: float | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Waits for k of the steps that `send` began, and returns those that ended first.

        Args:
            k: how many to wait for; if fewer are pending, all of them.
            most: how many to return at most if more have ended; by default k.
            timeout: seconds after which to return the steps that have ended, of which there may be none.

        Returns:
            What `step` returns, with a row for each of the steps; `infos["env_id"]` has their environments, in
            ascending order.

        Raises:
            NoPendingStepError: no step is pending.
            ServerFaultError: an environment failed, and `env_error` is off; reset all.
            UnimplementedError: the server is too old.
        """
        return self._batches.received(self.vector.recv(k, k if most is None else most, timeout=timeout))

    def rollout(
        self,
        name: str,
        *,
        steps: int | None = None,
        episodes: int | None = None,
        transitions: bool = False,
        seed: int | None = None,
    ) -> Rollout:
        """Takes many steps by a baseline at the server, in one request.

        It equals repeated calls of `step(policy=name)`, bit for bit. Wrappers around the
        environments do not see the steps.

        Args:
            name: one of `vector.spec["baselines"]`, or `"random"`.
            steps: how many steps to take; or
            episodes: how many episodes are to end in each environment.
            transitions: whether to return all of them.
            seed: restarts the stream of random actions.

        Raises:
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
            ResetNeededError: an environment waits for a reset.
            BusyError: more than the server permits; nothing was stepped.
        """
        reply = self.vector.rollout(name, steps=steps, episodes=episodes, arrays=transitions, seed=seed)
        ended = reply.get("eps", {})
        return Rollout(
            steps=reply["steps"],
            cut=reply.get("cut", False),
            rows=ended.get("idx", np.zeros(0, np.int32)),
            ends=ended.get("at", np.zeros(0, np.int32)),
            returns=ended.get("r", np.zeros(0)),
            lengths=ended.get("l", np.zeros(0, np.int64)),
            infos=ended.get("info", {}),
            last=self._batches.stepped(reply),
            transitions=self._transitions(reply) if transitions else None,
        )

    def snapshot(self) -> int:
        """Saves the state of all environments at the server, with their random generators.

        Returns:
            Its number, for `restore` and `forget`.

        Raises:
            NoCopiesError: the environments cannot be copied.
            BusyError: more snapshots than the server permits.
        """
        return self.vector.snapshot()

    def restore(self, snapshot: int) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns all environments to the state of a snapshot, which is kept.

        From there equal actions lead to equal results, bit for bit. The state of wrappers
        around the environments is not restored.

        Returns:
            What the last step before the snapshot returned, without `final_obs` and
            `final_info`.

        Raises:
            UnknownSnapshotError: it was forgotten, or is of other environments.
        """
        return self._batches.stepped(self.vector.restore(snapshot))

    def forget(self, snapshot: int) -> None:
        """Frees a snapshot."""
        self.vector.forget(snapshot)

    def fork(
        self, source: int, targets: Sequence[int]
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes the environments `targets` copies of the environment `source`.

        The random generator is copied too: equal actions lead to equal rows from then on.

        Returns:
            What the last step returned, without `final_obs` and `final_info`, with the rows of
            `targets` equal to that of `source`.

        Raises:
            NoCopiesError: the environments cannot be copied.
        """
        return self._batches.stepped(self.vector.fork(source, targets))

    def _transitions(self, reply: dict[str, Any]) -> dict[str, Any]:
        traj, final = reply["traj"], reply.get("eps", {}).get("obs")
        shape = (reply["steps"], self.num_envs)
        out = {"obs": traj["obs"], "actions": traj["a"], "rewards": traj["r"], "final_obs": final}
        flags = {"terminations": "te", "truncations": "tr", "invalid": "inv", "resets": "none"}
        out |= {name: traj[key] if key in traj else np.zeros(shape, np.bool_) for name, key in flags.items()}
        if masks := self._batches.mask_size:
            out["action_mask"] = traj["mask"] if "mask" in traj else np.ones((*shape, masks), np.int8)
        return out

    def action_masks(self) -> np.ndarray:
        """Returns the action masks of the last observations, bool of shape (n, A).

        They came with those observations, so nothing is sent.
        """
        mask = self._batches.mask
        return np.ones((self.num_envs, self._batches.mask_size), np.bool_) if mask is None else mask.astype(np.bool_)

    def render(self) -> tuple[Any, ...] | None:
        """Returns a frame of each environment as `render_mode` says, or None without one."""
        if self.render_mode is None:
            return None
        return tuple(self.vector.render(i, self.render_mode) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the session at the server."""
        self.vector.connection.close()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each environment, or gets an attribute, as Gymnasium's vectors do.

        Args:
            name: `action_masks`, `policy`, `render`, `render_mode`, `spec`, `metadata`,
                `observation_space`, `action_space`, or what `set_attr` set.
            *args: arguments of the method.
            **kwargs: its keyword arguments.

        Returns:
            A result for each environment.

        Raises:
            AttributeError: environments at a server have no attribute of that name.
        """
        if name == "policy":  # one request for all
            actions = self.vector.policy(*args, **kwargs)
            return tuple(pick(actions, i) for i in range(self.num_envs))
        found = [getattr(row, name) for row in self._rows]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of each environment; see `call`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment, which `call` and `get_attr` return.

        Args:
            name: its name, which must not be an attribute of environments. Options are fixed by `make_vec`.
            values: a list or tuple with a value for each environment, or one value for all.

        Raises:
            ValueError: the list has another length than there are environments.
            AttributeError: the attribute is one of the environment's own.
        """
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"{len(values)} values of {name!r} for {self.num_envs} environments")
        if name in {option["name"] for option in self.vector.spec["options"]} or name == "policy" or hasattr(Row, name):
            raise AttributeError(f"{name!r} of environments at a server cannot be set; make other environments with it")
        for row, value in zip(self._rows, values, strict=True):
            setattr(row, name, value)


def make_vec(env_id: str, num_envs: int = 1, **kwargs: Any) -> VectorEnv:
    """Is `gymnasium.make_vec` for environments at a server, with a precise return type.

    The return type of Gymnasium's own function is `gymnasium.vector.VectorEnv`, in which type
    checkers and editors find no `policy`, `rollout`, `snapshot` or `fork`.

    Args:
        env_id: a registered id.
        num_envs: how many environments.
        **kwargs: arguments of `VectorEnv`, the environment's options among them.
    """
    envs = gymnasium.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point", **kwargs)
    if not isinstance(envs, VectorEnv):
        envs.close()
        raise TypeError(f"{env_id} is no environment of kubernasium: it makes a {type(envs).__name__}")
    return envs


def _check_reset_mask(mask: Any, n: int) -> None:
    """Rejects what Gymnasium's vector environments reject."""
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"options['reset_mask'] is a {type(mask).__name__}, want a NumPy array")
    if mask.shape != (n,):
        raise ValueError(f"options['reset_mask'] has shape {mask.shape}, want {(n,)}")
    if mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] has dtype {mask.dtype}, want bool")
    if not mask.any():
        raise ValueError("options['reset_mask'] selects no environment")
