"""The bundled server's life: started when needed, gone with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest

from kubernasium import launcher
from kubernasium.errors import ServerStartError
from kubernasium.launcher import Server
from kubernasium.protocol import connect


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new Python that finds the package as this one does."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def alive(pid: int) -> bool:
    """Reports whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


PLAY = """
import gymnasium, kubernasium
from kubernasium.launcher import default_server
env = gymnasium.make("k8s/GangWindow-v0")
obs, info = env.reset(seed=1)
env.step(0)
server = default_server()
print(server.pid, server.log.parent, flush=True)
"""


def test_starts_by_itself_and_stops_at_exit() -> None:
    done = python(PLAY + "env.close()")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    pid, folder = done.stdout.split()
    assert not alive(int(pid))
    assert not Path(folder).exists()


def test_use_after_the_end_of_the_server_at_exit() -> None:
    """A handler that runs after the package's own ones: another server starts, and takes over the environment."""
    code = """
        import atexit
        envs = []
        atexit.register(lambda: (envs[0].step(0), envs[0].close(), print("stepped")))
        import gymnasium, kubernasium
        envs.append(gymnasium.make("classic/CartPole-v1"))
        envs[0].reset(seed=1)
    """
    done = python(code)
    assert done.stdout == "stepped\n", done.stderr
    assert "ended with exit status 0" in done.stderr


def test_without_unix_sockets() -> None:
    """As on Windows: the server listens on loopback, wants a token that is nowhere in its arguments, and ends alike."""
    code = """
        import asyncio, os, pathlib, socket
        unix = socket.AF_UNIX
        del socket.AF_UNIX, os.pread
        import gymnasium, kubernasium
        socket.AF_UNIX = unix  # for asyncio's own pairs of sockets
        from kubernasium import aio, errors, protocol
        from kubernasium.launcher import default_server
        env = gymnasium.make("k8s/GangWindow-v0")
        obs, info = env.reset(seed=1)
        server = default_server()
        assert server.url.startswith("ws://127.0.0.1:") and server.token, server.url
        assert server.token not in pathlib.Path(f"/proc/{server.pid}/cmdline").read_text()
        try:
            protocol.connect(server.url, token="guessed")
        except errors.UnauthenticatedError:
            print("refused")
        async def play():
            async with aio.make("classic/CartPole-v1") as env:
                return (await env.reset(seed=1))[0].shape == (4,)
        print(asyncio.run(play()), server.log_tail() == "", server.pid, server.log.parent)
        env.step(0)
    """
    done = python(code)
    assert done.returncode == 0, done.stderr
    refused, line = done.stdout.splitlines()
    asynchronous, quiet, pid, folder = line.split()
    assert (refused, asynchronous, quiet) == ("refused", "True", "True"), done.stdout
    assert not alive(int(pid))
    assert not Path(folder).exists()


def test_the_program_of_a_wheel_serves_as_its_command() -> None:
    assert launcher.server_command("/x/kubernasium.exe") == ["/x/kubernasium.exe", "serve"]
    assert launcher.server_command("/x/kubernasium-server") == ["/x/kubernasium-server"]


def test_importing_starts_no_server() -> None:
    code = "import kubernasium, gymnasium; gymnasium.spec('k8s/GangWindow-v0'); print(kubernasium.launcher._default)"
    done = python(code, KUBERNASIUM_SERVER="/nowhere")
    assert done.stdout == "None\n", done.stderr


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os._exit(3)", "ctypes.string_at(0)"]
)
def test_server_ends_with_a_crashed_process(end: str) -> None:
    """Nothing is left of it, in the folder for temporary files either."""
    done = python(f"import os, ctypes{PLAY}{end}")
    assert done.returncode != 0
    pid, folder = done.stdout.split()
    assert eventually(lambda: not alive(int(pid)))
    assert eventually(lambda: not Path(folder).exists())


def test_one_server_for_a_process_and_its_forks() -> None:
    code = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
        import gymnasium, kubernasium, numpy as np
        from kubernasium.launcher import default_server
        one, two = gymnasium.make("k8s/GangWindow-v0"), gymnasium.make_vec("classic/CartPole-v1", 2)
        pid = default_server().pid
        envs = gymnasium.make_vec("classic/CartPole-v1", 3, vectorization_mode="async")
        obs, _ = envs.reset(seed=1)
        np.testing.assert_array_equal(obs, gymnasium.make_vec("CartPole-v1", 3, "sync").reset(seed=1)[0])
        envs.step(np.zeros(3, int))
        envs.close()
        assert default_server().pid == pid
        one.reset(seed=1)
        one.close(); two.close()
        print(pid)
    """
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert not alive(int(done.stdout))


def test_server_ends_although_a_fork_lives() -> None:
    code = f"""{PLAY}
import os, time
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
os._exit(1)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        pid = int(process.stdout.readline().split()[0])
        process.wait(30)
        assert eventually(lambda: not alive(pid))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()


def test_interrupt_reaches_python_only() -> None:
    code = f"""{PLAY}
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(30)
except KeyboardInterrupt:
    env.reset(seed=2)
    env.close()
    print("still there")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, start_new_session=True, check=False
    )
    assert "still there" in done.stdout, done.stderr


def test_url_of_the_environment_is_used(server: Server) -> None:
    for url in (server.url, server.ws_url):
        done = python(
            "import gymnasium, kubernasium; print(gymnasium.make('k8s/GangWindow-v0').reset(seed=1)[0].shape);"
            "print(kubernasium.launcher._default)",
            KUBERNASIUM_URL=url,
            KUBERNASIUM_SERVER="/nowhere",
        )
        assert done.stdout == "(41,)\nNone\n", done.stderr


def test_register_of_another_server(server: Server) -> None:
    done = python(
        f"""
        import gymnasium, kubernasium
        del gymnasium.registry["k8s/GangWindow-v0"]
        assert kubernasium.register({server.ws_url!r}) == ["k8s/GangWindow-v0"]
        gymnasium.make("k8s/GangWindow-v0").reset()
        """,
        KUBERNASIUM_SERVER="/nowhere",
    )
    assert done.returncode == 0, done.stderr


LOST = """
import os, signal, sys
import gymnasium, kubernasium, numpy as np
from kubernasium.launcher import default_server
from kubernasium.errors import ConnectionLostError, InvalidOptionError

def kill(call):
    try:
        gymnasium.make("k8s/GangWindow-v0", data="/no/such/folder")
    except InvalidOptionError:  # the server's log has it
        pass
    pid = default_server().pid
    os.kill(pid, signal.SIGKILL)
    try:
        call()
    except ConnectionLostError as err:
        message = str(err)
    assert f"process {pid}" in message and "signal 9 (Killed)" in message, message
    assert "last lines of its log" in message and "/no/such/folder" in message, message
    try:
        call()
    except ConnectionLostError as err:
        assert "`reset` connects again" in str(err), err
"""


@pytest.mark.parametrize(
    "play",
    [
        """
env = gymnasium.make("k8s/GangWindow-v0", steps=20, reconnect=0)
first, _ = env.reset(seed=3)
kill(lambda: env.step(0))
again, _ = env.reset(seed=3)
np.testing.assert_array_equal(again, first)
""",
        """
env = gymnasium.make_vec("k8s/GangWindow-v0", 3, steps=20, reconnect=0)
first, _ = env.reset(seed=3)
kill(lambda: env.step(np.zeros(3, int)))
try:
    env.reset(options={"reset_mask": np.array([True, False, False])})
except ConnectionLostError as err:
    assert "reset_mask" in str(err), err
else:
    raise AssertionError("environments that are lost were not to be reset")
np.testing.assert_array_equal(env.reset(seed=3)[0], first)
env.step(np.zeros(3, int))
""",
        """
from kubernasium.sb3 import VecEnv
env = VecEnv("k8s/GangWindow-v0", 3, seed=3, steps=20, reconnect=0)
first = env.reset()
kill(lambda: env.step(np.zeros(3, int)))
env.seed(3)
np.testing.assert_array_equal(env.reset(), first)
env.step(np.zeros(3, int))
""",
        """
from kubernasium.sb3 import VecEnv
env = VecEnv("classic/CartPole-v1", 2, reconnect=0)
env.reset()
kill(lambda: env.step(np.zeros(2, int)))
env.set_options([{"low": 0.01, "high": 0.02}, {"low": 0.03, "high": 0.04}])
obs = env.reset()
assert (obs[0] < 0.021).all() and (obs[1] > 0.029).all(), obs
env.step(np.zeros(2, int))
""",
        """
env = gymnasium.make("k8s/GangWindow-v0", steps=20)
first, _ = env.reset(seed=3)
os.kill(default_server().pid, signal.SIGKILL)  # and the first call is a reset
np.testing.assert_array_equal(env.reset(seed=3)[0], first)
""",
    ],
    ids=["env", "vector", "sb3", "sb3 with options", "reset first"],
)
def test_reset_after_the_servers_death(play: str) -> None:
    done = python(LOST + play + "env.step(0) if not hasattr(env, 'num_envs') else None; env.close(); print('on')")
    assert done.stdout == "on\n", done.stderr


def test_a_dead_servers_folder_is_removed() -> None:
    """A server that was killed cannot remove it, so its successor's process does."""
    done = python(
        "import os, signal, gymnasium, kubernasium; from kubernasium.launcher import default_server; "
        "env = gymnasium.make('k8s/GangWindow-v0', steps=20); env.reset(); dead = default_server(); "
        "os.kill(dead.pid, signal.SIGKILL); env.reset(); "
        "assert default_server() is not dead; print(os.path.exists(dead.log.parent))"
    )
    assert done.stdout == "False\n", done.stderr


def test_end_of_the_server_is_told() -> None:
    with Server() as server:
        assert server.post_mortem(0) == ""
    assert "ended with exit status 0" in server.post_mortem()


def test_missing_server_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNASIUM_SERVER", str(tmp_path))
    with pytest.raises(ServerStartError, match="no executable file"):
        launcher.find_server()
    monkeypatch.delenv("KUBERNASIUM_SERVER")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launcher, "__file__", str(tmp_path / "launcher.py"))
    with pytest.raises(ServerStartError, match="KUBERNASIUM_URL"):
        launcher.find_server()


def test_server_that_does_not_start() -> None:
    with pytest.raises(ServerStartError, match="max-dances"):
        Server(args=["--max-dances", "3"])
    with pytest.raises(ServerStartError):
        Server(binary="/bin/false")


def test_stop() -> None:
    with Server() as server:
        connection = connect(server.url, reconnect=0)
        assert server.running
    server.stop()
    assert not server.running
    with pytest.raises(ConnectionError):
        connection.request("ping")
    connection.close()


def test_protocol_without_gymnasium(server: Server) -> None:
    code = f"""
        import sys
        sys.modules["gymnasium"] = None  # importing it fails
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *a: None if name == "gymnasium" else find(name, *a)
        from kubernasium import protocol
        with protocol.connect({server.url!r}) as connection:
            vector = protocol.Vector(connection, "classic/CartPole-v1", 2)
            print(vector.reset(seed=1)["obs"].shape)
        assert not any(name.startswith("gymnasium.") for name in sys.modules)
    """
    done = python(code)
    assert done.stdout == "(2, 4)\n", done.stderr


def test_ids_are_registered() -> None:
    assert {"classic/CartPole-v1", "k8s/GangWindow-v0"} <= set(gymnasium.registry)


def test_finds_the_control_plane_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubernasium-kwok is named to programs, unless the user names another one."""
    program = tmp_path / "kubernasium_kwok" / "bin" / "controlplane"
    environment = {"PATH": "/bin"}
    launcher.find_control_plane(environment)
    assert environment == {"PATH": "/bin"}  # without the package
    monkeypatch.syspath_prepend(tmp_path)
    program.parent.mkdir(parents=True)
    (program.parent.parent / "__init__.py").touch()
    launcher.find_control_plane(environment)
    assert environment == {"PATH": "/bin"}  # the package without its program
    program.touch()
    launcher.find_control_plane(environment)
    assert environment == {"PATH": "/bin", "KUBERNASIUM_CONTROLPLANE": str(program)}
    environment["KUBERNASIUM_CONTROLPLANE"] = "mine"
    launcher.find_control_plane(environment)
    assert environment["KUBERNASIUM_CONTROLPLANE"] == "mine"


def test_programs_get_the_control_plane(tmp_path: Path) -> None:
    """The console script and the bundled server run with KUBERNASIUM_CONTROLPLANE."""
    package = tmp_path / "kubernasium_kwok"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "bin" / "controlplane").touch()
    printer = tmp_path / "printer"
    printer.write_text(f'#!/bin/sh\necho "$KUBERNASIUM_CONTROLPLANE" > {tmp_path}/named\n')
    printer.chmod(0o755)
    for code in (
        f"from kubernasium.__main__ import become; become([{str(printer)!r}])",
        f"""
        from kubernasium.errors import ServerStartError
        from kubernasium.launcher import Server
        try:
            Server({str(printer)!r})
        except ServerStartError:  # it prints no line of JSON
            pass
        """,
    ):
        (tmp_path / "named").unlink(missing_ok=True)
        done = python(code, PYTHONPATH=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "named").read_text() == f"{package}/bin/controlplane\n"
