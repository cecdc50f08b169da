"""Rewrites src/kubernasium/catalog.json from a server.

    go build -o /tmp/kubernasium-server ./server
    KUBERNASIUM_SERVER=/tmp/kubernasium-server python clients/python/tools/update_catalog.py

Run it when an environment is added or removed, or its time limit, its threshold or its
determinism changes; test_catalog.py fails until then.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "kubernasium"
sys.path.insert(0, str(PACKAGE.parent))

from kubernasium.launcher import open_connection  # noqa: E402
from kubernasium.registration import CATALOG_KEYS  # noqa: E402


def main() -> None:
    """Writes the catalog of the server that KUBERNASIUM_URL or KUBERNASIUM_SERVER names."""
    with open_connection() as connection:
        specs = connection.request("envs")["envs"]
    entries = [{key: spec[key] for key in CATALOG_KEYS} for spec in specs]
    text = json.dumps(entries, indent=1) + "\n"
    (PACKAGE / "catalog.json").write_text(text, encoding="utf-8")
    print(f"{len(specs)} environments: {', '.join(spec['id'] for spec in specs)}")


if __name__ == "__main__":
    main()
