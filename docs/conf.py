"""Sphinx's settings. The pages are not in this folder: docs_site/write.py writes them, see `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Stairwise"
author = "The Stairwise developers"
extensions = ["myst_parser", "docs_site.mathematics"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
html_math_renderer = "mathml"
highlight_language = "text"
smartquotes = False  # pages say what the files say
html_theme = "furo"
html_title = "Stairwise"
html_favicon = "assets/stairs.svg"
SHARED = "../src/stairwise/report/assets"
html_static_path = ["assets", f"{SHARED}/tables.js", f"{SHARED}/tables.css"]
html_css_files = ["site.css", "tables.css"]
html_js_files = ["tables.js"]
html_show_sourcelink = False
html_show_copyright = False  # LICENSE says it
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "report.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses from disk
html_theme_options = {
    "footer_icons": [],
    # the colours of the report (report/assets/site.css)
    "light_css_variables": {
        "font-stack": "system-ui, sans-serif",
        "color-brand-primary": "#0a58a6",
        "color-brand-content": "#0a58a6",
        "color-foreground-primary": "#1c2127",
        "color-background-secondary": "#f6f7f9",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb9ff",
        "color-brand-content": "#7fb9ff",
        "color-foreground-primary": "#e4e9ef",
        "color-background-primary": "#12161b",
        "color-background-secondary": "#1a2027",
    },
}
suppress_warnings = ["misc.highlighting_failure"]
