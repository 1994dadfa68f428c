"""The one door for authors: everything that a paper is written with.

    from stairwise.paper import Config, Experiment, Ledger, Paper, Preset, gradient_training, option, ...

Importing it starts no device. What is not here belongs to the machinery, and may change without notice.
"""

from stairwise.config import Config, ConfigError, option, require
from stairwise.lab.contract import microscope
from stairwise.lab.contract.answers import Answer, Measured
from stairwise.lab.contract.arms import crossed
from stairwise.lab.contract.checks import (
    TOLERANCE,
    at_least,
    at_most,
    equal,
    hypothesis,
    measured,
    monomial,
    note,
    relative_error,
    row,
    skip_if,
    slope,
    true,
    vacuous_if,
)
from stairwise.lab.contract.claims import Claim, Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset, Record, Trial
from stairwise.lab.contract.paper import Construction, Paper
from stairwise.lab.contract.plots import (
    COLOURS,
    COLUMN,
    DASHES,
    all_seeds,
    colour,
    common_steps,
    count_axis,
    empty_figure,
    grouped,
    lost_note,
    seeds_note,
    subplots,
)
from stairwise.lab.contract.sources import TaskSource
from stairwise.lab.contract.verdict import Verdict
from stairwise.measure import population
from stairwise.measure.accuracy import share
from stairwise.tasks.protocols import Axis, Sentence, SequenceTask, StepTask, Task, VectorTask, sentence_loss
from stairwise.train import schedules
from stairwise.train.draws import draws_of
from stairwise.train.gradient import (
    Reached,
    Training,
    epochs,
    fresh,
    gradient_training,
    in_turn,
    numbered,
    pool,
    with_replacement,
)
from stairwise.train.keys import at, role, role_key
from stairwise.train.leaves import named_leaves, rebuilt, stored
from stairwise.train.loop import RunningTrial
from stairwise.train.probes import Extremes, FirstPassage
from stairwise.train.schemes import curriculum, finite, mixture, online, self_training, supervised
from stairwise.train.stage import Outcome, Stage, every

__all__ = [
    "COLOURS",
    "COLUMN",
    "DASHES",
    "TOLERANCE",
    "Answer",
    "Axis",
    "Claim",
    "Config",
    "ConfigError",
    "Construction",
    "Experiment",
    "Extremes",
    "Figure",
    "FirstPassage",
    "Ledger",
    "Measured",
    "Outcome",
    "Paper",
    "Preset",
    "Reached",
    "Record",
    "RunningTrial",
    "Sentence",
    "SequenceTask",
    "Stage",
    "StepTask",
    "Task",
    "TaskSource",
    "Training",
    "Trial",
    "VectorTask",
    "Verdict",
    "all_seeds",
    "at",
    "at_least",
    "at_most",
    "colour",
    "common_steps",
    "count_axis",
    "crossed",
    "curriculum",
    "draws_of",
    "empty_figure",
    "epochs",
    "equal",
    "every",
    "finite",
    "fresh",
    "gradient_training",
    "grouped",
    "hypothesis",
    "in_turn",
    "lost_note",
    "measured",
    "microscope",
    "mixture",
    "monomial",
    "named_leaves",
    "note",
    "numbered",
    "online",
    "option",
    "pool",
    "population",
    "rebuilt",
    "relative_error",
    "require",
    "role",
    "role_key",
    "row",
    "schedules",
    "seeds_note",
    "self_training",
    "sentence_loss",
    "share",
    "skip_if",
    "slope",
    "stored",
    "subplots",
    "supervised",
    "true",
    "vacuous_if",
    "with_replacement",
]
