"""Facts that hold of every task: `check(task)` runs those that its protocols promise.

A paper's own test file calls it with its tasks:

    @pytest.mark.parametrize("task", [MyTask(...)])
    def test_the_task_keeps_what_its_protocols_promise(task):
        protocol.check(task)
"""

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.tasks.protocols import ANSWER, SequenceTask, StepTask, Task, VectorTask

EXAMPLES = 5


def check(task):
    assert isinstance(task, Task)
    assert getattr(task, task.difficulty.field) in task.difficulty.values
    sample = jax.jit(jax.vmap(task.sample))
    examples, again = (sample(jax.random.split(jax.random.key(0), EXAMPLES)) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, examples, again)
    answers = jax.jit(jax.vmap(task.answer))(examples)
    assert len(np.unique(answers, axis=0)) > 1
    check_difficulty(task)
    if isinstance(task, StepTask):
        check_chain(task, examples, answers)
    if isinstance(task, SequenceTask):
        check_sentences(task, examples, answers)
    if isinstance(task, VectorTask):
        check_inputs(task, examples, answers)


def check_difficulty(task):
    """Another difficulty is the same secret, and leads back."""
    for value in task.difficulty.values:
        other = task.at(value)
        assert getattr(other, task.difficulty.field) == value
        jax.tree.map(np.testing.assert_array_equal, jax.tree.leaves(other), jax.tree.leaves(task))
        jax.eval_shape(lambda other=other: other.answer(other.sample(jax.random.key(0))))
    back = other.at(getattr(task, task.difficulty.field))
    assert jax.tree.structure(back) == jax.tree.structure(task)


def check_chain(task, examples, answers):
    chains = jax.jit(jax.vmap(task.chain))(examples)
    assert chains.shape[2:] == answers.shape[1:]
    np.testing.assert_array_equal(chains[:, -1], answers)


def check_sentences(task, examples, answers):
    assert ANSWER in task.supervisions
    assert task.reads in ("next", "here")
    of_one = jax.jit(lambda example: task.chain(example))
    for supervision in task.supervisions:
        tell = jax.vmap(lambda example, key, supervision=supervision: task.sentence(example, supervision, key))
        told = jax.jit(tell)(examples, jax.random.split(jax.random.key(1), EXAMPLES))
        assert told.tokens.shape == told.targets.shape == told.weights.shape
        assert told.tokens.ndim == (2 if task.slots == 1 else 3)
        assert 0 <= np.min(told.tokens) <= np.max(told.tokens) < task.vocabulary
        for number in range(EXAMPLES):
            asked = np.asarray(told.targets[number])[np.asarray(told.weights[number]) > 0]
            if supervision == ANSWER:
                np.testing.assert_array_equal(asked, np.ravel(answers[number]))
            if supervision == "chain":
                chain = of_one(jax.tree.map(lambda leaf, number=number: np.asarray(leaf)[number], examples))
                np.testing.assert_array_equal(asked, np.ravel(chain))
    for value in task.difficulty.values:  # one model reads every difficulty
        assert task.at(value).vocabulary == task.vocabulary


def check_inputs(task, examples, answers):
    inputs = jax.jit(jax.vmap(task.inputs))(examples)
    assert inputs.ndim == 3
    assert jnp.issubdtype(inputs.dtype, jnp.floating)
    assert answers.ndim == 2
