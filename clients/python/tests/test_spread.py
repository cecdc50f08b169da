"""One vector on several servers: no bit changes, and fast servers get more of it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from chaos import CARTPOLE, GANG, TO_INHERIT, Digest, inheriting, play
from kubernasium import errors
from kubernasium.launcher import Server
from kubernasium.protocol.merge import merged
from kubernasium.protocol.speeds import apportioned
from kubernasium.protocol.spread import Spread
from kubernasium.sb3 import VecEnv
from kubernasium.vector import VectorEnv


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    """Four servers."""
    started = [Server(args=["--listen", "127.0.0.1:0"]) for _ in range(4)]
    yield started
    for server in started:
        server.stop()


def urls_of(servers: list[Server]) -> list[str]:
    """Returns URLs, every other one of a unix socket."""
    return [server.ws_url if k % 2 else server.url for k, server in enumerate(servers)]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize(("count", "n", "weights"), [(1, 7, None), (2, 7, [1, 1]), (4, 7, [1, 4, 2, 0]), (4, 2, None)])
def test_no_bit_changes(servers: list[Server], mode: str, count: int, n: int, weights: list[float] | None) -> None:
    """Trajectories on one, two and four servers are equal, with few environments, infos and masks."""
    for env_id, options in ((CARTPOLE, {"max_episode_steps": 15}), (GANG, {"steps": 15})):
        digests = []
        for url in (servers[0].url, urls_of(servers)[:count]):
            digest, rng = Digest(), np.random.default_rng(1)
            kwargs = {"weights": weights} if isinstance(url, list) else {}
            with VectorEnv(env_id, n, url=url, autoreset_mode=mode, **kwargs, **options) as envs:
                digest.add(envs.reset(seed=3))
                for t in range(40):
                    obs, rewards, terminations, truncations, infos = envs.step(rng.integers(0, 2, n))
                    digest.add((obs, rewards, terminations, truncations, infos))
                    if "action_mask" in infos:
                        digest.add(envs.action_masks())
                    ended = terminations | truncations
                    if mode == "Disabled" and ended.any():
                        digest.add(envs.reset(options={"reset_mask": ended}))
                    elif t == 20:
                        digest.add(envs.reset(seed=list(range(n)), options={"reset_mask": np.arange(n) == n - 1}))
            digests.append(digest.hex())
        assert digests[0] == digests[1]


def test_dicts_policies_and_snapshots(servers: list[Server]) -> None:
    """Observations and actions that are Dicts, baselines, snapshots, forks and frames."""
    digests = []
    for url in (servers[0].url, urls_of(servers)[:2]):
        digest = Digest()
        kwargs = {"weights": [2, 1]} if isinstance(url, list) else {}
        with VectorEnv("k8s/PodBalance-v0", 3, url=url, nodes=5, render_mode="ansi", **kwargs) as envs:
            digest.add(envs.reset(seed=1))
            baseline = envs.vector.spec["baselines"][0]["name"]
            for _ in range(6):
                digest.add(envs.step(envs.policy(baseline)))
            saved = envs.snapshot()
            for _ in range(6):
                digest.add(envs.step(policy=baseline))
            digest.add(envs.restore(saved))
            digest.add(envs.fork(1, [0]))
            digest.add(envs.step(policy=baseline))
            digest.add([np.frombuffer("".join(envs.render()).encode(), np.uint8)])
            envs.forget(saved)
            with pytest.raises(errors.UnknownSnapshotError):
                envs.restore(saved)
            assert envs.vector.stats()["steps"] == 3 * 13
        digests.append(digest.hex())
    assert digests[0] == digests[1]


def test_refusals(servers: list[Server]) -> None:
    """What one server refuses is refused before any of several steps."""
    with VectorEnv(CARTPOLE, 3, url=urls_of(servers)[:2], weights=[2, 1], autoreset_mode="Disabled") as envs:
        with pytest.raises(errors.ResetNeededError, match="environment 0"):
            envs.step(np.zeros(3, np.int64))
        envs.reset(seed=0)
        for wrong, text in (
            ([0, 0, 2], r"environment 2: 2 not in Discrete\(2\)"),
            ([0, 0, -1], r"environment 2: -1 not in Discrete\(2\)"),
            ([0.5, 0, 0], "float64, want int64"),
            ([0, 0], r"\(2,\), want \(3,\)"),
        ):
            with pytest.raises(errors.InvalidActionError, match=text):
                envs.step(np.array(wrong))
        assert envs.vector.stats()["steps"] == 0
        envs.step(np.zeros(3, np.int64))
        for call in (lambda: envs.send(np.zeros(3, np.int64)), envs.recv, lambda: envs.rollout("random", steps=1)):
            with pytest.raises(errors.UnimplementedError, match="several servers"):
                call()
        with pytest.raises(errors.NoCopiesError, match="different servers"):
            envs.fork(2, [0])
        with pytest.raises(ValueError, match="2 seeds for 3"):
            envs.vector.reset(seed=[1, 2])
        envs.step_async(np.zeros(3, np.int64))
        with pytest.raises(errors.PendingStepError):
            envs.reset()
        envs.step_wait()
    for weights in ([1], [0, 0], [1, -1]):
        with pytest.raises(ValueError, match="for 2 servers"):
            VectorEnv(CARTPOLE, 3, url=urls_of(servers)[:2], weights=weights)
    with pytest.raises(errors.UnknownEnvError):
        VectorEnv("k8s/Nothing-v0", 3, url=urls_of(servers)[:2])
    with pytest.raises(errors.InvalidOptionError):
        VectorEnv(CARTPOLE, 3, url=urls_of(servers)[:2], render_mode="smoke")


def test_errors_name_the_rows_of_one_server(servers: list[Server]) -> None:
    """Servers count their environments from 0; errors count those of the vector."""
    said = []
    for url in (servers[0].url, urls_of(servers)[:3]):
        kwargs = {"weights": [1, 1, 1]} if isinstance(url, list) else {}
        with VectorEnv(CARTPOLE, 6, url=url, render_mode="ansi", **kwargs) as envs:
            for options, row in (({"low": 3, "high": 2}, 3), ({"low": "x"}, 5), ({"low": 1, "high": 0}, 0)):
                with pytest.raises(errors.InvalidOptionError, match=f"^environment {row}: ") as caught:
                    envs.reset(options={**options, "reset_mask": np.arange(6) >= row})
                assert caught.value.row == row
                said.append(str(caught.value))
            with pytest.raises(errors.ResetNeededError, match="environment 4") as caught:
                envs.vector.render(4, "ansi")
            said.append(str(caught.value))
            with pytest.raises(errors.ResetNeededError) as caught:
                envs.policy("lean")
            assert caught.value.row == 0
    assert said[:4] == said[4:]


def test_a_part_whose_episodes_ended(servers: list[Server]) -> None:
    """A step is refused as a whole; a reset of the other part alone repeats no ends."""
    urls = urls_of(servers)[:2]
    with VectorEnv(CARTPOLE, 3, url=urls, weights=[2, 1], autoreset_mode="Disabled", max_episode_steps=3) as envs:
        envs.reset(seed=0)
        for t in range(3):
            if t == 2:
                envs.reset(options={"reset_mask": np.array([False, False, True])})
            truncations = envs.step(np.zeros(3, np.int64))[3]
        assert truncations.tolist() == [True, True, False]
        with pytest.raises(errors.ResetNeededError, match="environment 0"):
            envs.step(np.zeros(3, np.int64))
        assert envs.vector.stats()["steps"] == 9
    with VectorEnv(CARTPOLE, 3, url=urls, weights=[2, 1], autoreset_mode="SameStep", max_episode_steps=1) as envs:
        envs.reset(seed=0)
        assert "final_obs" in envs.step(np.zeros(3, np.int64))[4]
        assert "final_obs" not in envs.reset(options={"reset_mask": np.array([False, False, True])})[1]


@pytest.mark.parametrize(
    ("space", "batch", "want"),
    [
        ({"kind": "multi_discrete", "n": [2, 5]}, [[0, 0], [1, 7]], "[1, 7] not in MultiDiscrete([2, 5])"),
        ({"kind": "multi_binary", "n": [2]}, [[0, 1], [2, 0]], "[2, 0] not in MultiBinary(2)"),
        (
            {"kind": "box", "low": [-1], "high": [1], "shape": [2], "dtype": "float32"},
            [[0.5, 0], [0, 1.5]],
            "[0.0, 1.5] not in Box([-1], [1], [2])",
        ),
        (
            {"kind": "dict", "keys": ["a"], "parts": [{"kind": "discrete", "n": [3]}]},
            {"a": np.array([2, 3])},
            "{'a': 3} not in Dict(a: Discrete(3))",
        ),
    ],
    ids=["multi_discrete", "multi_binary", "box", "dict"],
)
def test_a_refused_action_is_named(space: dict[str, Any], batch: Any, want: str) -> None:
    """Of every space the error has the action and what would be right."""
    part = types.SimpleNamespace(act_space=space, num_envs=2, _ended=np.zeros(2, np.bool_))
    with pytest.raises(errors.InvalidActionError) as caught:
        Spread._check(part, batch if isinstance(batch, dict) else np.array(batch))
    assert str(caught.value) == f"environment 1: {want}"


def test_an_ended_episode_takes_any_action(servers: list[Server]) -> None:
    """NEXT_STEP ignores the actions of rows that have ended, also after a reset of others and a restore."""
    wrong = np.array([0, -1, -1])
    for url in (servers[0].url, urls_of(servers)[:2]):
        kwargs = {"weights": [2, 1]} if isinstance(url, list) else {}
        with VectorEnv(CARTPOLE, 3, url=url, max_episode_steps=1, **kwargs) as envs:
            envs.reset(seed=0)
            assert envs.step(np.zeros(3, np.int64))[3].all()
            envs.reset(options={"reset_mask": np.array([True, False, False])})
            saved = envs.snapshot()
            assert envs.step(wrong)[1].tolist() == [1, 0, 0]
            envs.restore(saved)
            assert envs.step(wrong)[1].tolist() == [1, 0, 0]
            with pytest.raises(errors.InvalidActionError, match="environment 1"):
                envs.step(wrong)
            envs.step(np.zeros(3, np.int64))
            envs.fork(1, [0])
            assert envs.step(np.full(3, -1))[1].tolist() == [0, 0, 0]


def test_absent_columns_have_their_defaults() -> None:
    """Worked by hand after section 7 of the protocol: absent masks permit all, absent flags are false."""
    one = {"obs": np.zeros((1, 2)), "r": np.ones(1), "mask": np.array([[0, 1]], np.int8), "te": np.array([True])}
    ended = {"idx": np.array([0], np.int32), "obs": np.ones((1, 2))}
    other = {"obs": np.ones((2, 2)), "r": np.zeros(2), "fin": ended}
    got = merged([one, other, one | {"fin": ended | {"mask": np.array([[1, 0]], np.int8)}}], [0, 1, 3, 4])
    assert got["mask"].tolist() == [[0, 1], [1, 1], [1, 1], [0, 1]]
    assert got["te"].tolist() == [True, False, False, True]
    assert got["fin"]["idx"].tolist() == [1, 3]
    assert got["fin"]["mask"].tolist() == [[1, 1], [1, 0]]
    assert got["r"].tolist() == [1, 0, 0, 1]
    assert "tr" not in got


class SlowProxy:
    """Carries bytes to a server, each time after a pause.

    Attributes:
        pause: its seconds.
    """

    def __init__(self, url: str, pause: float) -> None:
        host, port = url[len("ws://") :].partition("/")[0].split(":")
        self._to, self.pause = (host, int(port)), pause
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}/{url[len('ws://') :].partition('/')[2]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                ours = self._listener.accept()[0]
            except OSError:
                return  # it was closed
            theirs = socket.create_connection(self._to)
            for source, sink in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                time.sleep(self.pause)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side has ended

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()


def test_speed_decides(servers: list[Server]) -> None:
    """A server behind a slow wire gets fewer environments, and one that is not there none."""
    slow = SlowProxy(servers[1].ws_url, 0.1)  # a step takes 0.2 s, and less than that directly on a busy machine too
    try:
        with VectorEnv(CARTPOLE, 300, url=[slow.url, "ws://127.0.0.1:1", servers[3].ws_url]) as envs:
            slow.pause = 0.0
            sizes = envs.vector.sizes
            assert sum(sizes) == 300
            assert sizes[0] < sizes[1] if len(sizes) == 2 else len(sizes) == 1
            got = play(envs, 20)
    finally:
        slow.close()
    with VectorEnv(CARTPOLE, 300, url=servers[0].url) as envs:
        assert got == play(envs, 20)


def test_largest_remainders() -> None:
    """Worked by hand: 0.71, 0.78, 2.84 and 5.67 are rounded down, and the three largest remainders get one."""
    assert apportioned(10, [1, 1.1, 4, 8]) == [1, 1, 3, 5]
    assert apportioned(2, [1, 1, 3, 3]) == [0, 0, 1, 1]
    assert apportioned(3, [0, 5, 0]) == [0, 3, 0]


def test_sb3_training_survives_a_kill() -> None:
    """The parameters equal those on one server, though one of three was killed in the middle and stayed dead."""
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    fleet = [Server(args=["--listen", "127.0.0.1:0"]) for _ in range(3)]

    class Kill(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 77:
                os.kill(fleet[1].pid, signal.SIGKILL)
            return True

    torch.set_num_threads(1)  # several wait for each other on a busy machine
    parameters = []
    try:
        for url, callback in ((fleet[0].url, None), ([server.ws_url for server in fleet], Kill())):
            kwargs: dict[str, Any] = {} if callback is None else {"weights": [1, 2, 2]}
            with VecEnv(GANG, 5, seed=2, steps=20, url=url, **kwargs) as envs:
                model = sb3.PPO("MlpPolicy", envs, n_steps=64, batch_size=64, n_epochs=2, seed=1, device="cpu")
                model.learn(5 * 64 * 2, callback=callback)
            parameters.append(model.get_parameters()["policy"])
    finally:
        for server in fleet:
            server.stop()
    assert len(parameters[0]) > 0
    assert all((parameters[0][key] == parameters[1][key]).all() for key in parameters[0])


def test_make_vec_and_a_lost_fleet() -> None:
    """A reset after the loss of all servers makes the vector again."""
    fleet = [Server(args=TO_INHERIT) for _ in range(2)]
    urls = [server.ws_url for server in fleet]
    with gymnasium.make_vec(CARTPOLE, 4, url=urls, reconnect=0) as envs:
        want = envs.reset(seed=6)[0]
        for server in fleet:
            server.stop()
        with pytest.raises(errors.ConnectionLostError):
            envs.step(np.zeros(4, np.int64))
        again = [Server(args=inheriting(url)) for url in urls]
        np.testing.assert_array_equal(envs.reset(seed=6)[0], want)
        envs.step(np.zeros(4, np.int64))
    for server in again:
        server.stop()


def test_a_new_vector_leaves_no_sessions() -> None:
    """When one of two servers is lost, the sessions at the other end with the vector."""
    fleet = [Server(args=["--listen", "127.0.0.1:0"]) for _ in range(2)]
    with VectorEnv(CARTPOLE, 4, url=[server.ws_url for server in fleet], weights=[1, 1], reconnect=0) as envs:
        old = envs.vector
        envs.reset(seed=6)
        fleet[0].stop()
        with pytest.raises(errors.ConnectionLostError):
            envs.step(np.zeros(4, np.int64))
        envs._session._weights = None  # so that the dead server gets no environments
        envs.reset(seed=6)
        assert envs.vector is not old
        assert all(part.connection.closed for part in old.parts)
    fleet[1].stop()
