"""What the presets of the trainings share; one training may feed several figures.

The quick presets train a model of width 64 with initial scale 1/sqrt(64) (GPT-2's .02 stalls at this width); the gpu
and paper presets have the paper's width 720, batch 512 and learning rates, of which the best counts. Rates fall
linearly to zero over the budget, as in Appendix C.1; `puzzle` has constant ones too. Predicted times are for one H200.
"""

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_cot import microscope, train
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training

RATES = (6e-5, 8e-5, 1e-4)

SMALL = Training(clip=0.0)
WIDE = Training(
    task=PaddedTask(bits=30, padding=4),
    model=Decoder(width=720, layers=1, heads=1, std=0.02),
    learning_rate=1e-4,
    batch=512,
    decay=1.0,
    look=2048,
    test_examples=2048,
    budget=2048 * 256,
)
AUTHORS = {
    "task.layout": "authors",
    "decay": 1.0,
    "model.dropout": 0.1,
    "model.compute": "bfloat16",
    "model.parameters": "bfloat16",
}


def experiment(id: str, says: str, figures: tuple[Figure, ...], presets: dict[str, Preset]) -> Experiment:
    return Experiment(
        id=id,
        says=says,
        Config=Training,
        program=train.training,
        opens_with="exact match",
        own=train.training_own,
        microscope=microscope.heads_watched,
        figures=figures,
        presets=presets,
    )


def sizes(*values: int, **more) -> dict[str, dict]:
    return {f"k={k}": {"task.size": k, **more} for k in values}


def chain(cot: bool, padding: int, budget: int, look: int) -> dict[str, dict]:
    name = "CoT" if cot else "no CoT"
    return {name: {"task.cot": cot, "task.padding": padding, "budget": budget, "look": look}}


def shapes(*pairs: tuple[int, int]) -> dict[str, dict]:
    return {f"{layers}x{heads}": {"model.layers": layers, "model.heads": heads} for layers, heads in pairs}


def pools(*values: int) -> dict[str, dict]:
    return {f"set {samples}" if samples else "fresh": {"samples": samples} for samples in values}


THREE_RATES = {f"rate {rate:g}": {"learning_rate": rate} for rate in RATES}
BF16 = {"model.compute": "bfloat16"}
