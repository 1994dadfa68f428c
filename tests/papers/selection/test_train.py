"""Online training of selection: what is drawn, what is padded, what the switches do."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, structure, update
from stairwise.nn.encodings import coherence, near_orthogonal, subset_encoding
from stairwise.papers.selection import acceptance, train
from stairwise.papers.selection.config import Encodings, Fcn, Online, Task
from stairwise.papers.selection.fcn import FullyConnected, train_fcn
from stairwise.papers.selection.model import SelectionAttention
from stairwise.papers.selection.task import Selection, SparseSelection, uniform_subset
from stairwise.train.gradient import Training
from stairwise.train.leaves import named_leaves
from stairwise.train.loop import Member, Program
from tests.helpers import assert_close
from tests.trials import run, running

SMALL = Online(
    task=Task(8, 2, 3),
    encoding=Encodings(width=16, threshold=0.9, scheme="offenders"),
    batch=8,
    steps=30,
    measure_every=10,
    test_lengths=(11,),
    test_sparsities=(4,),
    test_examples=6,
)


def random_model(seed=0, width=3, encoding=16):
    rng = np.random.default_rng(seed)
    joint = width + encoding
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape, scale=0.3).astype(np.float32))  # noqa: E731
    return SelectionAttention(W=draw(joint, joint), V=draw(width, joint))


def batch_of(keys, encodings):
    return train.Batch(keys, encodings, jnp.zeros(len(encodings), dtype=bool))


@pytest.fixture(scope="module")
def program():
    return Program(train.online(structure(SMALL)))


def fit(program, seed=0):
    return program.run([Member(seed, SMALL)])[0]


def weights_after(config, seed=0):
    """The trained weights alone: without the measurements there is little to compile."""
    stage = train.online(structure(config))[0]

    def finish(trial, state, key):
        return None, named_leaves(train.assemble(state.model))

    return Program([replace(stage, measure=None, finish=finish)]).run([Member(seed, config)])[0].arrays


HEAT = replace(SMALL, task=Task(10, 3, 5), encoding=Encodings(20, 0.2, "offenders"), test_lengths=(12,))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"encoding.scheme": "matrix"}, "encoding.threshold=0.2 must be at least 0.4 for 12 encodings of"),
        ({"encoding.threshold": 0.01}, "encoding.threshold=0.01 must be at least 0.2 for 12 encodings of"),
        ({"encoding.width": 21, "encoding.threshold": 0.01}, "encoding.threshold=0.01 must be at least 0.1429 for"),
        ({"encoding.width": 4, "encoding.scheme": "none"}, "encoding.width=4 must be larger: it has too few sign"),
    ],
)  # fmt: skip
def test_a_threshold_that_no_draw_meets_is_refused_before_training(changes, line):
    with pytest.raises(ConfigError) as refused:
        update(HEAT, changes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("scheme", "threshold"), [("matrix", 0.3), ("offenders", 0.1), ("vector", 0.1)])
def test_sets_are_found_as_often_as_computed(scheme, threshold):
    def draw(key):
        return near_orthogonal(key, 6, 20, threshold, scheme, max_rounds=2)

    above = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), 1000)).above
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceptance, "TRIES", 2)
        chance = acceptance.found(scheme, 6, 20, threshold)
    share = 1 - float(jnp.mean(above))
    assert 0.01 < chance < 0.99
    if scheme == "matrix":
        assert abs(share - chance) < 0.05
    else:  # the last row's chance alone: no set is found more often
        assert share < chance + 0.05


def test_training_counts_the_sets_above_the_threshold(program):
    assert fit(program).last("sets above threshold") == 0
    # the number of a config that is refused: eight orthogonal encodings are found now and then
    low = eqx.tree_at(lambda config: config.encoding.threshold, SMALL, 0.01)
    trial = running(low)
    above = jax.jit(jax.vmap(lambda t: train.draw_set(trial, 8, t).above))(jnp.arange(30, dtype=jnp.int32))
    found = program.run([Member(0, low)])[0]
    counts = [value for name, value in zip(found.name, found.value, strict=True) if name == "sets above threshold"]
    assert counts == [0, *np.cumsum(np.asarray(above))[[9, 19, 29]]]
    assert 20 < counts[-1] < 30


def test_training_on_few_sign_vectors_meets_no_singular_set():
    config = replace(SMALL, encoding=Encodings(width=6, threshold=1.0, scheme="none"), test_sparsities=(2,))
    draw = jax.jit(jax.vmap(partial(train.encoding_set, running(config), config.task.length)))
    sets = draw(jnp.arange(200, dtype=jnp.int32))
    assert float(jax.jit(jax.vmap(coherence))(sets).max()) < 0.9
    assert np.isfinite(weights_after(config)["train/W"]).all()


def test_subsets_are_uniform_and_without_repeats():
    draw = jax.jit(jax.vmap(lambda key: uniform_subset(key, 6, 3)))
    subsets = np.sort(np.asarray(draw(jax.random.split(jax.random.key(0), 20_000))), axis=1)
    assert (np.diff(subsets, axis=1) > 0).all()
    _, counts = np.unique(subsets, axis=0, return_counts=True)
    assert len(counts) == 20
    chi2 = np.sum((counts - 1000) ** 2 / 1000)
    assert chi2 < 45  # 19 degrees of freedom: beyond 1 in 1000


@pytest.mark.parametrize("law", ["gaussian", "laplace", "onehot", "shifted"])
def test_token_laws_have_the_moments_they_promise(law):
    task = SparseSelection(50, 2, 4, law)
    draw = jax.jit(jax.vmap(lambda key: task.sample(key).tokens))
    tokens = np.asarray(draw(jax.random.split(jax.random.key(0), 400)))
    flat = tokens.reshape(-1, 4)
    mean = {"shifted": 1.0, "onehot": 0.5}.get(law, 0.0)
    second = flat.T @ flat / len(flat)
    assert_close(flat.mean(0) + 2, np.full(4, mean + 2), 0.02)
    expected = np.eye(4) + (np.ones((4, 4)) if law == "shifted" else 0)
    assert_close(second, expected, 0.05)


@pytest.mark.slow
def test_padded_validation_equals_the_plain_loss_at_every_length_and_sparsity():
    model, trial = random_model(), running(SMALL)
    key = jax.random.key(7)
    longest = train.encoding_set(trial, 11, jnp.int32(5))
    loss = jax.jit(partial(train.padded_loss, trial, model, longest, key, largest=4))
    for length, sparsity in ((8, 2), (11, 4)):
        padded = loss(length=jnp.int32(length), sparsity=jnp.int32(sparsity))
        encodings = train.encoding_set(trial, length, jnp.int32(5))
        losses = []
        for i in range(SMALL.test_examples):
            own = train.at(key, i)
            tokens = train.draw_tokens(train.role(own, "tokens"), 11, 3, "gaussian")[:length]
            subset = train.uniform_subset(train.role(own, "subset"), length, 4, sparsity)[:sparsity]
            query = jnp.concatenate([jnp.zeros(3, dtype=jnp.float32), subset_encoding(encodings, subset)])
            losses.append(0.5 * float(jnp.sum((tokens[subset].mean(0) - model(tokens, encodings, query)) ** 2)))
        assert_close(padded, np.mean(losses), 1e-5)


def test_what_is_measured_of_a_model_is_that_of_its_definition():
    model, trial, key = random_model(), running(update(SMALL, {"encoding.pool": 1})), jax.random.key(3)
    fresh = train.fresh_index(key)
    assert int(fresh) >= 2**30  # training counts its sets from 0 and never gets there

    def loss(index, number, length, sparsity):
        encodings, test = train.encoding_set(trial, 11, index), train.at(trial.key("test"), number)
        return train.padded_loss(trial, model, encodings, test, length, sparsity, 4)

    tasks = {"in": (0, 0, 8, 2), "length=11": (0, 1, 11, 2), "sparsity=4": (0, 2, 8, 4), "fresh": (fresh + 3, 0, 8, 2)}
    rows = [jnp.stack([jnp.int32(task[place]) for task in tasks.values()]) for place in range(4)]
    found, losses = jax.jit(
        lambda parameters: (
            train.measure(trial, Training(parameters, None, jnp.float32(2)), key, 0),
            jax.lax.map(lambda row: loss(*row), tuple(rows)),
        )
    )(named_leaves(model))
    W, V = np.asarray(model.W, dtype=np.float64), np.asarray(model.V, dtype=np.float64)
    expected = {
        "train_loss": 2.0,
        "alpha": (V[0, 0] + V[1, 1] + V[2, 2]) / 3,
        "C": np.mean([W[i, i] for i in range(3, 19)]),
        "cosine W": np.sum([W[i, i] for i in range(3, 19)]) / (4 * np.sqrt(np.sum(W**2))),
        "cosine V": (V[0, 0] + V[1, 1] + V[2, 2]) / np.sqrt(3 * np.sum(V**2)),
    } | {f"loss {name}": float(value) for name, value in zip(tasks, losses, strict=True)}
    assert set(found) == set(expected)
    assert len({round(float(value), 6) for value in losses}) == 4
    for name, value in expected.items():
        assert_close(found[name], value, 1e-5)


def test_a_random_start_has_the_standard_deviation_that_was_asked_for():
    config = replace(SMALL, start="random")
    for asked, std in ((0.0, 19**-0.5), (0.7, 0.7)):
        W = train.start(running(replace(config, start_std=asked)), jax.random.key(0))["W"]
        assert abs(float(jnp.std(W)) / std - 1) < 0.15  # of 361 entries
    assert not train.start(running(SMALL), jax.random.key(0))["W"].any()


def test_every_step_and_every_fresh_loss_has_sets_of_encodings_of_its_own():
    trial = running(update(SMALL, {"encoding.per_step": 2}))
    drawn = jax.jit(lambda n: train.batch(trial, None, None, jax.random.key(0), n).encodings)
    sets = [np.asarray(drawn(jnp.int32(n))) for n in range(3)]
    expected = jax.jit(lambda n: train.encoding_set(trial, 8, n))
    for number in range(6):
        np.testing.assert_array_equal(sets[number // 2][number % 2], expected(jnp.int32(number)))
    losses = jax.jit(
        lambda parameters: train.fresh_losses(trial, Training(parameters, None, jnp.float32(0)), jax.random.key(1))
    )(named_leaves(random_model()))["fresh losses"]
    assert len(set(losses.tolist())) == train.FRESH_SETS


def test_the_arms_see_the_same_data_and_their_own_encodings():
    steps = jnp.arange(6, dtype=jnp.int32)
    keys = [jax.random.key(t) for t in range(6)]
    for pool, distinct in ((0, 6), (1, 1), (2, 2)):
        trial = running(update(SMALL, {"encoding.pool": pool}))
        indices = [int(train.encoding_index(trial, key, t)) for key, t in zip(keys, steps, strict=True)]
        assert len(set(indices)) == distinct
        drawn = train.example_key(trial, keys[0], jnp.int32(3))
        reference = train.example_key(running(SMALL), keys[0], jnp.int32(3))
        assert (jax.random.key_data(drawn) == jax.random.key_data(reference)).all()


def test_a_finite_training_set_has_exactly_its_size():
    trial = running(replace(SMALL, samples=5))
    keys = [train.example_key(trial, jax.random.key(t), jnp.int32(b)) for t in range(12) for b in range(4)]
    assert len({tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}) == 5


@pytest.mark.slow
def test_the_same_run_twice_is_bit_identical_and_another_seed_is_not(program):
    first, again, other = fit(program), fit(program), fit(program, seed=1)
    assert first.value == again.value
    np.testing.assert_array_equal(first.arrays["train/W"], again.arrays["train/W"])
    assert not np.array_equal(first.arrays["train/W"], other.arrays["train/W"])


def test_one_step_from_zero_equals_the_closed_form_gradient():
    """At W = V = 0 the attention is uniform and only V moves: dL/dV = -mean_b target_b (mean_i z_i)^T."""
    config = replace(SMALL, steps=1, measure_every=1)
    arrays = weights_after(config)
    trial = running(config)
    tick = train.at(trial.key("train/tick"), 0)
    key = train.role(tick, "data")
    examples = [
        SparseSelection(8, 2, 3).sample(train.example_key(trial, key, jnp.int32(b))) for b in range(config.batch)
    ]
    encodings = np.asarray(train.encoding_set(trial, 8, jnp.int32(0)))
    expected = np.mean(
        [np.outer(x.tokens[x.subset].mean(0), np.r_[x.tokens.mean(0), encodings.mean(0)]) for x in examples], axis=0
    )
    assert_close(arrays["train/V"], expected, 1e-5)
    assert not arrays["train/W"].any()


def test_a_frozen_value_matrix_stays_the_identity():
    arrays = weights_after(replace(SMALL, train_value=False))
    np.testing.assert_array_equal(arrays["train/V"], np.eye(3, 19, dtype=np.float32))
    assert arrays["train/W"].any()


def test_a_factorised_w_has_the_rank_it_was_given():
    arrays = weights_after(replace(SMALL, factorised=2))
    assert np.linalg.matrix_rank(arrays["train/W"], tol=1e-6) == 2


@pytest.mark.slow
def test_averaging_outputs_costs_less_than_averaging_losses():
    """Jensen: 1/2 E||t - E f||^2 <= 1/2 E||t - f||^2, on the same draws."""
    model, trial = random_model(), running(SMALL)
    parameters = named_leaves(model)
    keys = jax.random.split(jax.random.key(0), 8)
    sets = jnp.stack([train.encoding_set(trial, 8, jnp.int32(i)) for i in range(4)])
    losses = {}
    for average in ("loss", "output"):
        config = replace(SMALL, encoding=replace(SMALL.encoding, per_step=4, average=average))
        losses[average] = float(
            jax.jit(partial(train.batch_loss, running(config)))(parameters, batch_of(keys, sets), None)
        )
    singles = [float(train.batch_loss(trial, parameters, batch_of(keys, one[None]), None)) for one in sets]
    assert losses["output"] < losses["loss"]
    assert_close(losses["loss"], np.mean(singles), 1e-6)


def test_attending_the_query_equals_one_more_context_column():
    model = random_model()
    rng = np.random.default_rng(1)
    tokens, encodings = (jnp.asarray(rng.normal(size=(8, n)).astype(np.float32)) for n in (3, 16))
    query = jnp.asarray(rng.normal(size=19).astype(np.float32))
    more = model(jnp.vstack([tokens, query[:3]]), jnp.vstack([encodings, query[3:]]), query)
    assert_close(model(tokens, encodings, query, attend_query=True), more, 1e-5)


def test_padded_units_of_a_narrow_net_change_nothing():
    config = Fcn(task=Task(4, 2, 1), widest=6, head_width=8)
    example = SparseSelection(4, 2, 1).sample(jax.random.key(0))
    net = FullyConnected(config, jax.random.key(1))
    changed = eqx.tree_at(lambda n: n.first.A, net, net.first.A.at[3:].multiply(5))
    np.testing.assert_array_equal(net(example, "head", 3), changed(example, "head", 3))
    assert not np.array_equal(net(example, "head", 6), changed(example, "head", 6))


@pytest.mark.parametrize("query", ["head", "input"])
def test_the_fully_connected_net_is_its_formula(query):
    config = Fcn(task=Task(4, 2, 3), query=query, widest=6, head_width=5)
    net = FullyConnected(config, jax.random.key(1))
    example = Selection(SparseSelection(4, 2, 3).sample(jax.random.key(0)).tokens, jnp.array([3, 1], dtype=jnp.int32))
    tokens = np.asarray(example.tokens, dtype=np.float64).ravel()
    given = tokens if query == "head" else np.r_[tokens, 1 / 4, 3 / 4]  # positions in ascending order
    hidden = np.asarray(net.first.A) @ given + np.asarray(net.first.b)
    hidden[4:] = 0
    if query == "head":
        hidden = np.r_[hidden, 0, 1, 0, 1]
    for layer in net.head[:2]:
        hidden = np.maximum(np.asarray(layer.A) @ hidden + np.asarray(layer.b), 0)
    last = net.head[2]
    assert_close(net(example, query, 4), np.asarray(last.A) @ hidden + np.asarray(last.b), 1e-5)


def test_the_risk_of_a_net_comes_with_its_standard_error():
    """A net that says c at every input: (x - c)^2 has variance 2 + 4 c^2 for a standard normal x."""
    config = Fcn(Task(2, 1, 1), first_width=1, widest=1, head_width=1, batch=1, steps=1, test_examples=64 * 1024)
    found = run(train_fcn, replace(config, learning_rate=1e-6)).arrays
    risk, error = float(found["train/risk"]), float(found["train/risk standard error"])
    assert 1 - 4 * error < risk < 3
    assert 0.6 < error / np.sqrt((2 + 4 * max(risk - 1, 0)) / config.test_examples) < 1.5


@pytest.mark.slow
def test_a_wide_fully_connected_net_learns_a_tiny_task():
    config = Fcn(task=Task(3, 1, 1), first_width=5, widest=5, head_width=32, batch=64, steps=600, test_examples=2048)
    outcome = run(train_fcn, config)
    assert outcome.arrays["train/risk"] < 0.1  # predicting zero costs 1
