"""The parity to be learnt, with or without its chain of thought."""

from dataclasses import dataclass

from stairwise.config import Config, option, require

LARGEST = 2**14  # input bits
ORDERS = ("ascending", "given", "random")
LAYOUTS = ("paper", "authors")


@dataclass(frozen=True)
class Task(Config):
    """The parity of k secret bits among n, as a sequence of 0/1 tokens (Definitions 1 and 2).

    A secret that is named has its positions counted from 0; a drawn one is a function of the seed alone.
    """

    bits: int = option(16, "input bits n", low=1, high=LARGEST, stored_as="inputs")
    size: int = option(4, "secret bits k", low=1, high=LARGEST)
    cot: bool = option(True, "with the chain of partial sums (Definition 2) or without (Definition 1)")
    secret: tuple[int, ...] = option((), "the secret positions, counted from 0; none = drawn from the seed", low=0)
    order: str = option(
        "ascending", "in which order the chain takes the secret bits; given: as `secret` names them", choices=ORDERS
    )
    layout: str = option(
        "paper",
        "tokens of a sequence. paper: as printed, the inputs and then a 0. authors: as in their code, where the 0 is"
        " left out without a chain and is a label with one, and the last input is never in the secret",
        choices=LAYOUTS,
    )
    absorbed: int = option(1, "secret bits g that one step of the chain takes in (the paper: 1)", low=1, numeric=True)
    noise: float = option(
        0.0,
        "chance rho that a step of a training sequence is wrong (the next one builds on it)",
        low=0.0,
        high=0.5,
        numeric=True,
    )

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        check_secret(self.secret, self.bits, self.size)
        require(
            self.order != "given" or len(self.secret) > 0, f"order={self.order} must come with a secret that is named"
        )

    @property
    def room(self) -> int:
        """Places for secret bits."""
        return self.size


@dataclass(frozen=True)
class PaddedTask(Task):
    """The same with k as a number, so that one compiled program serves every k up to the padding."""

    size: int = option(4, "secret bits k", low=1, high=LARGEST, numeric=True)
    padding: int = option(16, "the largest k of the program", low=1, high=LARGEST)

    def check(self) -> None:
        super().check()
        require(self.size <= self.padding, f"size={self.size} must be at most padding={self.padding}")
        require(self.padding <= self.bits, f"padding={self.padding} must be at most bits={self.bits}")
        require(not self.secret, f"secret={self.secret} must be drawn (none) where k is padded")

    @property
    def room(self) -> int:
        return self.padding


def check_secret(secret: tuple[int, ...], bits: int, size: int) -> None:
    """k distinct positions in 0..n-1, where any are named."""
    if not secret:
        return
    require(len(secret) == size, f"secret={','.join(map(str, secret))} must name size={size} positions")
    for place, position in enumerate(secret):
        require(0 <= position < bits, f"secret={position} must lie in 0..{bits - 1}")
        require(position not in secret[:place], f"secret={position} must not be repeated")
