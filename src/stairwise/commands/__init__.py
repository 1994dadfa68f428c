"""The commands of the command line, one file each: its flags, its checks, its action, its printing.

The file of a command has `add_flags(command)`, which gives a parser the command's flags, and `act(options, fields)`,
which does the work, prints, and returns the exit status. Where the fields of configs are flags as well, it also has
`configs_of(options)`: the configs by the names of what they belong to, or None where the action checks them itself.

Names and descriptions stand here because `stairwise --help` imports none of the files, and a command only its own.
"""

from importlib import import_module
from types import ModuleType

COMMANDS = {
    "list": "papers; the experiments, figures and claims of one; everything that has some words",
    "where": "where a statement of a paper lives: its claims, their checks, and the formulas under test",
    "run": "run an experiment, or the one that owns a figure; what is stored is not run again",
    "sweep": "run an experiment over a grid of its fields; what is stored is not run again",
    "verify": "check claims; exit status 1 if one fails or has another status than the manifest",
    "audit": "break the formulas that claims are of, and see which claims notice; exit status 1 below the bar",
    "falsify": "search for a counterexample to a claim, inside its hypotheses and with each of them dropped; "
    "exit status 1 for one inside the hypotheses of a claim that should hold",
    "figure": "draw a figure from the store",
    "plot": "draw any metric of stored trials, or write its numbers: curves, CSV, a LaTeX table",
    "record": "what is published: list it, or add the stored trials of a preset to it",
    "runs": "what has been run",
    "show": "one run or trial: config, results, how it was made",
    "diff": "what differs between two trials or runs",
    "report": "write the site of everything in the store",
    "playground": "four machines that train in the browser: serve them, or write their folder",
    "stories": "write one page per paper that explains it screen by screen",
    "reproduce": "headline figure of every paper, every instant claim, the report",
    "export": "write a trained model, or one that a paper constructs, to a folder",
    "data": "examples of a task as a file: its options are flags of their own (data TASK --help)",
    "eval": "put a task to a Hugging Face model: accuracy per length and per step (eval TASK --help)",
    "entropy": "attention entropy of Hugging Face models on word problems, with and without CoT",
    "query": "SQL over the store: tables trials, finals, metrics, runs and claims",
    "gc": "remove orphaned checkpoints and temporary folders; asks first",
    "bench": "the same work here and in plain PyTorch, timed side by side; how cost grows with size",
    "new-paper": "write the skeleton of a paper that is installed by itself",
    "completion": "print what a shell needs to complete commands, flags and names",
    "cite": "print the BibTeX entry of this library, or of a paper",
    "doctor": "device, precision, cache, versions, extras, store",
}


def module(name: str) -> ModuleType:
    """The file of a command."""
    return import_module(f"stairwise.commands.{name.replace('-', '_')}")
