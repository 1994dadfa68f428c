"""`stairwise completion`: what a shell needs to complete our words; names of papers come from their manifests."""

import argparse
import shlex

from stairwise.commands import COMMANDS, module

SHELLS = ("bash", "zsh", "fish")
TARGETS = {  # what the word after a command names
    "run": "experiments figures",
    "sweep": "experiments",
    "plot": "experiments",
    "record": "experiments",
    "figure": "figures",
    "verify": "papers claims",
    "audit": "papers claims",
    "falsify": "claims",
    "list": "papers",
    "where": "papers",
    "cite": "papers",
}

BASH = r"""
_stairwise() {
    local word="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}" words="" flags=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="@COMMANDS@"
    else
        case "$command" in
@CASES@
        esac
        case "$word" in -*) words="$flags" ;; esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}
complete -F _stairwise stairwise
"""


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="which shell; eval the output in it")


def act(options, fields) -> int:
    print(fish() if options.shell == "fish" else bash(zsh=options.shell == "zsh"))
    return 0


def words_of(command: str) -> list[str]:
    """What may follow a command."""
    from stairwise.lab import registry

    found = []
    for kind in TARGETS.get(command, "").split():
        for paper in registry.manifests():
            ids = [each["id"] for each in paper[kind]] if kind != "papers" else []
            found += [f"{paper['id']}/{id}" for id in ids] if ids else [paper["id"]] if kind == "papers" else []
    return found


def flags_of(command: str) -> list[str]:
    """The flags of a command; fields of configs are not among them."""
    parser = argparse.ArgumentParser()
    module(command).add_flags(parser)
    own = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    return [*own, "--store", "--debug"]


def bash(*, zsh: bool = False) -> str:
    cases = "\n".join(
        f"            {name}) words='{' '.join(words_of(name))}'; flags='{' '.join(flags_of(name))}' ;;"
        for name in COMMANDS
    )
    made = BASH.strip().replace("@COMMANDS@", " ".join(COMMANDS)).replace("@CASES@", cases)
    return f"autoload -U +X bashcompinit && bashcompinit\n{made}" if zsh else made


def fish() -> str:
    lines = ["complete -c stairwise -f"]
    for name, about in COMMANDS.items():
        lines.append(f"complete -c stairwise -n __fish_use_subcommand -a {name} -d {shlex.quote(about)}")
        inside = f"-n '__fish_seen_subcommand_from {name}'"
        if words := words_of(name):
            lines.append(f"complete -c stairwise {inside} -a {shlex.quote(' '.join(words))}")
        lines += [f"complete -c stairwise {inside} -l {flag.removeprefix('--')}" for flag in flags_of(name)]
    return "\n".join(lines)
