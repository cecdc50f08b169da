"""Batches of the protocol as Gymnasium's vector environments return them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kubernasium.row import pick


class Batches:
    """Turns the batches of a vector into what `reset` and `step` return.

    Attributes:
        num_envs: n.
        mask_size: A, the length of a row of the action mask; 0 if there is none.
        mask: int8 of shape (n, A), the action masks at the last observations; None permits everything.
    """

    def __init__(self, num_envs: int, mask_size: int) -> None:
        self.num_envs, self.mask_size = num_envs, mask_size
        self.mask: np.ndarray | None = None
        # Copies of these are the user's to change, and take less time than new arrays.
        self._none, self._all = np.zeros(num_envs, np.bool_), np.ones(num_envs, np.bool_)
        self._permitted = np.ones((num_envs, mask_size), np.int8)

    def stepped(self, reply: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns observations, rewards, terminations, truncations and infos of a step."""
        terminations = reply.get("te")
        truncations = reply.get("tr")
        if terminations is None:
            terminations = self._none.copy()
        if truncations is None:
            truncations = self._none.copy()
        return reply["obs"], reply["r"], terminations, truncations, self.infos(reply, None)

    def received(self, reply: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns the same of some environments, whose numbers are `env_id` in the infos."""
        rows = reply["idx"]
        part = Batches(len(rows), self.mask_size)
        result = part.stepped(reply)
        result[4]["env_id"] = rows.astype(np.int64)
        if self.mask_size and (self.mask is not None or part.mask is not None):
            mask = np.ones((self.num_envs, self.mask_size), np.int8) if self.mask is None else self.mask.copy()
            mask[rows] = 1 if part.mask is None else part.mask
            self.mask = mask
        return result

    def infos(self, reply: dict[str, Any], chosen: np.ndarray | None) -> dict[str, Any]:
        """Returns infos as Gymnasium's vector environments give them.

        Args:
            reply: a batch, whose mask becomes the last one.
            chosen: the rows that have infos; None is all.
        """
        n = self.num_envs
        self.mask = reply.get("mask")
        infos = dict(reply.get("info", ()))
        if self.mask_size:
            infos["action_mask"] = (self._permitted if self.mask is None else self.mask).copy()
        for key in list(infos):
            if key[0] != "_" and "_" + key not in infos:
                infos["_" + key] = (self._all if chosen is None else chosen).copy()
        failed = reply.get("env_error")
        if failed is not None:
            infos["env_error"], infos["_env_error"] = np.full(n, None, dtype=object), np.zeros(n, np.bool_)
            infos["env_error"][failed["idx"]], infos["_env_error"][failed["idx"]] = failed["msg"], True
        invalid = reply.get("inv")
        final = reply.get("fin")
        if final is not None:
            invalid = self._add_final(infos, final, invalid)
        if invalid is not None:
            infos["invalid"], infos["_invalid"] = invalid, invalid.copy()
        return infos

    def _add_final(self, infos: dict[str, Any], final: dict[str, Any], invalid: np.ndarray | None) -> np.ndarray | None:
        """Adds `final_obs` and `final_info`, whose rows the server sends for ended episodes only.

        Returns:
            The rows of invalid in which no episode ended, or None if there are none. The others
            are about the last step of an episode, and so in `final_info`.
        """
        n, rows = self.num_envs, final["idx"]
        ended = np.zeros(n, np.bool_)
        ended[rows] = True
        observations = np.full(n, None, dtype=object)
        for k, row in enumerate(rows.tolist()):
            observations[row] = pick(final["obs"], k)
        final_info: dict[str, Any] = {}
        for key, column in final.get("info", {}).items():
            final_info[key] = np.zeros(n, column.dtype)
            final_info[key][rows] = column
            final_info["_" + key] = ended.copy()
        if self.mask_size:
            last = final_info["action_mask"] = np.zeros((n, self.mask_size), np.int8)
            last[rows] = final.get("mask", 1)
            final_info["_action_mask"] = ended.copy()
        if invalid is not None:
            last_invalid = invalid & ended
            if last_invalid.any():
                final_info["invalid"], final_info["_invalid"] = last_invalid, last_invalid.copy()
            invalid = invalid & ~ended if (invalid & ~ended).any() else None
        infos["final_obs"], infos["_final_obs"] = observations, ended
        infos["final_info"], infos["_final_info"] = final_info, ended.copy()
        return invalid
