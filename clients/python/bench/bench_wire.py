"""Measures environment steps per second over the wire, beside other ways to run the same steps.

    python clients/python/bench/bench_wire.py --json bench.json

All cases are opened first and then measured in turn, round after round, so that whatever else
the machine does meets all alike; a figure is the median of the rounds. Actions are random and
drawn beforehand. A "call" is one `step` of all N environments, with the resets of single
environments included in the rate and left out of the latencies.

EnvPool is measured if it is installed (`pip install envpool`).

The cases "2 KB, no simulation" measure the way of the observations alone: test/Wide-v0 of testdata/wide, whose build
needs Go, beside the same environment in Python in Gymnasium's SyncVectorEnv.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import kubernasium  # noqa: F401  registers the environments
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, connect
from kubernasium.vector import VectorEnv

CARTPOLE, GANG, NO_SIMULATION = "classic/CartPole-v1", "k8s/GangWindow-v0", "test/Wide-v0"
SIZES = (1, 16, 64, 256, 1024)
BLOCK = 256  # prepared actions
# A 2-KB observation: 437 float32. Few prepared instances, so that resets do not count.
WIDE = {"windows": 20, "horizon": 20, "instances": 4}


@dataclass
class Case:
    """One row of the table: an opened environment and its measurements."""

    task: str
    name: str
    num_envs: int
    env: Any
    actions: list[int] | tuple[Any, ...]  # a list for a single environment
    rates: list[float] = field(default_factory=list)  # environment steps per second, of each round
    calls: list[np.ndarray] = field(default_factory=list)  # seconds of each call, of each round

    def round(self, seconds: float) -> None:
        """Steps for about that long."""
        play = self._play_one if isinstance(self.actions, list) else self._play_many
        times: list[float] = []
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            play(times)
        elapsed = time.perf_counter() - start
        self.rates.append(len(times) * self.num_envs / elapsed)
        self.calls.append(np.array(times))

    def _play_one(self, times: list[float]) -> None:
        step, reset, clock, note = self.env.step, self.env.reset, time.perf_counter, times.append
        for action in self.actions:
            before = clock()
            _, _, terminated, truncated, _ = step(action)
            note(clock() - before)
            if terminated or truncated:
                reset()

    def _play_many(self, times: list[float]) -> None:
        step, clock, note = self.env.step, time.perf_counter, times.append
        for action in self.actions:
            before = clock()
            step(action)
            note(clock() - before)

    def row(self) -> dict[str, Any]:
        """Returns the medians over the rounds."""
        micros = np.concatenate(self.calls) * 1e6
        return {
            "task": self.task,
            "name": self.name,
            "num_envs": self.num_envs,
            "steps_per_second": statistics.median(self.rates),
            "rounds": [round(rate) for rate in self.rates],
            "call_us_p50": float(np.percentile(micros, 50)),
            "call_us_p99": float(np.percentile(micros, 99)),
        }


class Ping:
    """A connection in the form of an environment whose step is a ping."""

    def __init__(self, connection: Connection) -> None:
        """Wraps a connection."""
        self.connection = connection

    def step(self, action: Any) -> None:
        """Sends a ping and waits for its reply."""
        self.connection.request("ping")

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


ECHO = """
import socket, sys
peer = socket.socket(fileno=int(sys.argv[1]))
while data := peer.recv(4096):
    peer.sendall(data)
"""


class Echo:
    """A Python process that returns what it is sent: what the machine's wake-ups alone cost."""

    def __init__(self) -> None:
        """Starts the process."""
        self.ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            self.process = subprocess.Popen([sys.executable, "-c", ECHO, str(fd)], pass_fds=[fd])

    def step(self, action: Any) -> None:
        """Sends 64 bytes and waits for them."""
        self.ours.sendall(b"x" * 64)
        self.ours.recv(4096)

    def close(self) -> None:
        """Ends the process."""
        self.ours.close()
        self.process.wait()


class Wide(gymnasium.Env[np.ndarray, int]):
    """The environment of testdata/wide in Python."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (512,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    _table = np.random.default_rng(1).random((64, 512), np.float32)
    _steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begins an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._table[0], {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Returns the next row of the table."""
        self._steps += 1
        return self._table[self._steps % 64], 1.0, self._steps == 400, False, {}


def build_wide(folder: str) -> Path:
    """Builds the server with test/Wide-v0."""
    binary = Path(folder) / "wide"
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(binary), "."]
    package = Path(__file__).parent / "testdata" / "wide"
    subprocess.run(command, cwd=package, env=os.environ | {"CGO_ENABLED": "0"}, check=True)
    return binary


def open_case(task: str, name: str, num_envs: int, make: Callable[[], Any]) -> Case:
    """Opens an environment, resets it and draws its actions."""
    env = make()
    rng = np.random.default_rng(0)
    if isinstance(env, (Ping, Echo)):
        return Case(task, name, num_envs, env, tuple(range(BLOCK)))
    if name == "EnvPool":
        env.reset()
        return Case(task, name, num_envs, env, tuple(rng.integers(0, 2, (BLOCK, num_envs), np.int32)))
    env.reset(seed=0)
    if isinstance(env, gymnasium.Env):
        return Case(task, name, num_envs, env, rng.integers(0, env.action_space.n, BLOCK).tolist())
    return Case(task, name, num_envs, env, tuple(rng.integers(0, env.single_action_space.n, (BLOCK, num_envs))))


def cases(server: Server, wide: Server, quick: bool, only: str) -> list[Case]:
    """Opens everything that is compared, of tasks that begin with only."""
    sizes = (1, 64) if quick else SIZES
    urls = {"unix": server.url, "unix without shared memory": server.url + "?shm=0", "ws": server.ws_url}
    out: list[Case] = []

    def add(task: str, name: str, n: int, make: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if task.startswith(only):
            out.append(open_case(task, name, n, lambda: make(*args, **kwargs)))

    add("ping", "echo by another Python process", 1, Echo)
    for transport, url in urls.items():
        add("ping", f"round trip, {transport}", 1, lambda url: Ping(connect(url)), url)
    for n in sizes:
        add_cartpole(add, urls, n)
    for task, options in (("2-KB observation", WIDE), ("GangWindow", {})):
        for transport, url in urls.items():
            add(task, f"ours, unwrapped, {transport}", 1, make_unwrapped, GANG, url=url, **options)
            for n in sizes[1:]:
                add(task, f"ours, make_vec, {transport}", n, gymnasium.make_vec, GANG, n, url=url, **options)
                if options and url == server.url:
                    name = f"ours, make_vec, {transport}, copy=False"
                    add(task, name, n, gymnasium.make_vec, GANG, n, url=url, copy=False, **options)
    for n in sizes[1:]:
        add_wide(add, wide, n)
    return out


def add_wide(add: Callable[..., None], wide: Server, n: int) -> None:
    """Opens test/Wide-v0 with and without copies, and its twin in Gymnasium's vector."""
    task, make, own = "2 KB, no simulation", partial(VectorEnv, NO_SIMULATION, n), {"threads": 1}
    add(task, "ours, unix without shared memory", n, make, url=wide.url + "?shm=0", **own)
    for copy in (True, False):
        add(task, f"ours, unix, copy={copy}", n, make, url=wide.url, copy=copy, **own)
    if n <= 256:
        for copy in (True, False):
            name = f"Gymnasium, SyncVectorEnv, copy={copy}"
            add(task, name, n, gymnasium.vector.SyncVectorEnv, [Wide] * n, copy=copy)


def add_cartpole(add: Callable[..., None], urls: dict[str, str], n: int) -> None:
    """Opens CartPole in every way that there is for n environments."""
    for transport, url in urls.items():
        if n == 1:
            add("CartPole", f"ours, unwrapped, {transport}", n, make_unwrapped, CARTPOLE, url=url)
            add("CartPole", f"ours, make, {transport}", n, gymnasium.make, CARTPOLE, url=url)
        else:
            add("CartPole", f"ours, make_vec, {transport}", n, gymnasium.make_vec, CARTPOLE, n, url=url)
    if n == 1:
        add("CartPole", "Gymnasium, make", n, gymnasium.make, "CartPole-v1")
    else:
        name = "ours, make_vec, unix, threads=1"
        add("CartPole", name, n, gymnasium.make_vec, CARTPOLE, n, url=urls["unix"], threads=1)
        add("CartPole", "Gymnasium, CartPoleVectorEnv", n, gymnasium.make_vec, "CartPole-v1", n)
    if 1 < n <= 256:
        add("CartPole", "Gymnasium, SyncVectorEnv", n, gymnasium.make_vec, "CartPole-v1", n, "sync")
    if n == 16:
        add("CartPole", "Gymnasium, AsyncVectorEnv", n, gymnasium.make_vec, "CartPole-v1", n, "async")
    if importlib.util.find_spec("envpool") is not None:
        add("CartPole", "EnvPool", n, make_envpool, n)


def make_unwrapped(*args: Any, **kwargs: Any) -> Any:
    """Returns an environment without the wrappers of `make`."""
    return gymnasium.make(*args, **kwargs).unwrapped


def make_envpool(n: int) -> Any:
    """Returns EnvPool's CartPole."""
    import envpool

    return envpool.make("CartPole-v1", env_type="gymnasium", num_envs=n)


def targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compares the figures with what is to be reached."""

    def rate(name: str, n: int, task: str = "CartPole") -> float:
        found = [r for r in rows if r["task"] == task and r["num_envs"] == n and r["name"].startswith(name)]
        return max((r["steps_per_second"] for r in found), default=float("nan"))

    wanted = [
        ("N=1, unwrapped", rate("ours, unwrapped", 1), 30_000),
        ("N=1, through make's wrappers", rate("ours, make", 1), 20_000),
        ("N=64", rate("ours", 64), 800_000),
        ("N=64, times SyncVectorEnv", rate("ours", 64) / rate("Gymnasium, SyncVectorEnv", 64), 7),
        ("N=1024", rate("ours", 1024), 4_000_000),
        ("N=256, 2 KB, copy=False", rate("ours, unix, copy=False", 256, "2 KB, no simulation"), 2_000_000),
    ]
    return [
        {"what": what, "got": got, "target": target, "reached": got >= target}
        for what, got, target in wanted
        if got == got
    ]


def markdown(report: dict[str, Any]) -> str:
    """Returns the report as Markdown."""
    lines = [
        f"{report['machine']}; {report['versions']}; median of {report['rounds']} interleaved rounds "
        f"of {report['seconds']} s.",
        "",
        "| task | environment | N | steps/s | call p50 (µs) | call p99 (µs) |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for r in report["rows"]:
        rate = f"{r['steps_per_second']:,.0f}"
        lines.append(
            f"| {r['task']} | {r['name']} | {r['num_envs']} | {rate} "
            f"| {r['call_us_p50']:.1f} | {r['call_us_p99']:.1f} |"
        )
    lines += ["", "| target | measured | required | |", "|---|--:|--:|---|"]
    for t in report["targets"]:
        mark = "yes" if t["reached"] else "no"
        lines.append(f"| {t['what']} | {t['got']:,.1f} | ≥ {t['target']:,} | {mark} |".replace(".0 |", " |"))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a case in a round")
    parser.add_argument("--quick", action="store_true", help="N = 1 and 64 only")
    parser.add_argument("--only", default="", help="measure the cases only whose task begins with this")
    parser.add_argument("--json", type=Path, help="file for the report as JSON")
    parser.add_argument("--markdown", type=Path, help="file for the table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(args=["--listen", "127.0.0.1:0"]))
        binary = build_wide(stack.enter_context(tempfile.TemporaryDirectory()))
        wide = stack.enter_context(Server(binary))
        opened = cases(server, wide, args.quick, args.only)
        for case in opened:
            stack.callback(case.env.close)
            case.round(0.05)
            case.rates.clear()
            case.calls.clear()
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            for case in opened:
                case.round(args.seconds)
        rows = [case.row() for case in opened]
    report = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "versions": f"Python {platform.python_version()}, NumPy {np.__version__}, Gymnasium {gymnasium.__version__}",
        "rounds": args.rounds,
        "seconds": args.seconds,
        "rows": rows,
        "targets": targets(rows),
    }
    table = markdown(report)
    print(table)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")
    return 1 if args.check and not all(t["reached"] for t in report["targets"]) else 0


if __name__ == "__main__":
    sys.exit(main())
