"""Exceptions of the package.

Every error reply of a server becomes a `KubernasiumError` of the class for its code and reason. If
Gymnasium has an exception for the same mistake, the class also derives from that one, so that code
written for Gymnasium catches it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

try:
    from gymnasium import error as _gym
except ImportError:  # the protocol layer works without Gymnasium
    _NAMES = (
        "AlreadyPendingCallError",
        "ClosedEnvironmentError",
        "InvalidAction",
        "NoAsyncCallError",
        "ResetNeeded",
        "UnregisteredEnv",
        "UnsupportedMode",
    )
    _gym: Any = SimpleNamespace(**{name: type(name, (Exception,), {}) for name in _NAMES})


_ROW = re.compile(r"\benvironment (\d+)(?=:| before )")  # in a server's message


class KubernasiumError(Exception):
    """A request that failed.

    Attributes:
        code: name of the gRPC code, such as `"INVALID_ARGUMENT"`; "" if it comes from no server.
        reason: the finer reason of the protocol, such as `"INVALID_OPTION"`.
        eid: number of the vector that it is about, or None.
        row: index of the environment that it is about, or None.
        retry_after: seconds after which a new attempt may succeed, or None.
    """

    code = ""
    reason = ""
    eid: int | None = None
    row: int | None = None
    retry_after: float | None = None

    def __init__(self, message: str = "", reply: Mapping[str, Any] | None = None) -> None:
        # Not super(): some of Gymnasium's classes, which come next, take further arguments.
        Exception.__init__(self, message)
        if reply is not None:
            self.code = str(reply.get("code", ""))
            self.reason = str(reply.get("reason", ""))
            eid, millis = reply.get("eid"), reply.get("retry_after_ms")
            self.eid = eid if isinstance(eid, int) else None
            named = _ROW.search(message)
            self.row = int(named[1]) if named else None
            self.retry_after = max(0, millis) / 1000 if isinstance(millis, (int, float)) else None

    def counted_from(self, first: int) -> None:
        """Counts the environment that a server names from the first of a vector on several servers.

        Args:
            first: row of the server's first environment.
        """
        if self.row is not None and first:
            self.row += first
            message, *rest = self.args
            self.args = (_ROW.sub(f"environment {self.row}", message, count=1), *rest)

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.reason or self.code})" if self.code else message


class InvalidArgumentError(KubernasiumError, ValueError):
    """An invalid request: INVALID_ARGUMENT."""


class InvalidActionError(InvalidArgumentError, _gym.InvalidAction):
    """An action outside the action space; nothing was stepped."""


class InvalidOptionError(InvalidArgumentError):
    """An unknown option of an environment, or one out of range."""


class UnknownOptionError(InvalidOptionError, TypeError):
    """An option that the environment does not have.

    Options are keyword arguments of `gymnasium.make`, so the message resembles Python's for an
    unexpected one, and code that expects Python's TypeError catches it.

    Attributes:
        option: its name, if the server states it.
    """

    reason = "INVALID_OPTION"  # also where Gymnasium raises the error again with a longer message
    option = ""

    def __init__(self, message: str = "", reply: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, reply)
        if reply is not None:
            self.option = str(reply.get("option", ""))

    def of(self, subject: str) -> UnknownOptionError:
        """Returns the error of a keyword argument of subject."""
        hint = str(self.args[0]).rpartition("; ")[2]
        message = f"{subject} got an unexpected keyword argument {self.option!r}; {hint}"
        return UnknownOptionError(message, {"code": self.code, "reason": self.reason, "option": self.option})


class NotFoundError(KubernasiumError, LookupError):
    """The server does not have the named object: NOT_FOUND."""


class UnknownEnvError(NotFoundError, _gym.UnregisteredEnv):
    """No environment of that id at the server."""


class FailedPreconditionError(KubernasiumError):
    """A request at the wrong time: FAILED_PRECONDITION."""


class ResetNeededError(FailedPreconditionError, _gym.ResetNeeded):
    """`step` or `render` before `reset`, or after an episode's end without a reset."""


class UnknownBaselineError(NotFoundError):
    """The environment has no baseline of that name; the message lists its baselines."""


class BaselineError(FailedPreconditionError):
    """A baseline that cannot act with these options, or in this state."""


class UnknownSnapshotError(NotFoundError):
    """A snapshot of another vector, or a forgotten one."""


class NoCopiesError(FailedPreconditionError):
    """The environment cannot be copied, so it has no snapshots and no forks."""


class BusyError(KubernasiumError):
    """A limit of the server is reached: RESOURCE_EXHAUSTED. See `retry_after`."""


class DeadlineExceededError(KubernasiumError, TimeoutError):
    """The server's deadline passed: DEADLINE_EXCEEDED."""


class UnimplementedError(KubernasiumError, NotImplementedError):
    """The server cannot do this: UNIMPLEMENTED."""


class UnsupportedRenderError(UnimplementedError, _gym.UnsupportedMode):
    """The environment lacks that render mode."""


class ServerFaultError(KubernasiumError):
    """The environment or the server failed: INTERNAL.

    The message has the cause if the server is on this machine, and otherwise the `error_id` of
    the line in the server's log that has it.
    """


class UnavailableError(KubernasiumError, ConnectionError):
    """The server is stopping: UNAVAILABLE, or CANCELLED although this client has not cancelled anything."""


class UnauthenticatedError(KubernasiumError, PermissionError):
    """The token is wrong or missing, or the server forbids the connection."""


class ConnectionLostError(KubernasiumError, ConnectionError):
    """The connection ended, or can no longer be used. `reset` of an environment reconnects."""


class ReplyTimeoutError(ConnectionLostError, TimeoutError):
    """No reply came within the client's timeout, so the connection was closed."""


class ForkedError(KubernasiumError, RuntimeError):
    """An environment of the parent process from which this one was forked."""


class NotCopiedError(KubernasiumError, TypeError):
    """`pickle` or `copy` of an environment, whose state is at the server."""


class ProtocolError(KubernasiumError):
    """The server violated the protocol."""


class ClosedError(KubernasiumError, _gym.ClosedEnvironmentError):
    """The environment is closed."""


class PendingStepError(KubernasiumError, _gym.AlreadyPendingCallError):
    """A call between `step_async` and `step_wait`, or while steps of `send` are not received."""

    name = "step"


class NoPendingStepError(KubernasiumError, _gym.NoAsyncCallError):
    """`step_wait` without `step_async`, or `recv` without `send`."""

    name = "step"


class ServerStartError(KubernasiumError, RuntimeError):
    """The bundled server is missing or did not start."""


_BY_CODE: dict[str, type[KubernasiumError]] = {
    "INVALID_ARGUMENT": InvalidArgumentError,
    "NOT_FOUND": NotFoundError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "RESOURCE_EXHAUSTED": BusyError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "UNIMPLEMENTED": UnimplementedError,
    "INTERNAL": ServerFaultError,
    "UNAVAILABLE": UnavailableError,
    "CANCELLED": UnavailableError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "PERMISSION_DENIED": UnauthenticatedError,
}
_BY_REASON: dict[str, type[KubernasiumError]] = {
    "INVALID_ACTION": InvalidActionError,
    "INVALID_OPTION": InvalidOptionError,
    "UNKNOWN_ENV": UnknownEnvError,
    "RESET_NEEDED": ResetNeededError,
    "UNKNOWN_BASELINE": UnknownBaselineError,
    "BASELINE": BaselineError,
    "UNKNOWN_SNAPSHOT": UnknownSnapshotError,
    "NO_COPIES": NoCopiesError,
    "PENDING": PendingStepError,
    "NOT_SENT": NoPendingStepError,
    "RENDER": UnsupportedRenderError,
}


def from_reply(reply: Mapping[str, Any]) -> KubernasiumError:
    """Returns the exception for an `err` of the server.

    Args:
        reply: the frame, a map with `code`, `reason` and `msg`.
    """
    code, reason = str(reply.get("code", "")), str(reply.get("reason", ""))
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code, KubernasiumError)
    if cls is InvalidOptionError and reply.get("option"):
        cls = UnknownOptionError
    return cls(str(reply.get("msg") or "the server refuses the request and gives no reason"), reply)
