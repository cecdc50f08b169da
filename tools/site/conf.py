"""Sphinx's configuration of the site; tools/site/build.py copies it beside the staged pages."""

import os
import re
import sys

sys.path.insert(0, os.environ["SITE_PYTHON"])  # clients/python/src

project = "Kubernasium"
author = copyright = "the Kubernasium authors"
version = release = os.environ["SITE_VERSION"]
html_title = f"Kubernasium {version}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 6
suppress_warnings = ["ref.python"]  # VectorEnv is a name in two modules
highlight_language = "none"
default_role = "literal"  # docstrings mark code by single backticks

autodoc_default_options = {"members": True, "show-inheritance": True, "member-order": "bysource"}
autodoc_mock_imports = ["ray", "safetensors", "sb3_contrib", "stable_baselines3", "tianshou", "torch", "gym", "minari"]
autodoc_typehints = "signature"
napoleon_numpy_docstring = False

html_theme = "furo"
html_favicon = "_static/icon.svg"
html_theme_options = {"top_of_page_buttons": [], "footer_icons": []}
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
# versions.js lies above the version's folder, for all versions; site.js makes the switch of it.
html_js_files = ["site.js"]
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "versions.html", "sidebar/scroll-start.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
html_copy_source = html_show_sourcelink = False
html_use_index = html_domain_indices = False
html_permalinks_icon = "#"


def as_rst(app, what, name, obj, options, lines):
    """Marks the indented code of docstrings, which is written as in Markdown, and escapes lone stars."""
    out, code = [], False
    for i, line in enumerate(lines):
        blank = i == 0 or not lines[i - 1].strip()
        if line.startswith("    ") and blank and not code:
            code = True
            out += ["::", ""]
        elif line.strip() and not line.startswith("    "):
            code = False
        out.append(line if code else re.sub(r"(?<![\w`*])(\*+)(?=\w)", lambda m: "".join("\\*" for _ in m[1]), line))
    lines[:] = out


def setup(app):
    """Runs as_rst before napoleon, whose sections have no blank line above their indented lines."""
    app.connect("autodoc-process-docstring", as_rst, priority=100)
