"""Vectors made with `copy=False`: observations in the memory that the server writes to."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import kubernasium
from chaos import Digest
from kubernasium import errors, launcher
from kubernasium.double_buffer import DoubleBuffer
from kubernasium.launcher import Server
from kubernasium.protocol import connection, shared
from kubernasium.protocol.shared import SharedTransport
from kubernasium.vector import VectorEnv

CARTPOLE, GANG, GPU = "classic/CartPole-v1", "k8s/GangWindow-v0", "k8s/GPUPodScheduling-v2"
ENVS = [(CARTPOLE, 300, {}), (GANG, 40, {"instances": 3}), (GPU, 3, {})]  # the last one has masks
N = 300

on_linux = pytest.mark.skipif(not shared.AVAILABLE, reason="memory is shared on Linux only")


@pytest.fixture(params=["shared memory", "unix", "ws"])
def any_url(request: pytest.FixtureRequest, server: Server) -> str:
    """Where to connect, by each way that frames take."""
    return {"shared memory": server.url, "unix": server.url + "?shm=0", "ws": server.ws_url}[request.param]


def play(env_id: str, n: int, url: str | list[str], steps: int = 200, **kwargs: Any) -> str:
    """Returns the digest of a trajectory, infos with the last observations of episodes included."""
    digest = Digest()
    with VectorEnv(env_id, n, url=url, autoreset_mode="SameStep", **kwargs) as envs:
        rng = np.random.default_rng(4)
        for part in envs.reset(seed=3):
            digest.add(part)
        for _ in range(steps):
            for part in envs.step(rng.integers(0, envs.single_action_space.n, n)):
                digest.add(part)
    return digest.hex()


def push(k: int) -> np.ndarray:
    """Returns actions that move every cart, in the k-th step."""
    return (np.arange(N) + k) % 2


def arrives(envs: VectorEnv) -> None:
    """Waits until the server has written the reply that `step_wait` would read."""
    assert envs.vector.connection.transport.ready(20)


@pytest.mark.parametrize(("env_id", "n", "options"), ENVS)
def test_equal_trajectories(any_url: str, env_id: str, n: int, options: dict[str, Any]) -> None:
    want = play(env_id, n, any_url, **options)
    assert play(env_id, n, any_url, copy=False, **options) == want
    assert play(env_id, n, any_url, copy=True, **options) == want


def test_a_dict(server: Server) -> None:
    """Each part of a Dict stays in the memory."""
    found = []
    for copy in (True, False):
        with kubernasium.make_vec(GPU, 3, url=server.url, copy=copy) as envs:
            seen = [envs.reset(seed=1)[0]]
            seen += [envs.step(policy="random", seed=k)[0] for k in range(2)]
            assert isinstance(seen[0], dict)
            found.append({key: part.copy() for key, part in seen[2].items()})
            for key, part in seen[0].items():
                assert np.shares_memory(part, seen[2][key]) == (shared.AVAILABLE and not copy)
    for key, part in found[0].items():
        np.testing.assert_array_equal(found[1][key], part, strict=True)


@on_linux
def test_the_same_memory(server: Server) -> None:
    """Two places in turn, aligned, and writable like Gymnasium's."""
    with gymnasium.make_vec(CARTPOLE, N, url=server.url, copy=False) as envs:
        seen = [envs.reset(seed=1)[0]]
        seen += [envs.step(push(k))[0] for k in range(6)]
        for t, obs in enumerate(seen):
            assert obs.flags.writeable
            assert obs.ctypes.data % 64 == 0
            for u, other in enumerate(seen):
                assert np.shares_memory(obs, other) == ((t - u) % 2 == 0)
        assert np.array_equal(seen[-1], seen[-3])


def test_own_arrays_by_default(any_url: str) -> None:
    with VectorEnv(CARTPOLE, N, url=any_url) as envs:
        seen = [envs.reset(seed=1)[0]]
        seen += [envs.step(push(k))[0] for k in range(6)]
    kept = [obs.copy() for obs in seen]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(seen) for b in seen[:i])
    for obs, copy in zip(seen, kept, strict=True):
        assert np.array_equal(obs, copy)


def pipelined(url: str) -> list[bool]:
    """Returns whether each observation lasted until the reply of the next step but one was written."""
    lasted = []
    with VectorEnv(CARTPOLE, N, url=url, copy=False) as envs:
        last = envs.reset(seed=1)[0]
        kept = last.copy()
        for k in range(50):
            envs.step_async(push(k))
            arrives(envs)
            lasted.append(np.array_equal(last, kept))
            obs = envs.step_wait()[0]
            lasted.append(np.array_equal(last, kept))
            last, kept = obs, obs.copy()
    return lasted


def test_is_not_overwritten_early(any_url: str) -> None:
    """An observation lasts while the next step runs, and after it."""
    assert all(pipelined(any_url))


@on_linux
def test_one_place_would_be_too_few(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test before this one would see if replies had one place."""
    place = SharedTransport._place

    def only(self: SharedTransport) -> int:
        place(self)
        return max(self._places)

    monkeypatch.setattr(SharedTransport, "_place", only)
    assert not any(pipelined(server.url))


@on_linux
def test_is_overwritten_by_the_second_step(server: Server) -> None:
    with VectorEnv(CARTPOLE, N, url=server.url, copy=False) as envs:
        obs = envs.reset(seed=1)[0]
        kept = obs.copy()
        envs.step(push(0))
        assert np.array_equal(obs, kept)
        envs.step_async(push(1))
        arrives(envs)
        assert not np.array_equal(obs, kept)
        envs.step_wait()


def test_other_requests_overwrite_nothing(any_url: str) -> None:
    """Replies to anything but `reset`, `step` and `recv` lie elsewhere, those that the client asks for itself too."""
    with VectorEnv(GANG, 40, url=any_url, copy=False, instances=3) as envs:
        envs.reset(seed=1)
        obs = envs.step(np.ones(40, np.int64))[0]
        kept = obs.copy()
        for _ in range(3):
            envs.policy("random")
            envs.restore(envs.snapshot())
            envs.fork(0, [1, 2])
            envs.rollout("random", steps=2, transitions=True)
            envs.vector.connection.request("ping")
            envs.vector.stats()
            assert np.array_equal(obs, kept)
    with VectorEnv(CARTPOLE, N, url=any_url, copy=False) as envs:
        log = envs.vector._log
        assert log is not None
        obs = envs.reset(seed=1)[0]
        for k in range(5):
            kept, log.wait = obs.copy(), 0.0  # so that a `state` follows each step
            other = envs.step(push(k))[0]
            assert np.array_equal(obs, kept)
            obs = other


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_rest_is_the_callers(any_url: str, mode: str) -> None:
    """Rewards, flags, masks, infos and the last observations of episodes last."""
    for env_id, n, options in ENVS:
        kept = []
        with VectorEnv(env_id, n, url=any_url, copy=False, autoreset_mode=mode, max_episode_steps=9, **options) as envs:
            rng = np.random.default_rng(0)
            envs.reset(seed=1)
            for _ in range(60):
                rest = envs.step(rng.integers(0, envs.single_action_space.n, n))[1:]
                kept.append((rest, digest_of(rest), envs.action_masks(), digest_of(envs.action_masks())))
        assert any("final_obs" in rest[3] for rest, *_ in kept) == (mode == "SameStep")
        for rest, digest, masks, mask_digest in kept:
            assert digest_of(rest) == digest
            assert digest_of(masks) == mask_digest


def digest_of(value: Any) -> str:
    digest = Digest()
    digest.add(value)
    return digest.hex()


def test_send_and_recv(any_url: str) -> None:
    """Rows of pipelined single steps equal those of lock step, and last until the next `recv` but one."""
    with VectorEnv(CARTPOLE, N, url=any_url) as twin, VectorEnv(CARTPOLE, N, url=any_url, copy=False) as envs:
        twin.reset(seed=1)
        envs.reset(seed=1)
        half = np.arange(N) < N // 2
        for k in range(30):
            want = twin.step(push(k))
            for rows in (np.flatnonzero(half), np.flatnonzero(~half)):
                envs.send(push(k)[rows], rows)
            first, second = envs.recv(N // 2), envs.recv(N - N // 2)
            seen = np.zeros(N, np.bool_)
            for part in (first, second):
                rows = part[4]["env_id"]
                seen[rows] = True
                for got, full in zip(part[:4], want[:4], strict=True):
                    np.testing.assert_array_equal(got, full[rows], strict=True)
            assert seen.all()
            assert not np.shares_memory(first[0], second[0])


def test_replies_without_room(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations that do not fit in the memory come over the socket, in arrays of their own."""
    want = play(GANG, 40, server.url, steps=30, instances=3)
    place = SharedTransport._place

    def narrow(self: SharedTransport) -> int:
        at = place(self)
        self._room = 4000
        return at

    monkeypatch.setattr(SharedTransport, "_place", narrow)
    assert play(GANG, 40, server.url, steps=30, copy=False, instances=3) == want


def test_several_servers(server: Server) -> None:
    want = play(CARTPOLE, N, server.url)
    with VectorEnv(CARTPOLE, N, url=[server.url, server.ws_url], weights=[1, 1], copy=False) as envs:
        obs = envs.reset(seed=1)[0]
        kept = obs.copy()
        mask = np.arange(N) == N - 1
        again = envs.reset(seed=2, options={"reset_mask": mask})[0]
        assert np.array_equal(obs, kept)
        assert np.array_equal(again[:-1], kept[:-1])
    assert play(CARTPOLE, N, [server.url, server.ws_url], weights=[1, 1], copy=False) == want


def test_collect(any_url: str) -> None:
    """`collect` keeps all observations, and so copies them."""

    def policy(obs: Any, infos: dict[str, Any]) -> np.ndarray:
        return (obs[:, 2] > 0).astype(np.int64)

    found = []
    for copy in (True, False):
        with DoubleBuffer(CARTPOLE, N, url=any_url, copy=copy) as envs:
            envs.async_reset(seed=1)
            found.append([envs.collect(policy, 20) for _ in range(2)])
    for want, got in zip(*found, strict=True):
        for name, column in want.items():
            np.testing.assert_array_equal(got[name], column, strict=True)


@on_linux
@pytest.mark.parametrize("end", [lambda envs: envs.close(), lambda envs: envs.vector.connection.transport.abandon()])
def test_outlives_the_connection(server: Server, end: Callable[[VectorEnv], None]) -> None:
    """The memory is there as long as an array in it, and no longer."""

    def mapped() -> int:
        gc.collect()
        return Path("/proc/self/maps").read_text().count("memfd:kubernasium")

    before = mapped()
    envs = VectorEnv(CARTPOLE, N, url=server.url, copy=False)
    envs.reset(seed=1)
    obs = envs.step(push(0))[0]
    kept = obs.copy()
    end(envs)
    envs.close()
    del envs
    assert mapped() == before + 1
    assert np.array_equal(obs, kept)
    obs += 1  # it is memory still
    row = obs[3]
    del obs
    assert mapped() == before + 1
    assert np.array_equal(row, kept[3] + 1)
    del row
    assert mapped() == before


@on_linux
def test_outlives_a_killed_server() -> None:
    """The client connects to the next server, and what was seen before stays as it was."""

    def run(kill: bool, copy: bool) -> str:
        digest, seen, kept = Digest(), [], []
        with VectorEnv(CARTPOLE, N, copy=copy) as envs:
            obs = envs.reset(seed=1)[0]
            for k in range(30):
                if kill and k % 10 == 5:
                    os.kill(launcher.default_server().pid, signal.SIGKILL)
                    seen.append(obs)
                    kept.append(obs.copy())
                obs = envs.step(push(k))[0]
                digest.add(obs)
            if kill:
                assert isinstance(envs.vector.connection.transport, SharedTransport)
        for obs, copy_of in zip(seen, kept, strict=True):
            assert np.array_equal(obs, copy_of)  # its memory is of a connection that is gone
        return digest.hex()

    want = run(kill=False, copy=True)
    assert run(kill=False, copy=False) == want
    assert run(kill=True, copy=False) == want


@on_linux
def test_interrupts(server: Server, interrupts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt ends neither the session nor the views: the next steps return the right observations."""
    monkeypatch.setattr(connection, "GRACE", 60.0)  # a slow step is not to be cancelled
    with VectorEnv(CARTPOLE, N, url=server.url, copy=False) as envs:
        envs.reset(seed=1)
        for k in range(20):
            envs.step_async(push(k))
            old, interrupted = signal.signal(signal.SIGALRM, raise_interrupt), False
            try:
                signal.setitimer(signal.ITIMER_REAL, 50e-6)
                envs.step_wait()
                signal.setitimer(signal.ITIMER_REAL, 0)  # before `finally`, where an interrupt would end pytest
            except KeyboardInterrupt:
                interrupted = True
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, old)
            if interrupted:
                with contextlib.suppress(errors.NoPendingStepError):  # unless the interrupt came before the wait
                    envs.step_wait()
        with VectorEnv(CARTPOLE, N, url=server.url) as twin:
            obs, want = envs.reset(seed=2)[0], twin.reset(seed=2)[0]
            for k in range(20):
                assert np.array_equal(obs, want)
                obs, want = envs.step(push(k))[0], twin.step(push(k))[0]


def raise_interrupt(*args: object) -> None:
    raise KeyboardInterrupt
