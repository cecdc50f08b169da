"""A server that violates the protocol: the client says how, and gives no wrong data to its user."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubernasium
from kubernasium import aio, errors
from kubernasium.launcher import Server
from kubernasium.protocol.codec import decode, encode

CARTPOLE, GANG, GPU = "classic/CartPole-v1", "k8s/GangWindow-v0", "k8s/GPUPodScheduling-v2"
Lie = Callable[[dict[str, Any]], None]


@contextlib.contextmanager
def liar(server: Server, folder: Path, kind: str, lie: Lie) -> Iterator[str]:
    """Passes frames on from and to a server, and changes its replies of a type.

    Yields:
        The URL of the liar.
    """
    path = folder / "liar"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def receive(sock: socket.socket) -> dict[str, Any]:
        head = sock.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            raise EOFError
        return decode(sock.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))

    def send(sock: socket.socket, message: dict[str, Any]) -> None:
        frame = encode(message)
        sock.sendall(struct.pack("<I", len(frame)) + frame)

    def serve() -> None:
        with contextlib.suppress(OSError, EOFError):
            theirs, _ = listener.accept()
            with theirs, socket.socket(socket.AF_UNIX) as ours:
                ours.connect(server.url.removeprefix("unix:"))
                while True:
                    request = receive(theirs)
                    if request["t"] == "hello":
                        request["caps"] = []
                    send(ours, request)
                    reply = receive(ours)
                    if reply["t"] == kind:
                        lie(reply)
                    send(theirs, reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"unix:{path}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def put(*path: Any) -> Lie:
    """Returns a lie that puts the last of path where the others lead, or removes what is there if that is None."""
    *parents, key, value = path

    def lie(reply: dict[str, Any]) -> None:
        part = reply
        for parent in parents:
            part = part.setdefault(parent, {})
        if value is None:
            part.pop(key, None)
        else:
            part[key] = value

    return lie


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def over(ended: dict[str, Any]) -> Lie:
    """Returns a lie that says that the second row has ended, and what `ep` says of it."""

    def lie(reply: dict[str, Any]) -> None:
        reply |= {"te": np.array([False, True]), "ep": ended}

    return lie


F32, F64, I64 = np.float32, np.float64, np.int64
LIES: dict[str, tuple[str, str, Lie, str]] = {
    "version": (CARTPOLE, "welcome", put("ver", [2, 0]), "the version"),
    "caps": (CARTPOLE, "welcome", put("caps", 5), "the caps"),
    "limits": (CARTPOLE, "welcome", put("limits", "idle_ms", "long"), "the limits"),
    "no eid": (CARTPOLE, "make.ok", put("eid", None), "eid None"),
    "environments": (CARTPOLE, "make.ok", put("n", 3), "3 environments, want 2"),
    "mode": (CARTPOLE, "make.ok", put("autoreset", "DISABLED"), "autoreset"),
    "no space": (CARTPOLE, "make.ok", put("obs_space", None), "obs_space is None"),
    "kind": (CARTPOLE, "make.ok", put("act_space", "kind", "sphere"), "unknown kind 'sphere'"),
    "dtype": (CARTPOLE, "make.ok", put("obs_space", "dtype", "object"), "has dtype 'object'"),
    "bounds": (CARTPOLE, "make.ok", put("obs_space", "low", [0.0, 1.0]), "2 numbers as low"),
    "nan": (CARTPOLE, "make.ok", put("obs_space", "low", [float("nan")]), "low"),
    "no values": (CARTPOLE, "make.ok", put("act_space", "n", []), "n \\[\\]"),
    "mask size": (CARTPOLE, "make.ok", put("mask", 3), "masks of 3"),
    "no spec": (CARTPOLE, "make.ok", put("spec", None), "the spec None"),
    "type": (CARTPOLE, "step.ok", put("t", "reset.ok"), "the reply to step is of type 'reset.ok'"),
    "type of a reset": (CARTPOLE, "reset.ok", put("t", "step.ok"), "the reply to reset is of type 'step.ok'"),
    "id": (CARTPOLE, "step.ok", put("id", "x"), "id 'x'"),
    "first rows": (CARTPOLE, "reset.ok", put("obs", np.zeros((3, 4), F32)), r"\(3, 4\)"),
    "rows": (CARTPOLE, "step.ok", put("obs", np.zeros((3, 4), F32)), r"obs has the shape \(3, 4\).*want \(2, 4\)"),
    "width": (CARTPOLE, "step.ok", put("obs", np.zeros((2, 5), F32)), r"\(2, 5\)"),
    "doubles": (CARTPOLE, "step.ok", put("obs", np.zeros((2, 4), F64)), "float64, want .* float32"),
    "text": (CARTPOLE, "step.ok", put("obs", "x"), "obs is str"),
    "no observations": (CARTPOLE, "step.ok", put("obs", None), "obs is absent"),
    "no rewards": (CARTPOLE, "step.ok", put("r", None), "r is absent"),
    "rewards": (CARTPOLE, "step.ok", put("r", np.zeros(3)), r"r has the shape \(3,\)"),
    "flags": (CARTPOLE, "step.ok", put("te", np.ones(2, I64)), "te has .* int64"),
    "one flag": (CARTPOLE, "step.ok", put("tr", True), "tr is bool"),
    "masks": (CARTPOLE, "step.ok", put("mask", np.ones((2, 3), np.int8)), "mask has"),
    "part": (GPU, "step.ok", put("obs", "pod", None), "obs.pod is absent"),
    "infos": (GANG, "step.ok", put("info", None), "info is absent"),
    "column": (GANG, "step.ok", put("info", "new", np.zeros(3)), "info.new has"),
    "end of no episode": (CARTPOLE, "step.ok", put("tr", np.array([True, False])), "only one of ep and"),
    "ended": (CARTPOLE, "step.ok", over({"idx": rows(7), "r": np.zeros(1), "l": np.zeros(1, I64)}), r"ep .*\[7\]"),
    "descending": (
        CARTPOLE,
        "step.ok",
        over({"idx": rows(1, 0), "r": np.zeros(2), "l": np.zeros(2, I64)}),
        r"ep .*\[1, 0\]",
    ),
    "final": (
        CARTPOLE,
        "step.ok",
        put("fin", {"idx": rows(1), "obs": np.zeros((1, 4), F32)}),
        "fin in a mode other than SAME_STEP",
    ),
    "failures": (CARTPOLE, "step.ok", put("env_error", {"idx": rows(0), "msg": []}), "env_error"),
    "snapshot": (CARTPOLE, "snapshot.ok", put("snap", "x"), "snap 'x'"),
    "state of a snapshot": (CARTPOLE, "restore.ok", put("run", None), "run is absent"),
    "baseline": (CARTPOLE, "policy.ok", put("a", np.zeros(3, I64)), r"a has the shape \(3,\)"),
    "episodes": (CARTPOLE, "rollout.ok", put("eps", "idx", rows(9)), "eps"),
    "transitions": (CARTPOLE, "rollout.ok", put("traj", "obs", np.zeros((5, 4), F32)), "traj.obs"),
    "image": (CARTPOLE, "render.ok", put("frame", np.zeros((4, 4), np.uint8)), "a rendered frame"),
}


BOTH = ("welcome", "make.ok", "reset.ok", "step.ok")  # what the asyncio client receives, too


def use(envs: kubernasium.VectorEnv) -> None:
    """Calls everything."""
    envs.reset(seed=0)
    for _ in range(2):
        envs.step(np.zeros(envs.num_envs, np.int64))
    envs.policy("random")
    envs.rollout("random", steps=3, transitions=True)
    envs.restore(envs.snapshot())
    envs.render()


@pytest.mark.parametrize("name", LIES)
def test_lies_are_errors(server: Server, tmp_path: Path, name: str) -> None:
    env_id, kind, lie, match = LIES[name]
    mode = "rgb_array" if env_id == CARTPOLE else "ansi"
    with (
        liar(server, tmp_path, kind, lie) as url,
        pytest.raises(errors.ProtocolError, match=match),
        kubernasium.VectorEnv(env_id, 2, url=url, timeout=20, reconnect=0, render_mode=mode) as envs,
    ):
        use(envs)


@pytest.mark.parametrize("name", [name for name, lie in LIES.items() if lie[1] in BOTH])
def test_lies_are_errors_of_asyncio(server: Server, tmp_path: Path, name: str) -> None:
    env_id, kind, lie, match = LIES[name]

    async def play(url: str) -> None:
        async with aio.make(env_id, 2, url=url, timeout=20) as envs:
            await envs.reset(seed=0)
            for _ in range(2):
                await envs.step(np.zeros(2, np.int64))

    with liar(server, tmp_path, kind, lie) as url, pytest.raises(errors.ProtocolError, match=match):
        asyncio.run(play(url))


def test_wrong_numbers_of_later_replies(server: Server, tmp_path: Path) -> None:
    """Replies of one layout differ in numbers of rows, which are checked in each of them."""
    steps = 0

    def lie(reply: dict[str, Any]) -> None:
        nonlocal steps
        steps += 1
        put("fin", {"idx": rows(-1 if steps > 2 else 1), "obs": np.zeros((1, 4), F32)})(reply)
        over({"idx": rows(1), "r": np.zeros(1), "l": np.zeros(1, I64)})(reply)

    with (
        liar(server, tmp_path, "step.ok", lie) as url,
        kubernasium.VectorEnv(CARTPOLE, 2, url=url, timeout=20, reconnect=0, autoreset_mode="SameStep") as envs,
    ):
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.zeros(2, np.int64))
        with pytest.raises(errors.ProtocolError, match=r"fin .*\[-1\]"):
            envs.step(np.zeros(2, np.int64))


def test_odd_refusals(server: Server, tmp_path: Path) -> None:
    """The fields of an error may be of wrong types, or missing."""

    def lie(reply: dict[str, Any]) -> None:
        rid = reply["id"]
        reply.clear()
        reply |= {"t": "err", "id": rid, "code": 5, "reason": [1], "eid": "x", "retry_after_ms": "soon"}

    with liar(server, tmp_path, "reset.ok", lie) as url, kubernasium.Env(CARTPOLE, url=url, reconnect=0) as env:
        with pytest.raises(errors.KubernasiumError, match="gives no reason") as caught:
            env.reset(seed=0)
        assert (caught.value.eid, caught.value.retry_after) == (None, None)
