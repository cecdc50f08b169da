"""One environment at a server as a `gymnasium.Env`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np

from kubernasium.protocol.connection import DEFAULT_TIMEOUT
from kubernasium.protocol.layout import Field, Layout
from kubernasium.protocol.resume import DEFAULT_RECONNECT
from kubernasium.row import pick
from kubernasium.session import NO_LIMIT, RENDER_FPS, AtServer, Session
from kubernasium.spaces import from_description

_CHARS = {"bool": "?", "int8": "b", "int64": "q", "float64": "d"}  # of module struct


class Env(AtServer, gymnasium.Env[Any, Any]):
    """An environment at a server.

    `gymnasium.make("k8s/GangWindow-v0")` makes one, with Gymnasium's wrappers around it. All
    keyword arguments that are not named below are options of the environment. The environment
    has its own session at the server, so several environments do not wait for each other.

    `info` holds the environment's diagnostics, `action_mask` (int8 of shape (A,), 1 for a
    permitted action) if the action space has masks, and `invalid: True` after a step whose
    action was masked out.

    Attributes:
        vector: the vector of one environment that this one is, in terms of the protocol.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": RENDER_FPS}

    def __init__(
        self,
        env_id: str,
        *,
        render_mode: str | None = None,
        url: str | Sequence[str] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        reconnect: float = DEFAULT_RECONNECT,
        max_episode_steps: int | None = None,
        env_error: bool = False,
        obs_keys: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        """Makes the environment.

        Args:
            env_id: its id at the server.
            render_mode: `"ansi"`, `"rgb_array"` or None.
            url: where the server is; by default KUBERNASIUM_URL or the bundled server. Of several one is selected; the
                others take over if it fails.
            timeout: seconds to wait for each reply, or None to wait without end.
            reconnect: seconds for which to reconnect after a lost connection, without losing state; 0: never.
            max_episode_steps: time limit in place of the environment's.
            env_error: whether a failure of the environment truncates its episode instead of raising an exception. The
                message is in the infos as `env_error`, and a new environment replaces the failed one.
            obs_keys: the parts of Dict observations to send; None: all.
            **options: the environment's options.

        Raises:
            InvalidOptionError: an option is unknown or out of range.
            UnknownEnvError: the server has no such environment.
        """
        self._session = Session(
            url,
            timeout,
            env_id,
            reconnect=reconnect,
            options=options,
            autoreset="DISABLED",
            max_episode_steps=max_episode_steps,
            env_error=env_error,
            obs_keys=obs_keys,
        )
        self.vector = self._session.open(render_mode)
        modes = list(self.vector.spec["render_modes"])
        self.metadata = {"render_modes": modes, "render_fps": RENDER_FPS}
        self.render_mode = render_mode
        self.observation_space = from_description(self.vector.obs_space)
        self.action_space = from_description(self.vector.act_space)
        self._ones = np.ones(self.vector.mask_size, np.int8)
        self._mask: np.ndarray = self._ones

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, at a new server or connection if the last one was lost.

        Args:
            seed: random seed of this and the following episodes; None continues the stream,
                or after a loss of the connection starts another one.
            options: the environment's reset options.

        Returns:
            The first observation, and its infos.
        """
        super().reset(seed=seed)
        self.vector, reply = self._session.reset(self.vector, seed=seed, options=options)
        return self._state(reply)

    def _state(self, reply: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns observation and infos of a reply to a reset or a restore."""
        columns = reply.get("info", {})
        info: dict[str, Any] = {
            name: column[0].item()
            for name, column in columns.items()
            if name[0] != "_" and ("_" + name not in columns or columns["_" + name][0])
        }
        if "env_error" in reply:
            info["env_error"] = reply["env_error"]["msg"][0]
        mask = reply.get("mask")
        self._set_mask(None if mask is None else mask[0], info)
        return pick(reply["obs"], 0), info

    def step(
        self, action: Any = None, *, policy: str | None = None, seed: int | None = None
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carries out action, or lets a baseline step at the server.

        Gymnasium's wrappers pass on actions only. Through them, `policy` is an argument of
        `env.unwrapped.step`.

        Args:
            action: an action; or
            policy: one of `vector.spec["baselines"]`, or `"random"`. It may do more than its action expresses.
            seed: restarts the stream of random actions.

        Returns:
            The observation, the reward, whether the episode terminated, whether it was
            truncated, and infos.

        Raises:
            InvalidActionError: action is outside the action space; nothing was stepped.
            ResetNeededError: no episode is running.
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
        """
        buf, layout = self.vector.step_one(action, policy=policy, seed=seed)
        row = layout.reader
        if row is None:
            row = layout.reader = _Row(layout)
        values = row.unpack(buf)
        info = dict(zip(row.names, values[row.first :], strict=True))
        for name, present in row.partial:
            if not present.view(buf)[0]:
                del info[name]
        if row.invalid and values[row.invalid]:
            info["invalid"] = True
        if row.failure is not None:
            info["env_error"] = row.failure
        if self.vector.mask_size:
            self._set_mask(row.mask.view(buf)[0] if row.mask is not None else None, info)
        obs = row.observation(buf)
        terminated = values[row.terminated] if row.terminated else False
        truncated = values[row.truncated] if row.truncated else False
        return obs, values[0], terminated, truncated, info

    def policy(self, name: str, *, seed: int | None = None) -> Any:
        """Returns a baseline's action in this state, without changing anything.

        Some baselines choose more than an action expresses; `step(policy=name)` carries out all of it.
        Through wrappers, both are `env.unwrapped`'s.

        Args:
            name: one of `vector.spec["baselines"]`, or `"random"`.
            seed: restarts the stream of random actions.

        Returns:
            An action.

        Raises:
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
            ResetNeededError: the environment was never reset.
        """
        return pick(self.vector.policy(name, seed=seed), 0)

    def snapshot(self) -> int:
        """Saves the state at the server, with its random generator.

        Returns:
            Its number, for `restore` and `forget`.

        Raises:
            NoCopiesError: the environment cannot be copied.
            BusyError: more snapshots than the server permits.
        """
        return self.vector.snapshot()

    def restore(self, snapshot: int) -> tuple[Any, dict[str, Any]]:
        """Returns the environment to the state of a snapshot, which is kept.

        From there equal actions lead to equal results, bit for bit. The state of wrappers
        around the environment, such as Gymnasium's TimeLimit, is not restored.

        Returns:
            The observation of that state, and its infos.

        Raises:
            UnknownSnapshotError: it was forgotten, or is of another environment.
        """
        return self._state(self.vector.restore(snapshot))

    def forget(self, snapshot: int) -> None:
        """Frees a snapshot."""
        self.vector.forget(snapshot)

    def action_masks(self) -> np.ndarray:
        """Returns the action mask of the last observation, bool of shape (A,).

        It came with that observation, so nothing is sent. This is the method that
        sb3-contrib's MaskablePPO calls.
        """
        return self._mask.astype(np.bool_)

    def render(self) -> Any:
        """Returns the current state as `render_mode` says: a str or uint8 of shape (h, w, 3)."""
        if self.render_mode is None:
            return None
        return self.vector.render(0, self.render_mode)

    def close(self) -> None:
        """Closes the session at the server. Further calls do nothing."""
        self.vector.connection.close()

    def _set_mask(self, mask: np.ndarray | None, info: dict[str, Any]) -> None:
        if self.vector.mask_size:
            info["action_mask"] = mask = self._ones.copy() if mask is None else mask
            self._mask = mask


class _Row:
    """The positions of the only environment's values in replies of one layout.

    Attributes:
        unpack: reads the reward, the flags that are there, and the info columns at once.
        terminated, truncated, invalid: indices of the flags in that, 0 for those that are not there.
        first: index of the first info column, whose names are in names.
        partial: names of columns that may lack a value, and where it says so.
        failure: why the environment failed in this step, or None. Replies of one layout share it.
    """

    def __init__(self, layout: Layout) -> None:
        message = layout.message
        self.mask: Field | None = message.get("mask")
        self.failure: str | None = message["env_error"]["msg"][0] if "env_error" in message else None
        columns = message.get("info", {})
        self.names = tuple(name for name in columns if name[0] != "_")
        self.partial = [(name, columns["_" + name]) for name in self.names if "_" + name in columns]
        flags = [key for key in ("te", "tr", "inv") if key in message]
        self.first = 1 + len(flags)
        self.terminated, self.truncated, self.invalid = (
            1 + flags.index(key) if key in flags else 0 for key in ("te", "tr", "inv")
        )
        fields = [message["r"], *(message[key] for key in flags), *(columns[name] for name in self.names)]
        self.unpack = _unpacker(fields)
        obs = message["obs"]
        self.observation = _dict_reader(obs) if isinstance(obs, dict) else _array_reader(obs)


def _unpacker(fields: list[Field]) -> Any:
    """Returns a function that reads the first element of each field from a buffer."""
    ascending = sorted(fields, key=lambda field: field.offset)
    fmt, pos = "<", 0
    for field in ascending:
        fmt += f"{field.offset - pos}x{_CHARS[field.dtype.name]}"
        pos = field.offset + field.dtype.itemsize
    unpack = struct.Struct(fmt).unpack_from
    if ascending == fields:
        return unpack
    order = [ascending.index(field) for field in fields]
    return lambda buf: tuple(values[i] for values in (unpack(buf),) for i in order)


def _array_reader(field: Field) -> Any:
    shape, dtype, offset = field.shape[1:], field.dtype, field.offset
    if not shape:
        return lambda buf: field.view(buf)[0]
    return lambda buf: np.ndarray(shape, dtype, buf, offset)


def _dict_reader(parts: dict[str, Any]) -> Any:
    readers = {
        key: _dict_reader(part) if isinstance(part, dict) else _array_reader(part) for key, part in parts.items()
    }
    return lambda buf: {key: read(buf) for key, read in readers.items()}


class UnlimitedEnv(Env):
    """The class that `gymnasium.make` uses for an environment with a time limit.

    Gymnasium's TimeLimit wrapper truncates its episodes, so that the argument
    `max_episode_steps` of `make` works in either direction. Without the wrapper there is no
    limit, as with Gymnasium's own environments.
    """

    def __init__(self, env_id: str, **kwargs: Any) -> None:
        """Makes the environment; the arguments are those of `Env`."""
        kwargs.setdefault("max_episode_steps", NO_LIMIT)
        super().__init__(env_id, **kwargs)
