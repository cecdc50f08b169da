"""Checks a built version of the site: every link and anchor leads somewhere, and nothing comes from another host.

Usage: python tools/site/check.py .cache/site/VERSION
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from build import REPOSITORY, ROOT


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that it loads, with their lines."""

    def __init__(self, path: Path) -> None:
        """Reads a page."""
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, int]] = []
        self.loads: list[tuple[str, int]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects what a tag names."""
        a = {k: v or "" for k, v in attrs}
        self.ids.update(v for v in (a.get("id"), a.get("name") if tag == "a" else None) if v)
        line = self.getpos()[0]
        if (tag in ("a", "area") and "href" in a) or (tag == "link" and a.get("rel") in ("next", "prev", "index", "search", "top")):
            self.links.append((a["href"], line))
        elif tag == "link":
            self.loads.append((a.get("href", ""), line))
        self.loads += [(a[k], line) for k in ("src", "poster", "data") if a.get(k)]


def check(folder: Path) -> tuple[list[str], int]:
    """Returns a line for each defect of the pages, and the number of links."""
    pages = {p.resolve(): Page(p) for p in sorted(folder.rglob("*.html"))}
    site = folder.resolve().parent
    bad, count = [], 0
    for path, page in pages.items():
        name = path.relative_to(site)
        for url, line in page.links + page.loads:
            count += 1
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if (url, line) in page.loads and parts.scheme != "data":
                    bad.append(f"{name}:{line}: loads {url}")
                elif why := outside(url):
                    bad.append(f"{name}:{line}: {why}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                bad.append(f"{name}:{line}: no file {url}")
            elif not target.is_relative_to(site):
                bad.append(f"{name}:{line}: {url} leads out of the site")
            elif parts.fragment and target.suffix == ".html":
                known = pages[target].ids if target in pages else Page(target).ids
                if unquote(parts.fragment) not in known:
                    bad.append(f"{name}:{line}: no anchor {url}")
    return bad, count


def outside(url: str) -> str:
    """Returns what is wrong with an address elsewhere, or nothing; that of the repository names a file of it."""
    for kind in ("blob", "tree"):
        prefix = f"{REPOSITORY}/{kind}/"
        if url.startswith(prefix):
            path = unquote(urlsplit(url[len(prefix) :].partition("/")[2]).path)
            if not (ROOT / path).exists():
                return f"the repository has no {path}"
    return "" if url.startswith(("https://", "http://", "mailto:")) else f"the address {url}"


def main() -> None:
    """Prints the defects."""
    folder = Path(sys.argv[1])
    bad, count = check(folder)
    print("\n".join(bad) or f"site: {count} links of {folder} lead somewhere")
    if bad or not count:
        sys.exit(1)


if __name__ == "__main__":
    main()
