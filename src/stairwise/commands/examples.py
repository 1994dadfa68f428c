"""What the help of a command says beyond its flags: a remark where there is one, and lines to copy."""

REMARKS = {
    "run": "Every field of its config is a flag too: stairwise run selection/online --help lists them.",
    "sweep": "Every field of its config is a flag too: stairwise run selection/online --help lists them.",
    "verify": "Every field of its config is a flag too: stairwise verify selection/thm3.5 --help lists them. The exit"
    " status is 1 if a claim fails, or if its status is not the one that is recorded for it.",
    "falsify": "It searches inside the hypotheses of the claim, and with each of them dropped. The exit status is "
    "1 if it finds a counterexample inside the hypotheses of a claim that should hold.",
    "audit": "Each mutant changes one thing in a formula that a claim tests: a sign, a factor, an exponent. The "
    "exit status is 1 if too few mutants are noticed.",
    "figure": "It draws from the trials in your store. --run runs those that are missing, and --published draws "
    "from the results that come with the package.",
    "show": "stairwise runs lists the ids of runs, and with --trials the digests of trials.",
    "diff": "stairwise runs lists the ids of runs, and with --trials the digests of trials.",
    "export": "stairwise runs --trials lists the digests of trials, and stairwise list PAPER the constructions.",
    "query": "The tables are trials, finals, metrics, runs and claims.",
    "data": "The options of a task are flags too: stairwise data lego --help lists them.",
    "eval": "It prints the accuracy per length and per step. The options of a task are flags too: stairwise "
    "data lego --help lists them.",
    "entropy": "It reads word problems with and without a chain of thought (CoT).",
    "reproduce": "The quick claims are those that take seconds.",
    "new-paper": "The paper is a Python package of its own, which Stairwise finds once it is installed.",
}

EXAMPLES = {
    "list": ("list", "list lego", "list lego --claims", "list --find 'length generalisation'"),
    "where": ('where selection "Lemma E.15"',),
    "cite": ("cite", "cite lego"),
    "doctor": ("doctor",),
    "verify": (
        "verify selection/thm3.5 --task.length 8,16,32",
        "verify selection",
        "verify lego/fig1a --published",
        "verify selection/fig2 --run",
    ),
    "falsify": ("falsify selection/thm3.1 --minutes 1",),
    "audit": ("audit selection/thm3.5 --minutes 1",),
    "run": (
        "run selection/online --task.length 30 --seeds 4",
        "run selection/online --dry-run",
        "run lego/length --preset gpu",
    ),
    "sweep": ("sweep selection/online --grid learning_rate=0.1:1:log4 --seeds 2",),
    "figure": ("figure selection/fig2 --published -o fig2.png", "figure parity_onestep/fig-onestep --run"),
    "plot": ("plot lego/length --published", "plot lego/length 'exact 20' --published -o match.csv"),
    "reproduce": ("reproduce",),
    "report": ("report --published", "report --serve"),
    "runs": ("runs selection", "runs --trials --status failed"),
    "show": ("show ID", "show ID --config > run.toml"),
    "diff": ("diff A B",),
    "query": ("query 'select count(*) from trials' --published",),
    "record": ("record list", "record check selection/online"),
    "gc": ("gc",),
    "stories": ("stories --open",),
    "playground": ("playground", "playground --out folder"),
    "data": ("data --list", "data lego -n 1000 -o train.jsonl", "data lego --length 8 -n 3"),
    "eval": ("eval lego --model sshleifer/tiny-gpt2 --lengths 2,4 -n 20",),
    "entropy": ("entropy --model gpt2 --data test.jsonl --limit 100",),
    "export": ("export composition/thm4 -o thm4", "export DIGEST -o model"),
    "new-paper": ("new-paper my_paper",),
    "bench": ("bench selection --repeats 3", "bench --growth lego -o growth.png"),
    "completion": ("completion bash",),
}


def epilog(name: str) -> str:
    """The end of a command's help."""
    lines = [f"  stairwise {words}" for words in EXAMPLES[name]]
    return "\n".join([*([REMARKS[name], ""] if name in REMARKS else []), "examples:", *lines])
