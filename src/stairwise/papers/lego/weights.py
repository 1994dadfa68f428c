"""The network that the theory's descent approaches, ready to be exported, and what each tensor of the models is."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require
from stairwise.lab.contract.paper import Construction
from stairwise.papers.lego.config.task import Task

LARGEST = 2**27  # numbers in W


@dataclass(frozen=True)
class IdealNetwork(Config):
    """The ideal FFN of Theorem C.1 under attention that has found its two clauses."""

    task: Task = option(Task(), "the task; the same weights serve every length")
    sharpness: float = option(20.0, "Q43 = Q44 = sharpness * identity on the variables", low=0.0, high=1e6)
    clip_factor: float = option(4.0, "C_B of B = C_B log d, the largest logit", above=0.0, high=1e3)
    rho: float = option(0.1, "knot of the smoothed ReLU", above=0.0, high=10.0)
    power: int = option(4, "power q of the smoothed ReLU", low=3, high=100)

    def check(self) -> None:
        count = 5 * self.task.vocabulary**2 * self.task.group.values
        require(count <= LARGEST, f"task has {count} weights to write out, which must be at most {LARGEST}")


def solution(config: IdealNetwork, seed: int) -> Any:
    """`Transformer` of the theory, for the value token; nothing is drawn."""
    from stairwise.papers.lego import model as models
    from stairwise.papers.lego.task import lego
    from stairwise.papers.lego.theory.exact import traced

    task = lego(config.task.group, config.task.variables, config.task.length)
    scores = models.symmetric_scores(task, config.sharpness, 0.0, config.sharpness, 0.0)
    clip = models.logit_clip(task.vocabulary, config.clip_factor)
    return traced(models.ideal(task, clip=clip, rho=config.rho, q=config.power, scores=scores))


CONSTRUCTIONS = (
    Construction("solution", "the FFN and the attention that Algorithm 1 approaches", IdealNetwork, solution),
)
TENSORS = {
    "weights": "W of the theory's FFN: [clause slot p, token v, output position i, output token j, neuron r]",
    "scores.predicate": "Q43: score of a predicate by its third token, [query's variable, token]",
    "scores.answer": "Q44: score of an answer by its fourth token, [query's variable, token]",
    "scores.blocks": "all of Q: [query slot, token, key slot, token]",
    "bias": "b of every neuron, not trained",
    "clip": "B: the largest logit",
    "rho": "knot of the smoothed ReLU",
    "table": "embeddings of the practical decoder: [clause slot, token, width]",
    "positions.table": "learned positions: [clause, width]",
    "attention_norm.weight": "scale of the RMS norm before attention",
    "query.weight": "queries of all heads: [width, width], inputs first",
    "query.bias": "bias of the queries",
    "key_value.weight": "keys, then values of all heads: [width, 2 width], inputs first",
    "key_value.bias": "bias of keys and values",
    "out.weight": "output of attention: [width, width], inputs first",
    "out.bias": "bias of attention's output",
    "mlp_norm.weight": "scale of the RMS norm before the perceptron",
    "mlp.expand.*": "first layer of the perceptron, inputs first; GELU follows",
    "mlp.contract.*": "second layer of the perceptron, inputs first",
    "norm.weight": "scale of the RMS norm before the heads",
    "unembedding": "the five heads: [clause slot, width, token]",
}
