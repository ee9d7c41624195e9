# SPDX-License-Identifier: BSD-3-Clause
# Sphinx reads this file where build.py has put it: build/docs/source.
project = "reel"
extensions = ["breathe", "myst_parser"]
breathe_projects = {"reel": "../xml"}
breathe_default_project = "reel"
breathe_show_include = False
breathe_default_members = ("members",)
primary_domain = "cpp"
highlight_language = "cpp"
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "240px", "description": "Models as plain C++ programs"}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = html_show_sourcelink = False
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "myst.xref_missing", "duplicate_declaration.cpp"]
