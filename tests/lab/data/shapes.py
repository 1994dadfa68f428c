"""The few requests that tests of data share: every task, every option that changes what is written."""

SHAPES = [
    ("lego", {}),
    ("lego", {"action": "S3", "order": "shuffled", "distractors": 2, "tell": True, "length": 3}),
    ("lego", {"action": "Q8", "variables": 8, "length": 7}),
    ("composition", {"hops": (1, 2, 4)}),
    ("composition", {"blocks": 3, "alphabet": 4, "cyclic": False, "moved": 1, "tell": True, "hops": (3,)}),
    ("composition", {"blocks": 2, "hops": (5, 1), "allow_repeats": True}),
    ("parity_chain", {}),
    ("parity_chain", {"bits": 70, "size": 7, "absorbed": 3, "order": "random", "noise": 0.25}),
    ("parity_chain", {"layout": "authors", "tell": True, "secret": (9, 2, 5, 0), "order": "given"}),
    ("parity_tree", {}),
    ("parity_tree", {"bits": 20, "size": 5, "tree": "chain", "tell": True}),
    ("selection", {}),
    ("selection", {"length": 4, "sparsity": 1, "width": 1, "tokens": "laplace", "decimals": 5}),
]
NAMES = [f"{task} {' '.join(map(str, options.values()))}".strip() for task, options in SHAPES]
