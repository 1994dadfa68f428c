"""Every experiment with its presets: complete hyper-parameters, nothing implied.

`learning` has Figures 4 and 5 of the ICLR version; the others are designed around the paper's statements. A preset
"paper" has the scaling of a theorem: n = d^(2+eps) samples and eta = eta0 d^(2+eps/16).
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
