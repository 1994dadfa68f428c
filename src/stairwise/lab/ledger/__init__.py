"""Claims put to the test: verify, audit, falsify, and the pages that are made from what they say."""
