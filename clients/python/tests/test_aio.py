"""The asyncio client against the synchronous one, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import gymnasium
import numpy as np
import pytest

from chaos import Digest
from kubernasium import aio, errors
from kubernasium.launcher import Server

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs main; what hangs fails."""
    return asyncio.run(asyncio.wait_for(main, 300))


def hashed(*values: Any) -> str:
    digest = Digest()
    digest.add(values)
    return digest.hex()


def actions(seed: int, steps: int, n: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2, n) if n else int(rng.integers(0, 2)) for _ in range(steps)]


async def play(env: Any, seed: int, steps: int, n: int) -> str:
    """Returns the hash of a trajectory."""
    results = [await env.reset(seed=seed)]
    for action in actions(seed, steps, n):
        results.append(await env.step(action))
        if not n and (results[-1][2] or results[-1][3]):
            results.append(await env.reset())
    return hashed(results)


def play_now(env: Any, seed: int, steps: int, n: int) -> str:
    """Returns that of the synchronous client."""
    results = [env.reset(seed=seed)]
    for action in actions(seed, steps, n):
        results.append(env.step(action))
        if not n and (results[-1][2] or results[-1][3]):
            results.append(env.reset())
    return hashed(results)


@pytest.mark.parametrize("env_id", [CARTPOLE, GANG])
def test_many_environments_of_one_connection(url: str, env_id: str) -> None:
    """Forty tasks on one connection, more than may be outstanding, return what single connections do."""
    options = {"steps": 30} if env_id == GANG else {}

    async def main() -> list[str]:
        async with aio.connect(url) as connection:
            envs = [await connection.make(env_id, **options) for _ in range(20)]
            envs += [await connection.make(env_id, 3, autoreset_mode="SAME_STEP", **options) for _ in range(20)]
            assert len({env.eid for env in envs}) == 40
            got = await asyncio.gather(*(play(env, i, 60, 3 * (i >= 20)) for i, env in enumerate(envs)))
            for env in envs:
                await env.close()
            with pytest.raises(gymnasium.error.ClosedEnvironmentError):
                await envs[0].reset()
            return got

    got = run(main())
    for i in (0, 7, 19, 20, 33):
        if i < 20:
            twin = gymnasium.make(env_id, url=url, **options).unwrapped
        else:
            twin = gymnasium.make_vec(env_id, 3, url=url, autoreset_mode="SameStep", **options)
        with twin:
            assert got[i] == play_now(twin, i, 60, 3 * (i >= 20))


def test_make_with_a_connection_of_its_own(url: str) -> None:
    async def main() -> None:
        async with aio.make(GANG, url=url, steps=20) as env:
            assert env.observation_space.contains((await env.reset(seed=1))[0])
            assert env.action_space.n == 4
            baseline = await env.step(policy="static_2")
            assert baseline[4]["action_mask"].dtype == np.int8
        assert env.connection._end is not None
        envs = await aio.make(CARTPOLE, 4, url=url, autoreset_mode="DISABLED")
        await envs.reset(seed=2)
        await envs.reset(options={"reset_mask": np.array([True, False, True, False])})
        await envs.close()
        await envs.close()

    run(main())


def test_cancelled_tasks(url: str) -> None:
    """Whenever a task is cancelled, the connection stays usable, and no reply reaches another request."""

    async def main() -> None:
        async with aio.connect(url) as connection:
            victim, other = await connection.make(CARTPOLE, 64), await connection.make(CARTPOLE, 2)
            await victim.reset(seed=1)
            twin = gymnasium.make_vec(CARTPOLE, 2, url=url)
            np.testing.assert_array_equal((await other.reset(seed=3))[0], twin.reset(seed=3)[0])
            for i in range(200):
                tasks = [asyncio.create_task(victim.step(np.zeros(64, np.int64))) for _ in range(12)]
                for _ in range(i % 5):
                    await asyncio.sleep(0)
                for task in tasks[:: 1 + i % 3]:
                    task.cancel()
                action = np.array([i % 2, 1])
                np.testing.assert_array_equal((await other.step(action))[0], twin.step(action)[0])
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(result) for result in done} <= {tuple, asyncio.CancelledError}
            assert not connection._replies
            assert connection._slots._value == connection.limits["inflight"]
            twin.close()

    run(main())


def test_errors(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as connection:
            with pytest.raises(errors.UnknownEnvError):
                await connection.make("k8s/Nothing-v0")
            with pytest.raises(errors.InvalidOptionError):
                await connection.make(GANG, window=3)
            env = await connection.make(CARTPOLE)
            with pytest.raises(gymnasium.error.ResetNeeded):
                await env.step(0)
            await env.reset(seed=0)
            with pytest.raises(gymnasium.error.InvalidAction):
                await env.step(2)
            with pytest.raises(TypeError, match="an action, or a policy"):
                await env.step()
            await env.step(1)
        with pytest.raises(errors.ClosedError):
            await env.step(1)

    run(main())


def test_large_replies(url: str) -> None:
    """Of several MiB, longer than the buffers of the streams."""

    async def main() -> int:
        async with aio.connect(url) as connection:
            reply, pong = await asyncio.gather(
                connection.request("ping", ts="x" * (3 << 20)), connection.request("ping", ts=5)
            )
            assert pong["ts"] == 5
            return len(reply["ts"])

    assert run(main()) == 3 << 20


def test_the_end_of_the_server() -> None:
    """All outstanding requests learn that it is lost, and later ones too."""

    async def main() -> None:
        server = await asyncio.to_thread(Server)
        connection = await aio.connect(server.url)
        envs = [await connection.make(CARTPOLE) for _ in range(3)]
        await asyncio.to_thread(server.stop)
        lost = await asyncio.gather(*(env.reset(seed=0) for env in envs), return_exceptions=True)
        assert {isinstance(error, (errors.ConnectionLostError, errors.UnavailableError)) for error in lost} == {True}
        await connection.close()
        with pytest.raises(errors.ConnectionLostError):
            await aio.connect(server.url)

    run(main())


def test_timeout() -> None:
    """A server that says nothing: the connection ends, for the next reply could be to another request."""

    async def main() -> None:
        silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(errors.ReplyTimeoutError):
            await aio.connect(f"ws://127.0.0.1:{port}", timeout=0.2)
        silent.close()

    run(main())
