"""The code behind the documentation site: write.py writes the pages, Sphinx builds them (docs/conf.py)."""
