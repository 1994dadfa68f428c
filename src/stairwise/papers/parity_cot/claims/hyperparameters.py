"""Lemma 5: do Assumption 2's sizes do what the proof needs, and from which n on?"""

import math
from dataclasses import dataclass

from stairwise.lab.checks import under
from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.theory import hyperparameters


@dataclass(frozen=True)
class Asymptotic(Config):
    """k = n / ln(n/delta)^power, and the two constants of Assumption 2."""

    power: float = option(5.0, "p of k = n / ln(n/delta)^p, 4 to 5 in the paper", low=1.0, high=10.0)
    failure: float = option(0.1, "delta", low=1e-100, below=1.0)
    scale: float = option(1.0, "eps", low=1e-6, high=1e6)

    def violated(self) -> tuple[str, ...]:
        return () if 4 <= self.power <= 5 else (f"power={self.power:g} must lie in 4..5",)


@LEDGER.theory(
    "lem5",
    kind="bound",
    says="the inequalities of Lemma 5 hold for large n: each with the n from which it holds, up to exp(1.07e49)",
    cases=(Asymptotic(), Asymptotic(4.0)),
)
def from_which_n_on(config: Asymptotic, seed: int) -> Verdict:
    rows = []
    for name, condition in hyperparameters.CONDITIONS.items():
        x = hyperparameters.holds_from(name, config.power, config.failure, config.scale)
        rows.append({"condition": condition.says, "holds from n =": hyperparameters.as_text(x), "ln n": x})
    needed = {row["condition"]: row["ln n"] for row in rows}
    sizes = hyperparameters.literal(1000, config.power, config.failure, config.scale)
    at_thousand = {f"at n=1000: {name}": value for name, value in sizes._asdict().items()}
    never = sum(math.isinf(x) for x in needed.values())
    largest = hyperparameters.as_text(max(needed.values()))
    verdict = Verdict.at_most(
        never,
        0,
        note=f"all of them hold from n = {largest} on, which is what 'sufficiently large' means"
        if never == 0
        else f"{never} of them never hold",
        details=(*rows, at_thousand),
    )
    return under(config.violated(), verdict)


@LEDGER.theory(
    "lem5-exponent-printed",
    kind="identity",
    says="as printed: the quantity of 5.5 is of the order ln^-5.65 at k = n/ln^5, before the factor ln^2",
    cases=Asymptotic(),
)
def the_exponent_is_off_by_one(config: Asymptotic, seed: int) -> Verdict:
    right = hyperparameters.exponent_of_5_5(config.power)
    printed = hyperparameters.EXPONENT_OF_5_5_PRINTED + config.power - 5
    return Verdict.at_most(
        abs(right - printed),
        1e-9,
        otherwise="refuted",
        note="5 - 11.65 = -6.65; the slip is harmless",
        details=({"printed": printed, "right": right},),
    )


@LEDGER.theory(
    "lem5-batch-printed",
    kind="identity",
    says="as printed: items 5.6 and 5.7 compute with B = C n ln^10, Assumption 2 has B = C n ln^20",
    cases=Asymptotic(),
)
def the_batch_has_two_sizes(config: Asymptotic, seed: int) -> Verdict:
    _, printed = hyperparameters.log_ratio_of_5_6(config.power, 10)
    _, right = hyperparameters.log_ratio_of_5_6(config.power, hyperparameters.BATCH_POWER)
    return Verdict.at_most(
        abs(right - printed),
        0.0,
        otherwise="refuted",
        note="5.6 gives 10 ln^13 and not 10 ln^3 at k = n/ln^5: more than is needed",
        details=({"power of ln in 5.6, printed": printed, "with ln^20": right},),
    )


@LEDGER.theory(
    "lem25-rate-printed",
    kind="bound",
    says="as printed: 5.8, eta0 + eta1 < 5 n eta2, is what Lemma 25 needs",
    cases=Asymptotic(),
)
def the_rates_need_more(config: Asymptotic, seed: int) -> Verdict:
    given = hyperparameters.holds_from("5.8", config.power, config.failure, config.scale)
    needed = hyperparameters.holds_from("5.8 for Lemma 25", config.power, config.failure, config.scale)
    middle = (given + needed) / 2
    ratio = math.exp(-hyperparameters.gap("5.8 for Lemma 25", middle, config.power, config.failure, config.scale))
    row = {
        "5.8 holds from n =": hyperparameters.as_text(given),
        "Lemma 25 needs n =": hyperparameters.as_text(needed),
        "counterexample n =": hyperparameters.as_text(middle),
    }
    # (eta0 + eta1) / (20 m n) + eta2 / (200 m) < eta2 / (100 m) is eta0 + eta1 < n eta2 / 10
    return Verdict.at_most(
        ratio,
        1.0,
        otherwise="refuted",
        note="(eta0 + eta1)/(20mn) + eta2/(200m) < eta2/(100m) needs eta0 + eta1 < n eta2/10; the asymptotics survive",
        details=(row,),
    )
