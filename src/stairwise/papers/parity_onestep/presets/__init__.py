"""Every experiment with its presets: complete hyper-parameters, nothing implied.

`learning` has Figures 4 and 5 of the ICLR version; the others are designed around the paper's statements. Where a
preset of theirs is called "paper" it follows the statement literally where there is one: n = d^(2+eps) samples and
eta = eta0 d^(2+eps/16).
"""

from stairwise.papers.parity_onestep.presets.chain import ABLATION, ADAM, REGIMES, STAIRCASE
from stairwise.papers.parity_onestep.presets.hardness import ORACLE
from stairwise.papers.parity_onestep.presets.learning import LEARNING
from stairwise.papers.parity_onestep.presets.onestep import DIMENSION, LAM, LINK, NOISE, ONESTEP, PHASE, SCALING

EXPERIMENTS = (
    ONESTEP,
    STAIRCASE,
    REGIMES,
    PHASE,
    SCALING,
    DIMENSION,
    LAM,
    LINK,
    NOISE,
    ORACLE,
    ABLATION,
    ADAM,
    LEARNING,
)
