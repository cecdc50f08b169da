"""The asyncio client against the synchronous one, on a real server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from chaos import TO_INHERIT, Digest, inheriting
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


def test_cancelled_tasks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever a task is cancelled, the connection stays usable, and no reply reaches another request."""
    monkeypatch.setattr("kubernasium.aio_session.GRACE", 60.0)  # a slow step is not to be cancelled at the server

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


def test_no_environments_are_refused(url: str) -> None:
    """As by the synchronous client."""

    async def main() -> None:
        with pytest.raises(errors.InvalidArgumentError, match="n is 0, want at least 1"):
            await aio.make(CARTPOLE, 0, url=url)

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


@pytest.fixture
def fleet() -> Iterator[list[Server]]:
    """Three servers, of which a test may kill some."""
    started = [Server(args=TO_INHERIT) for _ in range(3)]
    yield started
    for server in started:
        server.stop()


@pytest.mark.parametrize(("env_id", "mode"), [(CARTPOLE, "SAME_STEP"), (GANG, "NEXT_STEP")])
def test_a_fleet_and_a_killed_server(fleet: list[Server], env_id: str, mode: str) -> None:
    """Two vectors on three servers, one of which is killed, return what one server and the synchronous client do."""
    urls, options = [server.ws_url for server in fleet], {"steps": 15} if env_id == GANG else {}

    async def main() -> list[str]:
        made = [
            await aio.make(env_id, 7, url=urls, weights=[2, 4, 1], autoreset_mode=mode, **options) for _ in range(2)
        ]
        assert [envs.sizes for envs in made] == [[2, 4, 1]] * 2
        results = [[await envs.reset(seed=i)] for i, envs in enumerate(made)]
        for t, batch in enumerate(actions(5, 60, 7)):
            if t == 30:
                os.kill(fleet[1].pid, signal.SIGKILL)
            for result, step in zip(results, await asyncio.gather(*(envs.step(batch) for envs in made)), strict=True):
                result.append(step)
        for envs in made:
            await envs.close()
        return [hashed(result) for result in results]

    got = run(main())
    name = "SameStep" if mode == "SAME_STEP" else "NextStep"
    for i in range(2):
        with gymnasium.make_vec(env_id, 7, url=urls[0], autoreset_mode=name, **options) as envs:
            assert got[i] == hashed([envs.reset(seed=i), *(envs.step(batch) for batch in actions(5, 60, 7))])


def test_one_environment_of_a_fleet(fleet: list[Server]) -> None:
    """Its server is killed, and it goes on at another one; so does one with a single URL that may connect again."""

    async def main() -> list[str]:
        env = await aio.make(CARTPOLE, url=[fleet[0].ws_url, fleet[1].ws_url])
        again = await aio.make(CARTPOLE, url=fleet[2].ws_url, reconnect=60.0)
        assert env.action_space.n == again.action_space.n == 2
        results: list[list[Any]] = [[await env.reset(seed=4)], [await again.reset(seed=4)]]
        for t, action in enumerate(actions(2, 8, 0)):
            if t == 4:
                os.kill(fleet[2].pid, signal.SIGKILL)
                fleet[2].stop()
                fleet[2] = await asyncio.to_thread(Server, args=inheriting(fleet[2].ws_url))
                os.kill(at(env, fleet[:2]).pid, signal.SIGKILL)
            results[0].append(await env.step(action))
            results[1].append(await again.step(action))
        await asyncio.gather(env.close(), again.close())
        with pytest.raises(errors.ClosedError):
            await env.step(0)
        return [hashed(result) for result in results]

    got = run(main())
    with gymnasium.make(CARTPOLE) as twin:
        env = twin.unwrapped
        want = hashed([env.reset(seed=4), *(env.step(action) for action in actions(2, 8, 0))])
    assert got == [want, want]


def at(env: Any, servers: list[Server]) -> Server:
    """Returns the server that an environment is on."""
    peer = env._env.vector.connection.transport.sock.getpeername()[1]
    return next(server for server in servers if f":{peer}/" in server.ws_url + "/")


def test_cancelled_calls_of_a_fleet(fleet: list[Server]) -> None:
    """A call that has begun is carried out, one that waits is not, and the loop runs meanwhile."""
    urls = [server.ws_url for server in fleet]

    async def main() -> None:
        async with aio.make(CARTPOLE, 64, url=urls, weights=[1, 1, 1]) as envs:
            await envs.reset(seed=1)
            tasks = [asyncio.create_task(envs.step(np.zeros(64, np.int64))) for _ in range(6)]
            await asyncio.sleep(0)
            for task in tasks[3:]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in done] == [tuple] * 3 + [asyncio.CancelledError] * 3
            steps = (await envs._call(envs._env.vector.stats))["steps"] / 64
            assert 3 <= steps <= 6
            with pytest.raises(errors.UnimplementedError, match="several servers"):
                await envs.send(np.zeros(64, np.int64))
            with pytest.raises(errors.UnimplementedError, match="several servers"):
                await envs.recv()
        with pytest.raises(ValueError, match=r"URL 'ftp://127\.0\.0\.1', want ws://.* or k8s\+dns://name:port"):
            await aio.connect("ftp://127.0.0.1")
        with pytest.raises(ValueError, match=r"aio\.make takes several"):
            await aio.connect(urls)
        with pytest.raises(errors.UnknownEnvError):
            await aio.make("k8s/Nothing-v0", 2, url=urls)
        making = asyncio.create_task(_awaited(aio.make(CARTPOLE, 6, url=urls)))
        await asyncio.sleep(0)  # now it has begun, and takes as long as servers are measured
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

    run(main())


async def _awaited(opening: Any) -> Any:
    return await opening


def test_the_end_of_its_event_loop_ends_a_connection(url: str) -> None:
    """Nobody would receive its replies: a call in another loop says so at once."""

    async def begin() -> aio.VectorEnv:
        envs = await aio.make(CARTPOLE, 2, url=url)
        await envs.reset(seed=1)
        return envs

    envs = asyncio.run(begin())
    with pytest.raises(errors.ConnectionLostError, match="event loop"):
        asyncio.run(asyncio.wait_for(envs.step(np.zeros(2, np.int64)), 20))
