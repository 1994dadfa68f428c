"""The LEGO task: which action, how many variables, how long a chain."""

from dataclasses import dataclass

from stairwise.config import Config, ConfigError, option, require
from stairwise.papers.lego import groups

# for searches: cyclic, symmetric, dihedral and regular ones; intransitive ones; sets of maps that are no group
ACTIONS = (
    *("C2", "C3", "C4", "C5", "C6", "C7", "S3", "S4", "A4", "D4", "S3-regular", "Q8"),
    *("<[[1,0,2]]>", "<[[1,0,3,2]]>", "<[[1,0,2,3],[0,1,3,2]]>", "<[[1,2,0,4,3]]>"),
    *(
        "[[0,1,2],[1,2,0],[2,0,1],[1,0,2]]",
        "[[1,2,0],[0,1,2]]",
        "[[0,1,2],[1,2,0],[1,0,2]]",
        "[[0,1,2,3],[1,0,3,2],[2,3,1,0]]",
    ),
)


def action_of(name: str, field: str = "action") -> groups.Action:
    """The action that a name means; a bad one is a ConfigError that names the field."""
    try:
        return groups.named(name)
    except ValueError as error:
        text = str(error)
        raise ConfigError(text if text.startswith("action=") else f"{field}={text}") from None


@dataclass(frozen=True)
class Task(Config):
    """LEGO(X, G, Y): chains of length L over |X| variables, with a named action of G on Y."""

    action: str = option("C6", f"the action: {groups.NAMES}", examples=ACTIONS)
    variables: int = option(24, "variables |X|, at least length + 1", low=2, high=100_000)
    length: int = option(5, "actions L in a chain", low=1, high=10_000)

    def check(self) -> None:
        action_of(self.action)
        require(
            self.length + 1 <= self.variables,
            f"length={self.length} needs {self.length + 1} variables, which must be at most variables={self.variables}",
        )

    @property
    def group(self) -> groups.Action:
        return action_of(self.action)

    @property
    def vocabulary(self) -> int:
        """d = 1 + |X| + |G| + |Y|, the blank included."""
        return 1 + self.variables + self.group.actions + self.group.values
