"""The laboratory: contract (what an author writes), store, run, cluster, ledger (claims put to the test)."""
