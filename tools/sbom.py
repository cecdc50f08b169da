"""Writes the list of what an archive contains, as SPDX: sbom.py ARCHIVE DOCUMENT.

syft, which is on the PATH, finds the Go modules of the programs. Its document has a random name and the time of the
run. They become the archive's digest and the time of SOURCE_DATE_EPOCH: equal archives have equal documents.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

NAMESPACE = "https://github.com/kubernasium/kubernasium/sbom"


def sbom(archive: Path) -> dict:
    """Returns the document of an archive."""
    done = subprocess.run(
        ["syft", "scan", f"file:{archive}", "--output", "spdx-json", "--quiet", "--source-name", archive.name],
        env={**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false"},
        check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    document = json.loads(done.stdout)
    created = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    document["creationInfo"]["created"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    document["documentNamespace"] = f"{NAMESPACE}/{archive.name}-{digest}"
    for key in ("packages", "files", "relationships"):
        document.get(key, []).sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    return document


def main() -> None:
    """Runs the command line."""
    archive, out = (Path(name) for name in sys.argv[1:])
    out.write_text(json.dumps(sbom(archive), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
