"""The commands of the command line, one file each: its flags, its checks, its action, its printing.

The file of a command has `add_flags(command)`, which gives a parser the command's flags, and `act(options, fields)`,
which does the work, prints, and returns the exit status. Where the fields of configs are flags as well, it also has
`configs_of(options)`: the configs by the names of what they belong to, or None where the action checks them itself.

Names and descriptions stand here because `stairwise --help` imports none of the files, and a command only its own.
"""

from importlib import import_module
from types import ModuleType

GROUPS = {
    "find your way": {
        "list": "list the papers, or the experiments, figures and claims of one",
        "where": "find the code that checks a statement of a paper",
        "cite": "print the BibTeX entry of this library or of a paper",
        "doctor": "check this installation: device, compiler, versions, store",
    },
    "check theorems": {
        "verify": "check claims numerically, at your own sizes if you like",
        "falsify": "search for a counterexample to a claim",
        "audit": "break formulas on purpose and see which claims notice",
    },
    "run experiments and draw figures": {
        "run": "run an experiment; stored trials are not run again",
        "sweep": "run an experiment over a grid of its fields",
        "figure": "draw a figure of a paper",
        "plot": "draw any metric, or write it as CSV or LaTeX",
        "reproduce": "draw the main figures, check all quick claims, write the report",
    },
    "look at what was run": {
        "report": "write a web site of everything in the store",
        "runs": "list runs or trials",
        "show": "show one run or trial: config, results, how it was made",
        "diff": "show what differs between two runs or trials",
        "query": "ask the store in SQL",
        "record": "list the published results, or add to them",
        "gc": "remove files that interrupted runs have left; asks first",
    },
    "understand the papers": {
        "stories": "write pages that explain the papers screen by screen",
        "playground": "train four small models in your browser",
    },
    "use data and models elsewhere": {
        "data": "write examples of a task to a file",
        "eval": "test a Hugging Face model on a task",
        "entropy": "measure the attention entropy of Hugging Face models",
        "export": "write a trained or constructed model to a folder",
    },
    "extend and compare": {
        "new-paper": "write the skeleton of a paper of your own",
        "bench": "time the same work here and in PyTorch",
        "completion": "print the completion script of a shell",
    },
}

COMMANDS = {name: about for group in GROUPS.values() for name, about in group.items()}


def module(name: str) -> ModuleType:
    """The file of a command."""
    return import_module(f"stairwise.commands.{name.replace('-', '_')}")
