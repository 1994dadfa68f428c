"""The LEGO task: which action, how many variables, how long a chain."""

from dataclasses import dataclass

from stairwise.config import Config, ConfigError, option, require
from stairwise.tasks import groups


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

    action: str = option("C6", f"the action: {groups.NAMES}")
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
