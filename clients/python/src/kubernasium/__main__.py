"""`python -m kubernasium`: serves environments, lists and describes them. `program`: the command `kubernasium`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
from typing import Any, NoReturn

from kubernasium.errors import KubernasiumError
from kubernasium.launcher import PROGRAM, bundled_program, find_control_plane, open_connection, server_command
from kubernasium.protocol.vector import Vector
from kubernasium.spec_info import SpecInfo, spec_info

WIDTH = 100


def main(args: list[str] | None = None) -> int:
    """Runs a command.

    Args:
        args: of the command line, without the program's name; by default this process's.

    Returns:
        The exit status: 1 for an error of the server, 2 for invalid arguments.
    """
    args = sys.argv[1:] if args is None else args
    parser = argparse.ArgumentParser(
        prog="python -m kubernasium",
        description="Serve environments, which is also the command that no arguments mean, or list or describe them."
        " The server is the bundled one; list and describe ask that of KUBERNASIUM_URL if it is set.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    ls = commands.add_parser("list", help="the environments")
    ls.add_argument("filter", nargs="?", default="", help="only environments whose id contains it")
    ls.add_argument("--json", action="store_true", help="everything that the server says of them, as JSON")
    describe = commands.add_parser(
        "describe", help="spaces, options, baselines, and names of the observation's elements"
    )
    describe.add_argument("id")
    describe.add_argument("options", nargs="*", metavar="NAME=VALUE", help="options to make it with, such as windows=5")
    commands.add_parser(
        "serve",
        help="serve environments; arguments are the server's (serve --help)",
        add_help=False,
        prefix_chars="\0",  # all arguments are the server's
    ).add_argument("args", nargs=argparse.REMAINDER)
    # `python -m kubernasium --listen :9000` serves, too.
    if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
        args = ["serve", *args]
    given = parser.parse_args(args)
    try:
        if given.command == "list":
            return list_envs(given.filter, given.json)
        if given.command == "describe":
            return describe_env(given.id, dict(parse_option(text) for text in given.options))
        become([*server_command(), *given.args])
    except (KubernasiumError, ValueError) as err:
        print(f"kubernasium: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def program() -> int:
    """Runs the program of the package with the arguments of this process: the console script `kubernasium`."""
    path = bundled_program()
    if path is not None:
        become([str(path), *sys.argv[1:]])
    print(
        f"{PROGRAM}: this installation was built without the program. Install a wheel for your platform, or in a"
        " checkout of the repository use `go run ./trainer`.",
        file=sys.stderr,
    )
    return 1


def become(command: list[str]) -> NoReturn:
    """Ends this process with a command's exit status; on POSIX the command takes its place, and so its signals."""
    find_control_plane(os.environ)
    if sys.platform != "win32":
        os.execv(command[0], command)
    with subprocess.Popen(command) as process:
        while True:
            try:
                sys.exit(process.wait())
            except KeyboardInterrupt:  # which the console sends to the command, too
                continue


def parse_option(text: str) -> tuple[str, Any]:
    """Returns name and value of NAME=VALUE; a value that is JSON is taken as such, others as text.

    Raises:
        ValueError: there is no `=`.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"option {text!r} is not of the form NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def list_envs(text: str, as_json: bool) -> int:
    """Prints the environments whose id contains text."""
    with open_connection() as connection:
        specs = connection.request("envs", filter=text or None)["envs"]
    if as_json:
        print(json.dumps(specs, indent=1))
        return 0
    width = max((len(spec["id"]) for spec in specs), default=0)
    for spec in specs:
        print(f"{spec['id']:{width}}  {spec['doc']}")
    return 0


def describe_env(env_id: str, options: dict[str, Any]) -> int:
    """Prints the description of an environment with the given options."""
    with open_connection() as connection:
        vector = Vector(connection, env_id, options=options)
        info = spec_info(vector)
        print(f"{info.id}\n{info.doc}\n")
        print(f"observation  {_space(vector.obs_space)}\naction       {_space(vector.act_space)}")
    print(f"time limit   {info.max_episode_steps or 'none'}")
    _table("Options of make", [(f"{o['name']} = {o['default']!r}", o["doc"]) for o in info.options])
    baselines = [(b["name"] + (" (clairvoyant)" if b["oracle"] else ""), b["doc"]) for b in info.baselines]
    _table("Baselines", [*baselines, ("random", "permitted actions, drawn uniformly")])
    _table("info", [(f"{c['name']} ({c['dtype']})", c["doc"]) for c in info.info])
    _features(info)
    return 0


def _space(space: dict[str, Any]) -> str:
    kind = space["kind"]
    if kind == "dict":
        parts = (f"{key}: {_space(part)}" for key, part in zip(space["keys"], space["parts"], strict=True))
        return f"Dict({', '.join(parts)})"
    if kind == "box":
        return f"Box({tuple(space['shape'])}, {space['dtype']})"
    return f"{kind.title().replace('_', '')}({', '.join(map(str, space['n']))})"


def _table(title: str, rows: list[tuple[str, str]]) -> None:
    if not rows:
        return
    print(f"\n{title}")
    width = max(len(name) for name, _ in rows) + 2
    for name, doc in rows:
        lines = textwrap.wrap(doc, max(40, WIDTH - width - 2)) or [""]
        print(f"  {name:{width}}{lines[0]}")
        for line in lines[1:]:
            print(f"  {'':{width}}{line}")


def _features(info: SpecInfo) -> None:
    names = info.feature_names
    if names is None:
        return
    for key, part in (names if isinstance(names, dict) else {"": names}).items():
        print(f"\nElements of {f'obs[{key!r}]' if key else 'obs'}, shape {part.shape}")
        first = part[0] if part.ndim > 1 and "." in part.flat[0] else part.ravel()
        print(textwrap.fill(", ".join(first.tolist()), WIDTH, initial_indent="  ", subsequent_indent="  "))
        if first.size < part.size:
            print(f"  … and so on to {part.flat[-1]}")


if __name__ == "__main__":
    sys.exit(main())
