"""What a server does with a vector beyond steps: baselines, rollouts, snapshots and copies."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernasium.protocol.checks import Batches
    from kubernasium.protocol.connection import Connection


class AtServer:
    """The part of a `Vector` that a server may lack (sections 6.10 to 6.13 of the protocol)."""

    connection: Connection
    eid: int
    num_envs: int
    _batches: Batches

    def policy(self, name: str, *, seed: int | None = None) -> Any:
        """Returns the actions that a baseline takes in this state. That changes nothing.

        Args:
            name: one of `spec["baselines"]`, or `"random"` for random permitted actions.
            seed: restarts the stream of random actions.

        A baseline may choose more than its actions say; `step(policy=name)` carries all of it out.

        Returns:
            A batch of n actions. Rows of episodes that have ended hold zeros.

        Raises:
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
            ResetNeededError: an environment was never reset.
            UnimplementedError: the server is too old.
        """
        return self._optional("baseline", "policy", name=name, seed=seed)["a"]

    def rollout(
        self,
        name: str,
        *,
        steps: int | None = None,
        episodes: int | None = None,
        arrays: bool = False,
        seed: int | None = None,
    ) -> dict[str, Any]:
        """Takes many steps by a baseline at the server, in one request.

        It equals repeated calls of `step(policy=name)`, bit for bit. The timeout of the
        connection holds for all of it.

        Args:
            name: one of `spec["baselines"]`, or `"random"`.
            steps: how many steps to take; or
            episodes: how many episodes are to end in each environment.
            arrays: whether to return all transitions.
            seed: restarts the stream of random actions.

        Returns:
            The fields of the last step's batch; `steps` taken; `cut`, True if a limit of the
            server, in DISABLED an episode's end, or a state in which the baseline cannot act
            made them fewer than asked for; `eps`, if episodes ended: `at`, `idx`, `r`, `l` of
            shape (e,), their last `info` and, with arrays, `obs`; `run`: `r` and `l` of shape
            (n,) of the episodes of the last step; with arrays `traj`: `obs`, `mask`, `a`, `r`,
            `te`, `tr`, `inv` and `none` of shape (steps, n, ...), as section 6.11 of the
            protocol says.

        Raises:
            UnknownBaselineError: there is no such baseline.
            BaselineError: it cannot act with these options, or in this state.
            ResetNeededError: an environment waits for a reset.
            BusyError: more than the server permits; nothing was stepped.
            UnimplementedError: the server is too old.
        """
        fields: dict[str, Any] = {"name": name, "steps": steps, "episodes": episodes, "seed": seed}
        reply = self._optional("rollout", arrays=arrays or None, **fields)
        if "traj" in reply:
            reply["traj"] = _by_step(reply["traj"], reply["steps"], self.num_envs)
        return reply

    def snapshot(self) -> int:
        """Has the server keep the state of all environments, random generators included.

        Returns:
            Its number, for `restore` and `forget`. It is kept until then or until the vector is
            closed.

        Raises:
            NoCopiesError: the environments cannot be copied.
            BusyError: more snapshots than the server permits.
            UnimplementedError: the server is too old.
        """
        return self._optional("snapshot")["snap"]

    def restore(self, snapshot: int) -> dict[str, Any]:
        """Returns all environments to the state of a snapshot, which is kept.

        From there equal actions lead to equal replies, bit for bit. Baselines start over.

        Returns:
            The fields of the last batch then, without `fin` and `ep`, and `run`: `r` and `l` of
            shape (n,), the return and the length of each episode so far.

        Raises:
            UnknownSnapshotError: it is of no use, or was forgotten.
        """
        return self._optional("snapshot", "restore", snap=snapshot)

    def forget(self, snapshot: int) -> None:
        """Frees a snapshot."""
        self._optional("snapshot", "forget", snap=snapshot)

    def fork(self, source: int, targets: Sequence[int]) -> dict[str, Any]:
        """Makes environments copies of another one, its random generator included.

        Args:
            source: which environment to copy.
            targets: which environments to replace. From then on equal actions lead to equal rows.

        Returns:
            What `restore` returns, of now.

        Raises:
            NoCopiesError: the environments cannot be copied.
            UnimplementedError: the server is too old.
        """
        rows = [operator.index(i) for i in targets]
        return self._optional("snapshot", "fork", to=rows, **{"from": operator.index(source)})

    def _optional(self, part: str, kind: str = "", /, **fields: Any) -> dict[str, Any]:
        """Makes a request, by default called as the part itself, of an optional part of the protocol."""
        self._idle()
        self.connection.need(part)
        reply = self.connection.request(kind or part, eid=self.eid, **fields)
        self.connection.checked(lambda reply: self._batches.check(reply, kind or part), reply)
        return reply

    def _idle(self) -> None:
        raise NotImplementedError  # of Vector


def _by_step(value: Any, steps: int, n: int) -> Any:
    """Returns arrays of steps·n rows with one axis for the steps and one for the environments."""
    if isinstance(value, Mapping):
        return {key: _by_step(part, steps, n) for key, part in value.items()}
    return value.reshape(steps, n, *value.shape[1:])
