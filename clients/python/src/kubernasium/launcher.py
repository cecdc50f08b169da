"""The bundled server: finding its binary, starting it, and stopping it at exit."""

from __future__ import annotations

import atexit
import importlib.util
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from kubernasium.errors import ConnectionLostError, ServerStartError
from kubernasium.protocol.connection import DEFAULT_TIMEOUT, Connection
from kubernasium.protocol.dial import dialer, several
from kubernasium.protocol.resume import DEFAULT_RECONNECT
from kubernasium.protocol.shared import connect_unix, shares
from kubernasium.protocol.transport import Transport
from kubernasium.protocol.websocket import connect_websocket

PROGRAM = "kubernasium"  # in the wheel: the commands of the trainer, and the server as the command serve
BINARY = "kubernasium-server"
START_TIMEOUT = 60.0
UNIX_SOCKETS = hasattr(socket, "AF_UNIX")  # elsewhere the server listens on loopback and wants a token

_logger = logging.getLogger("kubernasium")

_ARGS = ["--exit-with-stdin", "--idle-timeout", "0", "--log-level", "warn"]
_TOKEN = "KUBERNASIUM_TOKEN"
_CONTROLPLANE = "KUBERNASIUM_CONTROLPLANE"

_MISSING = f"""this installation of kubernasium holds no server. Either
  - set KUBERNASIUM_URL to a running server, such as ws://127.0.0.1:8080, or
  - set KUBERNASIUM_SERVER to the server's binary (in a checkout of the repository:
    go build -o {BINARY} ./server), or
  - install a wheel for your platform, which holds one, or
  - install Go and then the package from a checkout: pip install ./clients/python"""


def bundled_program() -> Path | None:
    """Returns the path of the program in the package, or None if the package was built without it."""
    path = Path(__file__).parent / "bin" / (PROGRAM + (".exe" if sys.platform == "win32" else ""))
    return path if path.exists() else None


def find_control_plane(environment: MutableMapping[str, str]) -> None:
    """Names the control plane of the package kubernasium-kwok, if it is installed, to programs of this environment.

    Args:
        environment: of the program to start; KUBERNASIUM_CONTROLPLANE is set unless it is already.
    """
    if environment.get(_CONTROLPLANE):
        return
    spec = importlib.util.find_spec("kubernasium_kwok")
    for folder in (spec and spec.submodule_search_locations) or []:
        path = Path(folder, "bin", "controlplane")
        if path.exists():
            environment[_CONTROLPLANE] = str(path)


def find_server() -> Path:
    """Returns the path of the program that serves; `server_command` has its arguments.

    It is the one in KUBERNASIUM_SERVER, otherwise the one in the package, otherwise `kubernasium-server` on the PATH.

    Raises:
        ServerStartError: there is none; the message says how to get one.
    """
    named = os.environ.get("KUBERNASIUM_SERVER")
    if named:
        path = Path(named)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise ServerStartError(f"KUBERNASIUM_SERVER is {named!r}, which is no executable file")
        return path
    bundled = bundled_program()
    if bundled is not None:
        return bundled
    found = shutil.which(BINARY)
    if found is None:
        raise ServerStartError(_MISSING)
    return Path(found)


def server_command(program: str | os.PathLike[str] | None = None) -> list[str]:
    """Returns the first words of a command line that serves.

    Args:
        program: path of a server, or of the program of the wheel, whose command `serve` is the server; by default
            that of `find_server`.
    """
    path = find_server() if program is None else Path(program)
    return [str(path), "serve"] if path.stem == PROGRAM else [str(path)]


class Server:
    """A server process for this process, on a unix socket in a private folder.

    Where Python has no unix sockets, as on Windows, the server listens on loopback and requires a token:
    KUBERNASIUM_TOKEN or a random one.

    The server's standard input is a pipe from this process. When the pipe closes, also
    because this process was killed, the server stops.

    Attributes:
        url: where to connect.
        token: the server's bearer token; "" if it has none.
        ws_url: where to connect with WebSocket, if args hold `--listen`; otherwise "".
        log: the server's log. It is removed with the server; `log_tail` reads it then, too.
    """

    def __init__(self, binary: str | os.PathLike[str] | None = None, args: list[str] | None = None) -> None:
        """Starts the server and waits until it listens.

        Args:
            binary: path of the binary; by default that of `find_server`.
            args: further arguments of the command line.

        Raises:
            ServerStartError: it is missing or did not start; the message holds its log.
        """
        command = server_command(binary)
        # Of mode 0700. The path of a socket has about 100 bytes at most.
        base = "/tmp" if UNIX_SOCKETS and len(tempfile.gettempdir()) > 60 else None
        self._folder = Path(tempfile.mkdtemp(prefix="kubernasium-", dir=base))
        self._owner = os.getpid()
        self.log = self._folder / "server.log"
        environment = dict(os.environ)
        find_control_plane(environment)
        self.token = environment.get(_TOKEN, "")
        if UNIX_SOCKETS:
            path = self._folder / "socket"
            self.url = f"unix:{path}"
            # The server removes the folder at its end, for this process may be killed before it can.
            command += ["--listen", "", "--unix", str(path), "--remove-folder", str(self._folder)]
        else:
            self.token = environment[_TOKEN] = self.token or secrets.token_urlsafe()
            command += ["--listen", "127.0.0.1:0"]
        command += [*_ARGS, *(args or [])]
        self._log = os.open(self.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        # Not at the interpreter's exit, where handlers may still use environments, and read why their server ended.
        weakref.finalize(self, os.close, self._log).atexit = False
        try:
            # In a separate session, so that Ctrl-C reaches Python only.
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
            )
        except OSError as err:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise ServerStartError(f"start {command[0]}: {err}") from err
        self._finalizer = weakref.finalize(self, _stop, self._process, self._folder, self._owner)
        _servers.add(self)
        self.ws_url: str = self._wait_until_ready()["url"]
        if not UNIX_SOCKETS:
            self.url = self.ws_url

    def dial(self, timeout: float | None) -> Transport:
        """Connects to the server.

        Args:
            timeout: seconds to wait for each reply, or None to wait without end.
        """
        if self.url.startswith("unix:"):
            return connect_unix(self.url[len("unix:") :], timeout, shares())
        return connect_websocket(self.url, self.token, timeout)

    def _wait_until_ready(self) -> dict[str, Any]:
        """Returns the server's line of JSON, which it writes when it listens."""
        stdout = self._process.stdout
        assert stdout is not None
        line = b""

        def read() -> None:  # in a thread, for Windows cannot wait for input of a pipe
            nonlocal line
            line = stdout.readline()

        reader = threading.Thread(target=read, name="kubernasium-start", daemon=True)
        reader.start()
        reader.join(START_TIMEOUT)
        if reader.is_alive():
            self._process.kill()
            reader.join()
        stdout.close()
        try:
            ready: dict[str, Any] = json.loads(line)
        except ValueError:
            self._finalizer()
            raise ServerStartError(f"the server did not start; it says:\n{self.log_tail() or line!r}") from None
        return ready

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines of the server's log."""
        if hasattr(os, "pread"):
            size = os.fstat(self._log).st_size
            end = os.pread(self._log, 8192, max(0, size - 8192))
        else:  # Windows, which removes no file that is open
            end = self.log.read_bytes()[-8192:]
        text = end.decode("utf-8", "replace")
        return "\n".join(text.strip().splitlines()[-lines:])

    def post_mortem(self, patience: float = 1.0) -> str:
        """Returns how the server ended and the last lines of its log; "" if it is running.

        Args:
            patience: seconds to wait for the end of a server whose connections just broke.
        """
        if os.getpid() != self._owner:
            return ""
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return ""
        if status < 0:
            how = f"was killed by signal {-status} ({signal.strsignal(-status)})"
        else:
            how = f"ended with exit status {status}"
        return (
            f"the server (process {self.pid}) {how}. The last lines of its log:\n{self.log_tail() or '(it is empty)'}"
        )

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server runs; in a forked child of the owner, whether it answers."""
        if os.getpid() == self._owner:
            return self._process.poll() is None
        try:
            self.dial(1.0).close()
        except ConnectionLostError:
            return False
        return True

    def stop(self) -> None:
        """Stops the server, if this process started it. Further calls do nothing."""
        self._finalizer()

    def _forget(self) -> None:
        """Closes a forked child's copy of the pipe, which would keep the server alive."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _stop(process: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    if os.getpid() != owner:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


_servers: weakref.WeakSet[Server] = weakref.WeakSet()
_default: Server | None = None
_default_lock = threading.Lock()


def default_server() -> Server:
    """Returns this process's server and starts it at the first call.

    A forked child uses its parent's server.
    """
    global _default
    with _default_lock:
        if _default is None or not _default.running:
            if _default is not None:
                if why := _default.post_mortem():
                    _logger.warning("%s\nAnother server starts.", why)
                _default.stop()  # what it left behind
            _default = Server()
            atexit.register(_default.stop)
        return _default


def urls_of(url: str | Sequence[str] | None) -> list[str]:
    """Returns the URLs of servers: the given ones or those of KUBERNASIUM_URL; none means the bundled server."""
    url = url or os.environ.get("KUBERNASIUM_URL") or None
    return [] if url is None else several(url)


def open_connection(
    url: str | Sequence[str] | None = None,
    *,
    timeout: float | None = DEFAULT_TIMEOUT,
    reconnect: float = DEFAULT_RECONNECT,
    first: str = "",
) -> Connection:
    """Opens a session with the server at url.

    Args:
        url: where the server is; by default the environment variable KUBERNASIUM_URL, and
            without it the bundled server, which is started if necessary. Of several servers one is selected; the others
            take over if it no longer answers.
        first: index of the server to try first.
        timeout: seconds to wait for each reply, or None to wait without end.
        reconnect: seconds for which to reconnect after a lost connection, as in `protocol.connect`. The bundled server
            is restarted if it has died.
    """
    urls = urls_of(url)
    if not urls:
        used: list[Server] = []

        def dial(timeout: float | None) -> Transport:
            used[:] = [default_server()]
            return used[0].dial(timeout)

        connection = Connection(dial(timeout), local=True, dial=dial, reconnect=reconnect)
        connection.post_mortem = lambda: used[0].post_mortem()
    else:
        dial_url, local = dialer(urls, first=first)
        connection = Connection(dial_url(timeout), local=local, dial=dial_url, reconnect=reconnect)
    connection.remedy = "`reset` connects again"
    return connection


def _after_fork() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    for server in list(_servers):
        server._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
