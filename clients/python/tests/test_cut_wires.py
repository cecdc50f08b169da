"""Connections that are cut: the session is resumed, and each request is carried out once."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chaos import CARTPOLE, MAKERS, WELCOME, CuttingProxy, fake, play
from kubernasium.launcher import Server
from kubernasium.protocol import Vector, connect


@pytest.mark.parametrize("make", MAKERS, ids=["env", "masked env", "vector", "masked vector"])
def test_cut_wires(make: Callable[..., Any], server: Server) -> None:
    """A hundred cuts anywhere in the stream: no step is lost or taken twice."""
    steps = 1500
    with make(url=server.ws_url) as undisturbed:
        want = play(undisturbed, steps)
        counted = undisturbed.vector.stats()
    with CuttingProxy(server.ws_url, 2500, 100) as proxy, make(url=proxy.url) as envs:
        assert play(envs, steps) == want
        assert proxy.cuts == 100
        got = envs.vector.stats()
        assert {key: got[key] for key in ("steps", "resets", "episodes")} == {
            key: counted[key] for key in ("steps", "resets", "episodes")
        }


def test_lost_replies_of_several_requests(server: Server) -> None:
    """A server keeps the last reply only; after a cut the environments are rebuilt where more are missing."""
    with connect(server.ws_url) as connection, connect(server.url) as other:
        pair, twins = ([Vector(each, CARTPOLE, 2) for _ in range(2)] for each in (connection, other))
        for vectors in (pair, twins):
            for i, vector in enumerate(vectors):
                vector.reset(seed=i)
        for vector in pair:
            vector._log.wait = math.inf  # no state after a slow step: `_expect` is to be the length of a step's reply
        sids = set()
        for t in range(12):
            actions = np.array([t % 2, t // 2 % 2])
            for vector in pair:
                vector.step_async(actions)
            want = [twin.step(actions)["obs"] for twin in twins]
            if t % 4 == 1:
                lost = connection.transport
                while len(lost.sock.recv(1 << 16, socket.MSG_PEEK)) < 2 * lost._expect:
                    pass
                lost.abandon()  # with both replies unread
                sids.add(connection.sid)
            for vector, obs in zip(pair, want, strict=True):
                np.testing.assert_array_equal(vector.step_wait()["obs"], obs)
        assert len(sids) == 3  # a new session after each loss


def test_a_lease_that_stands_is_resumed(server: Server) -> None:
    with connect(server.ws_url) as connection:
        vector = Vector(connection, CARTPOLE, 2)
        vector.reset(seed=1)
        sid = connection.sid
        connection.transport.sock.shutdown(socket.SHUT_RDWR)
        assert vector.stats()["resets"] == 1
        assert connection.sid == sid


def test_running_and_the_missed_reply() -> None:
    """The client tries again while the server says RUNNING, and gets the reply that it missed with its id."""
    hellos: list[dict] = []
    again: list[dict] = []  # must not come
    ended = threading.Event()

    def first(receive: Any, send: Any) -> None:
        send(WELCOME | {"id": receive()["id"]})
        send({"t": "stats.ok", "id": receive()["id"], "steps": 1})
        hellos.append(receive())  # the request whose reply does not come

    def running(receive: Any, send: Any) -> None:
        hellos.append(receive())
        busy = {"t": "err", "code": "UNAVAILABLE", "reason": "RUNNING", "msg": "", "retry_after_ms": 20}
        send(busy | {"id": hellos[-1]["id"]})

    def missed(receive: Any, send: Any) -> None:
        hellos.append(receive())
        send(WELCOME | {"id": hellos[-1]["id"], "last": hellos[0]["id"]})
        send({"t": "stats.ok", "id": hellos[0]["id"], "steps": 2})
        with contextlib.suppress(struct.error):
            again.append(receive())
        ended.set()

    with fake(first, running, running, missed) as connection:
        assert connection.request("stats")["steps"] == 1
        assert connection.request("stats")["steps"] == 2
        connection.close()
        ended.wait(60)
    assert not again
    request, *rest = hellos
    assert [hello["resume"] for hello in rest] == [{"sid": "x", "token": "y", "last": request["id"] - 1}] * 3


def test_a_request_that_did_not_arrive_is_sent_again_with_its_id() -> None:
    asked: list[dict] = []

    def first(receive: Any, send: Any) -> None:
        send(WELCOME | {"id": receive()["id"]})
        asked.append(receive())

    def second(receive: Any, send: Any) -> None:
        hello = receive()
        send(WELCOME | {"id": hello["id"], "last": asked[0]["id"] - 1})
        asked.append(receive())
        send({"t": "stats.ok", "id": asked[1]["id"], "steps": 3})

    with fake(first, second) as connection:
        assert connection.request("stats")["steps"] == 3
    assert asked[0] == asked[1]
