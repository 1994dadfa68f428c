"""The report as a static site: pages, figures and data chunks, a function of the store alone."""
