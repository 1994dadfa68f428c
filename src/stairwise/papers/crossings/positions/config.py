"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require
from stairwise.papers.lego.config.practical import Practical


@dataclass(frozen=True)
class Told(Config):
    """A LEGO decoder whose clauses are marked by random sign vectors, or (codes=false) as its own config says."""

    lego: Practical = option(Practical(), "the decoder, its training and its tests")
    codes: bool = option(False, "mark places by random sign vectors; otherwise by lego.model.positions")
    sets: int = option(0, "sets of codes: 0 = never the same again, 1 = one fixed draw", low=0, numeric=True)
    share: int = option(1, "sentences in a row that share a new set; a whole batch in the paper", low=1, numeric=True)
    places: str = option(
        "first",
        "which codes of a set a sentence takes: the first, or a random increasing choice",
        choices=("first", "any"),
    )
    apart: bool = option(True, "codes have half of the width to themselves at the start, as in [x; e]")

    def check(self) -> None:
        own = self.lego.model.positions
        require(not self.codes or own == "none", f"lego.model.positions={own} must be none where codes is set")
        require(
            not self.codes or self.lego.model.standard,
            f"lego.model.mixer={self.lego.model.mixer}, lego.model.layers={self.lego.model.layers} must be the paper's"
            " one layer of softmax where codes is set",
        )
        even = self.lego.model.width % 2 == 0
        require(even or not self.apart, f"lego.model.width={self.lego.model.width} must be even where apart is set")
        require(self.share == 1 or self.sets == 0, f"share={self.share} must be 1 where sets={self.sets} are reused")

    @property
    def code_width(self) -> int:
        """Coordinates that a code is written to: the last ones."""
        width = self.lego.model.width
        return width // 2 if self.apart else width


OWN = {
    "none (NoPE)": {"lego.model.positions": "none"},
    "learned": {"lego.model.positions": "learned"},
    "rotary": {"lego.model.positions": "rotary"},
    "learned, random places": {"lego.model.positions": "randomised"},
}


def coded(batch: int) -> dict[str, dict[str, Any]]:
    """From one draw for ever to a new one for every sentence."""
    return {
        "codes, one draw": {"codes": True, "sets": 1},
        "codes, 16 draws": {"codes": True, "sets": 16},
        "codes, new every step": {"codes": True, "share": batch},
        "codes, new every sentence": {"codes": True},
        "codes, one draw, random places": {"codes": True, "sets": 1, "places": "any"},
    }


ADDED = {"codes added, new every sentence": {"codes": True, "apart": False}}


def kind(config: Told) -> str:
    """The name of an arm, from its config."""
    arms = OWN | coded(config.lego.batch) | ADDED
    fields = {"codes": config.codes, "sets": config.sets, "share": config.share, "places": config.places}
    fields |= {"apart": config.apart, "lego.model.positions": config.lego.model.positions}
    plain = {"codes": False, "sets": 0, "share": 1, "places": "first", "apart": True, "lego.model.positions": "none"}
    return next((name for name, changed in arms.items() if plain | changed == fields), "another encoding")
