"""What errors say: the cause, what was given, and what to do."""

from __future__ import annotations

import copy
import os
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import TimeAwareObservation

from kubernasium import errors
from kubernasium.launcher import Server
from kubernasium.protocol import Connection, Vector, connect
from kubernasium.registration import catalog
from kubernasium.sb3 import VecEnv

CARTPOLE = "classic/CartPole-v1"
GANG = "k8s/GangWindow-v0"
IDS = [spec["id"] for spec in catalog() if "Kwok" not in spec["id"]]


def python_message(name: str) -> str:
    """Returns the core of what Python says of an unexpected keyword argument."""

    def function() -> None: ...

    with pytest.raises(TypeError) as caught:
        function(**{name: 4})
    return re.search(r"got an unexpected keyword argument '\w+'", str(caught.value)).group()


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("make", [gymnasium.make, gymnasium.make_vec], ids=["make", "make_vec"])
def test_unknown_option(make: Any, env_id: str) -> None:
    """As of any Python function, which libraries such as TorchRL try with their own arguments."""
    with pytest.raises(TypeError, match=python_message("frameskip")) as caught:
        make(env_id, frameskip=4)
    assert isinstance(caught.value, errors.UnknownOptionError)
    assert isinstance(caught.value, errors.InvalidOptionError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.reason == "INVALID_OPTION"


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(errors.UnknownOptionError, match="'window'; did you mean \"windows\"") as caught:
        gymnasium.make_vec(GANG, window=3)
    assert caught.value.option == "window"
    with pytest.raises(errors.InvalidOptionError, match="want 1 to 20") as caught:
        gymnasium.make(GANG, windows=0)
    assert not isinstance(caught.value, TypeError)
    with gymnasium.make(CARTPOLE) as env, pytest.raises(errors.UnknownOptionError, match="lowest"):
        env.reset(options={"lowest": 1})


FILES = [
    (GANG, "data", "no/such/folder"),
    (GANG, "profile", "no.csv"),
    ("k8s/GPUPodScheduling-v0", "nodes", "no.csv"),
    ("k8s/GPUPodScheduling-v0", "pods", ["no.csv"]),
    ("k8s/PodBalance-v0", "deployments", "no.csv"),
    ("k8s/VerticalPodAutoscaler-v0", "data", "no.csv"),
    ("k8s/LRAPlacement-v0", "table", "no.csv"),
]


@pytest.mark.parametrize(("env_id", "option", "value"), FILES)
def test_cause_of_a_wrong_path(
    url: str, env_id: str, option: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes to the client of a server on this machine, with the path from the client's folder."""
    monkeypatch.chdir(tmp_path)
    name = value[0] if isinstance(value, list) else value
    for path in (value, [Path(name)] if isinstance(value, list) else Path(name), tmp_path / name):
        given = [path] if isinstance(value, list) and not isinstance(path, list) else path
        with pytest.raises(errors.KubernasiumError) as caught:
            gymnasium.make(env_id, url=url, **{option: given})
        assert str(tmp_path / name) in str(caught.value)
        assert "no such file" in str(caught.value)


def test_paths_are_the_clients(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones work from the client's folder, at any time and by any type."""
    (tmp_path / "sub").mkdir()
    rows = "name,pod_count,cpu_request,mem_request\na,3,500m,1.0Gi\nb,2,1000m,2.0Gi\n"
    (tmp_path / "sub" / "d.csv").write_text(rows, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    first = None
    for path in (Path("sub/d.csv"), "sub/d.csv", tmp_path / "sub" / "d.csv", "./sub/../sub/d.csv"):
        with gymnasium.make("k8s/PodBalance-v0", url=url, deployments=path) as env:
            obs = env.reset(seed=1)[0]
            first = obs if first is None else first
            assert data_equivalence(obs, first)
    monkeypatch.chdir(tmp_path / "sub")
    with gymnasium.make("k8s/PodBalance-v0", url=url, deployments=Path("d.csv")) as env:
        assert data_equivalence(env.reset(seed=1)[0], first)


def test_only_a_local_client_sends_its_folder(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server on another machine has other folders: relative paths are then its own."""
    (tmp_path / "d.csv").write_text("name,pod_count,cpu_request,mem_request\na,3,500m,1.0Gi\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert Vector(connection, "k8s/PodBalance-v0", options={"deployments": "d.csv"}).num_envs == 1
    connection.local = False
    with pytest.raises(errors.InvalidOptionError, match=r"d\.csv: no such file"):
        Vector(connection, "k8s/PodBalance-v0", options={"deployments": "d.csv"})


def test_a_removed_working_directory(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with gymnasium.make(GANG, url=url, steps=20) as env:
        env.reset(seed=0)


def test_id_of_the_cause_beyond_loopback() -> None:
    """A server that others reach keeps the cause, and the message has the id of its log's line."""
    os.environ["KUBERNASIUM_TOKEN"] = "s3cret"
    try:
        with Server(args=["--listen", "0.0.0.0:0", "--deny-files=false"]) as server:
            with connect(server.url) as connection, pytest.raises(errors.InvalidOptionError) as caught:
                connection.request("make", env=GANG, options={"data": "/no/such/folder"})
            assert "/no/such" not in str(caught.value)
            found = re.search(r"error_id=[0-9a-f]{12}", str(caught.value)).group()
            assert [line for line in server.log_tail().splitlines() if found in line and "/no/such/folder" in line]
    finally:
        del os.environ["KUBERNASIUM_TOKEN"]


def test_unauthenticated_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNASIUM_TOKEN", "s3cret")
    with Server(args=["--listen", "127.0.0.1:0"]) as server:
        monkeypatch.delenv("KUBERNASIUM_TOKEN")
        with pytest.raises(errors.UnauthenticatedError, match=r"wants a bearer token.*KUBERNASIUM_TOKEN"):
            gymnasium.make(GANG, url=server.ws_url)
        monkeypatch.setenv("KUBERNASIUM_TOKEN", "guess")
        with pytest.raises(errors.UnauthenticatedError, match=r"refuses the token.*KUBERNASIUM_TOKEN") as caught:
            gymnasium.make(GANG, url=server.ws_url)
        assert "guess" not in str(caught.value)


def test_refused_num_envs_names_the_flag() -> None:
    with Server(args=["--max-envs-make", "8", "--max-envs-session", "6", "--max-envs", "5"]) as server:
        with pytest.raises(errors.BusyError, match=r"n is 9, want at most 8.*--max-envs-make"):
            gymnasium.make_vec(CARTPOLE, 9, url=server.url)
        with pytest.raises(errors.BusyError, match=r"--max-envs-session.*--max-envs"):
            gymnasium.make_vec(CARTPOLE, 7, url=server.url)


# Names of types that Go and its libraries use, and Python and the protocol do not.
GO = re.compile(r"interface ?\{|int64|uint8|float64|map\[|\[\]|\*[a-z]+\.|%!|msgpack|struct|unconvertible|nil pointer")


@pytest.mark.parametrize(
    "options",
    [
        {"windows": "x"},
        {"windows": [1]},
        {"windows": True},
        {"windows": {"a": 1}},
        {"windows": b"x"},
        {"windows": 1.5},
        {"windows": 1e300},
        {"windows": np.zeros(3)},
        {"data": 3},
        {"data": ["x"]},
        {"window": 3},
        {"num_envs": "x"},
        {"num_envs": 2.5},
        {"threads": "x"},
        {"max_episode_steps": "x"},
        {"max_episode_steps": [1]},
    ],
    ids=str,
)
def test_no_types_of_go_in_messages(options: dict[str, Any]) -> None:
    with pytest.raises((errors.InvalidArgumentError, ValueError, TypeError)) as caught:
        gymnasium.make_vec(GANG, **options)
    assert not GO.search(str(caught.value)), caught.value
    assert next(iter(options)).replace("num_envs", "n") in str(caught.value)


def test_no_types_of_go_in_a_resets_message() -> None:
    with gymnasium.make(GANG) as env, pytest.raises(errors.InvalidOptionError, match="given speed") as caught:
        env.reset(seed=0, options={"speed": 1})
    assert not GO.search(str(caught.value))


@pytest.mark.parametrize(("env_id", "limit"), [(GANG, 400), ("k8s/VerticalPodAutoscaler-v0", 1440), (CARTPOLE, 500)])
def test_specs_name_the_time_limit(env_id: str, limit: int) -> None:
    """The documented limits, so that Gymnasium's TimeAwareObservation knows how much time is left."""
    with gymnasium.make(env_id) as env:
        assert env.spec.max_episode_steps == limit
        aware = TimeAwareObservation(env, normalize_time=True)
        aware.reset(seed=0)
        obs, *_ = aware.step(env.action_space.sample())
        assert obs[-1] == pytest.approx(1 / limit)
    with gymnasium.make_vec(env_id, 2) as envs:
        assert envs.spec.max_episode_steps == limit
    with VecEnv(env_id, 2) as envs:
        assert [spec.max_episode_steps for spec in envs.get_attr("spec")] == [limit, limit]


def test_specs_name_the_limit_of_the_options() -> None:
    with gymnasium.make(GANG, steps=11) as env:
        assert env.spec.max_episode_steps == 11
        with gymnasium.make(env.spec) as again:
            assert again.spec.max_episode_steps == 11
    with gymnasium.make(GANG, max_episode_steps=5) as env:
        assert env.spec.max_episode_steps == 5
    with gymnasium.make("k8s/PodBalance-v0") as env:
        assert env.spec.max_episode_steps is None  # episodes end when the pods are placed


def makers() -> dict[str, Any]:
    return {
        "env": lambda url: gymnasium.make(GANG, url=url).unwrapped,
        "vector": lambda url: gymnasium.make_vec(GANG, 2, url=url),
        "sb3": lambda url: VecEnv(GANG, 2, url=url),
    }


@pytest.mark.parametrize("kind", makers())
def test_copies_name_snapshots(kind: str, url: str) -> None:
    env = makers()[kind](url)
    env.reset()
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"snapshot\(\).*restore\(\)"):
            copied(env)
    env.close()


@pytest.mark.parametrize("kind", makers())
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of fork beside threads
def test_use_across_fork(kind: str, url: str) -> None:
    """The child gets an error with both pids, and the parent's environment continues."""
    env = makers()[kind](url)
    env.reset()
    action = 0 if kind == "env" else np.zeros(2, np.int64)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for call in (lambda: env.step(action), env.reset):
            try:
                call()
            except errors.ForkedError as err:
                said.append(str(err))
        env.close()
        os.write(write, "\n".join(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read().splitlines()
    assert os.waitpid(child, 0)[1] == 0
    assert len(said) == 2
    for message in said:
        assert f"process {child} uses" in message
        assert f"of process {os.getpid()}" in message
    env.step(action)
    env.close()
