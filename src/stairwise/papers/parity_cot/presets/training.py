"""The trainings of Figures 1 to 5 and 8 to 11, and beyond."""

from stairwise.papers.parity_cot.presets.beyond import NOISE, PUZZLE, STEPS
from stairwise.papers.parity_cot.presets.complexity import COMPLEXITY, GRID, LONG, SHALLOW
from stairwise.papers.parity_cot.presets.passes import ATTENTION, MULTIPASS, NEGATIVE, SHAPES

EXPERIMENTS = (COMPLEXITY, SHALLOW, GRID, LONG, ATTENTION, MULTIPASS, SHAPES, NEGATIVE, PUZZLE, STEPS, NOISE)
