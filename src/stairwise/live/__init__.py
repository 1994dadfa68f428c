"""Watching a run while it trains: a page in the browser, fed by the run itself."""
