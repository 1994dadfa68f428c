"""The playground in a real browser: its numbers are the kernel's, every control does what it says, frames are short."""

import re
import shlex
from urllib.parse import parse_qs

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise import playground
from tests.guides.page import text
from tests.slow.browsing import Visit

pytestmark = pytest.mark.slow


@pytest.fixture
def visit(browser):
    with Visit(browser, playground.STATIC) as made:
        yield made
        assert made.complaints == []


@pytest.fixture(scope="module")
def numerics(browser):
    """A page on which the machines' functions are called with draws made here."""
    with Visit(browser, playground.STATIC) as made:
        made.open("index.html")
        yield made.page
        assert made.complaints == []


def close(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(found, dtype=np.float64), np.asarray(expected), rtol=tolerance, atol=1e-9)


# --- selection --------------------------------------------------------------------------------------------------------


def test_the_flow_of_selection_is_the_kernels(numerics):
    from stairwise.papers.selection.config import Task
    from stairwise.papers.selection.theory import generalisation, onehot

    times = np.geomspace(0.1, 1e5, 25)
    for T, q, d in ((16, 3, 5), (50, 2, 1)):
        task, longer = Task(T, q, d), Task(2 * T, q, d)
        path = onehot.flow(task, times)
        found = numerics.evaluate(
            """([task, longer, times]) => {
              const s = stairwise.selection, path = s.flow(task, times);
              const losses = (one) => path.C.map((C, i) => s.loss(one, path.alpha[i], C));
              return {...path, loss: losses(task), longer: losses(longer), threshold: s.attentionThreshold(task, 0.01),
                      law: times.map((t) => s.lateLaw(task, t)), limit: s.lossRatioLimit(task, longer)};
            }""",
            [{"T": T, "q": q, "d": d}, {"T": 2 * T, "q": q, "d": d}, times.tolist()],
        )
        close(found["alpha"], path.alpha)
        close(found["C"], path.C)
        close(found["loss"], onehot.loss(task, path.alpha, path.C))
        close(found["longer"], onehot.loss(longer, path.alpha, path.C))
        close(found["threshold"], onehot.attention_threshold(task, 0.01))
        close(found["limit"], generalisation.loss_ratio_limit(task, longer))
        close(found["law"], [(T - 1) / (4 * time) for time in times])


def test_the_prediction_for_stochastic_encodings_is_the_kernels(numerics):
    from stairwise.papers.selection.config import Task
    from stairwise.papers.selection.theory import stochastic

    task, width = Task(12, 3, 5), 24
    law = np.random.default_rng(0).uniform(-0.6, 0.6, (7, 9))
    for alpha, C in ((0.0, 0.0), (0.7, 1.3), (1.2, 4.0)):
        found = numerics.evaluate(
            "([task, width, law, alpha, C]) => stairwise.selection.lossAveraged(task, width, law, alpha, C)",
            [{"T": 12, "q": 3, "d": 5}, width, law.tolist(), alpha, C],
        )
        close(found["loss"], stochastic.loss_averaged_loss(task, law, alpha, C))
        close([found["value"], found["attention"]], stochastic.loss_averaged_slopes(task, width, law, alpha, C))


def test_sgd_on_the_same_draws_moves_the_weights_as_the_kernels_model_does(numerics):
    from stairwise.nn.encodings import subset_encoding
    from stairwise.papers.selection.model import SelectionAttention

    T, q, d, width, batch, steps, rate = 6, 2, 3, 16, 5, 12, 0.5
    rng = np.random.default_rng(1)
    tokens, signs = rng.normal(size=(steps, batch, T, d)), rng.choice([-1.0, 1.0], (steps, T, width)) / width**0.5
    subsets = np.array([[rng.choice(T, q, replace=False) for _ in range(batch)] for _ in range(steps)])
    found = numerics.evaluate(
        """([tokens, encodings, subsets, T, d, width, rate]) => {
          const model = new stairwise.selection.Attention(d, width);
          tokens.forEach((examples, n) => model.descend(
            examples.map((x, i) => ({tokens: Float64Array.from(x.flat()), subset: subsets[n][i]})),
            Float64Array.from(encodings[n].flat()), T, rate));
          return {W: [...model.W], V: [...model.V], alpha: model.alpha(), C: model.C()};
        }""",
        [tokens.tolist(), signs.tolist(), subsets.tolist(), T, d, width, rate],
    )
    with jax.enable_x64(True):

        @jax.jit
        @jax.grad
        def slope(model, tokens, encodings, subsets):
            def loss(X, y):
                query = jnp.concatenate([jnp.zeros(d), subset_encoding(encodings, y)])
                return jnp.sum((jnp.mean(X[y], axis=0) - model(X, encodings, query)) ** 2) / 2

            return jnp.mean(jax.vmap(loss)(tokens, subsets))

        model = SelectionAttention(W=jnp.zeros((d + width, d + width)), V=jnp.zeros((d, d + width)))
        for n in range(steps):
            gradient = slope(model, jnp.asarray(tokens[n]), jnp.asarray(signs[n]), jnp.asarray(subsets[n]))
            model = jax.tree.map(lambda w, g: w - rate * g, model, gradient)
    close(found["W"], np.asarray(model.W)[:, d:].reshape(-1))
    close(found["V"], np.asarray(model.V).reshape(-1))
    close(found["alpha"], np.trace(np.asarray(model.V)[:, :d]) / d)
    close(found["C"], np.trace(np.asarray(model.W)[d:, d:]) / width)


# --- lego -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "clip"), [("C6", 4.0), ("S5", 4.0), ("<[[1,2,3,0],[2,1,0,3]]>", 3.0)])
def test_the_four_scalars_of_lego_descend_as_the_kernels_do(numerics, name, clip):
    from stairwise.papers.lego import algorithms, reduced
    from stairwise.papers.lego.groups import named
    from stairwise.papers.lego.theory import lengths

    action, steps = named(name), 150
    start = [0.1, 0.0, 0.07, 0.01]  # at zero a logit can equal its clip, and rounding decides about its slope
    found = numerics.evaluate(
        """([name, clip, steps, start]) => {
          const s = stairwise.lego, table = s.group(name), net = s.network(table, 64, clip);
          const populations = [1, 2].map((step) => s.twoSteps(table, step));
          const scores = [start], losses = [], gradients = [];
          for (let t = 0; t <= steps; t++) {
            const state = s.settled(net, scores[t], populations);
            losses.push(state.loss); gradients.push(state.gradient);
            if (t < steps) scores.push(s.descended(scores[t], state, 0.01, 64));
          }
          return {net, scores, losses, gradients, reach: s.criticalLength(scores[steps], net.n),
                  miss: s.concentration(scores[steps], 30, 20), limit: s.criticalConcentration(net.n)};
        }""",
        [name, clip, steps, start],
    )
    with jax.enable_x64(True):
        network = reduced.ideal_values(action, 64, clip)
        chains = tuple(reduced.two_steps(action, step) for step in (1, 2))
        path = algorithms.path(network, chains, jnp.asarray(start), 0.01, 64, 0.0, steps)
    close(
        [found["net"][part] for part in ("alpha", "beta", "clip", "others")],
        [network.alpha, network.beta, network.clip, network.others],
    )
    close(found["scores"], path.scores)
    close(found["losses"], path.losses)
    close(found["gradients"], path.gradients)
    close(found["reach"], lengths.critical_length(path.scores[-1], action.values))
    close(found["miss"], lengths.concentration(path.scores[-1], 30, 20))
    close(found["limit"], lengths.critical_concentration(action.values))


def test_chains_are_told_and_labelled_as_the_kernel_does_on_the_same_draws(numerics):
    from stairwise.papers.lego import reduced
    from stairwise.papers.lego.groups import named

    action, length, scores = named("S4"), 24, [1.9, -0.01, 1.7, -0.02]
    rng = np.random.default_rng(3)
    actions, starts = rng.integers(0, action.actions, (20, length)), rng.integers(0, action.values, 20)
    found = numerics.evaluate(
        """([table, scores, actions, starts, length]) => {
          const s = stairwise.lego, net = s.network(table, 64);
          const chains = starts.map((start, i) => ({start, actions: actions[i]}));
          const population = s.selfLabelled(net, table, scores, chains, length);
          return {said: chains.map((c) => s.rollout(net, table, scores, c.actions, c.start, length).said),
                  labels: population.labels, ...s.settled(net, scores, [population])};
        }""",
        [action.table.tolist(), scores, actions.tolist(), starts.tolist(), length],
    )
    with jax.enable_x64(True):
        network, table = reduced.ideal_values(action, 64), jnp.asarray(action.table)
        at = jnp.asarray(scores)
        walks = [
            reduced.rollout(network, table, at, jnp.asarray(a), jnp.int32(y), length)
            for a, y in zip(actions, starts, strict=True)
        ]
        contexts = [
            reduced.chain_context(
                table, jnp.asarray(a), jnp.concatenate([jnp.array([y]), walk.values]), length, 2, at.dtype
            )
            for a, y, walk in zip(actions, starts, walks, strict=True)
        ]
        population = reduced.Population(
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *contexts), jnp.full(20, 1 / 20)
        )
        loss, gradient = jax.value_and_grad(lambda scores: reduced.mean_loss(network, scores, population))(at)
    said = np.array([walk.values for walk in walks])
    assert np.array(found["said"]).tolist() == said.tolist()
    assert 0 < np.mean([walk.right for walk in walks]) < 1  # some chains are lost, so that mistakes are compared too
    close(found["labels"], np.mean([walk.right[:2] for walk in walks]))
    close(found["loss"], loss)
    close(found["gradient"], gradient)


def test_generators_that_are_none_are_refused_in_one_line(visit):
    for written, says in {
        "<[[1,2]]>": "must have 3..8 values per row",
        "<[[1,1,0]]>": "must be a permutation of 0..2",
        "<[[1,0,2]]>": "must take each value to each other one",
        "turn": "must be rows of whole numbers",
    }.items():
        visit.open("index.html#machine=lego&group=own")
        visit.page.fill("#set-generators", written)
        visit.page.keyboard.press("Enter")
        assert says in visit.page.inner_text("#status")


# --- parity in one step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "leaves"), [(8, [1, 2, 5, 7]), (10, [0, 2, 3, 4, 7, 9])])
def test_the_gradients_of_parity_are_the_kernels_on_the_same_samples(numerics, bits, leaves):
    from stairwise.papers.parity_onestep import gradient
    from stairwise.papers.parity_onestep.links import POLY4
    from stairwise.papers.parity_onestep.model import Filter, PositionalAttention
    from stairwise.papers.parity_onestep.quantise import quantise
    from stairwise.tasks.decomposition import balanced

    with jax.enable_x64(True):
        tree, rng = balanced(jnp.array(leaves), bits), np.random.default_rng(bits)
        x = np.asarray(tree.complete(jnp.asarray(rng.choice([-1.0, 1.0], (bits, 64)))))
        W = rng.normal(size=(tree.tokens, tree.nodes))
        model = PositionalAttention(jnp.asarray(W), tree, POLY4, "block")
        gates = jnp.arange(tree.levels) < tree.levels - 1
        ones = jnp.ones(64)
        forced = gradient.forced_at_zero(tree, POLY4, "causal", jnp.asarray(x), ones)
        rolled = gradient.generated(model, gates, tree.used, jnp.asarray(x), ones)
        sharp = PositionalAttention(6 * tree.is_child() - 3.0, tree, POLY4, "block")
        expected = {
            "scores": model.scores(),
            "forced": forced.S,
            "forced loss": forced.loss,
            "rolled": rolled.S,
            "rolled loss": rolled.loss,
            "gradient": gradient.gradient(model.scores(), rolled.S, 64.0),
            "gates": model.gates(jnp.asarray(x[:bits].T), Filter(1.5)),
            "sharp gates": sharp.gates(jnp.asarray(x[:bits].T), Filter(1.5)),
            "children": tree.children,
            "height": tree.height,
            "seen": tree.visible_count("block"),
            "seen causal": tree.visible_count("causal"),
            "rounded": quantise(jnp.asarray(4 * W), 1.0, 0.0),
            "saturated": quantise(jnp.asarray(4 * W), 3.0, 1.0),
            "nodes": x[bits:],
        }
        clear = np.asarray(sharp.W)
    found = numerics.evaluate(
        """([bits, leaves, x, W, sharp]) => {
          const s = stairwise.parity, t = s.tree(leaves, bits);
          const block = s.visible(t, "block"), causal = s.visible(t, "causal");
          const X = Float64Array.from(x.flat()), w = Float64Array.from(W.flat()), scores = s.scoresOf(t, block, w);
          const S = new Float64Array(w.length), R = new Float64Array(w.length);
          const gates = Array.from({length: t.levels}, (_, l) => l < t.levels - 1);
          const forced = s.forcedAtZero(t, causal, X, 64, S), rolled = s.generated(t, block, scores, gates, X, 64, R);
          const clear = s.scoresOf(t, block, Float64Array.from(sharp.flat()));
          return {scores: [...scores], forced: [...S], "forced loss": forced, rolled: [...R], "rolled loss": rolled,
            gradient: [...s.gradient(t, scores, R, 64)], gates: s.gatesOf(t, block, scores, X, 64, 1.5),
            "sharp gates": s.gatesOf(t, block, clear, X, 64, 1.5), children: t.children, height: t.height,
            seen: block, "seen causal": causal, rounded: [...s.quantise(w.map((v) => 4 * v), 1, 0)],
            saturated: [...s.quantise(w.map((v) => 4 * v), 3, 1)], nodes: [...X.subarray(bits * 64)]};
        }""",
        [bits, leaves, x.tolist(), W.tolist(), clear.tolist()],
    )
    visible = np.asarray(tree.visible("causal"))
    for name, value in expected.items():
        value = np.asarray(value, dtype=np.float64)
        if name == "forced":  # tokens that a node does not see have no gradient, whatever S holds there
            value = np.where(visible, value, 0)
        if name == "rolled":
            value = np.where(np.asarray(tree.visible("block")), value, 0)
        close(np.asarray(found[name], dtype=np.float64).reshape(value.shape), value)


def test_the_predictions_for_parity_are_the_kernels(numerics):
    from stairwise.papers.parity_onestep.theory import noise, population

    found = numerics.evaluate(
        """() => {
          const s = stairwise.parity;
          return [s.supportSamples(46, 15), s.leakage(46, 9), s.firstChild(12), s.noise(46, 1000)];
        }"""
    )
    law = noise.leading_law(46, 1000, 4.0)
    close(
        found, [noise.support_samples(46, 15), noise.leakage(46, 9), population.first_node_poly4(12).child, law.other]
    )


# --- composition ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("heads", "scale"), [((1,), 0.0), ((3,), 0.6), ((1, 2, 3), 0.6), ((1, 2, 3), 8.0)])
def test_the_gradients_of_composition_are_the_kernels_on_the_same_samples(numerics, heads, scale):
    from stairwise.papers.composition.theory import descent, exact

    rng = np.random.default_rng(5)
    hidden = np.array([rng.permutation(3) for _ in range(4)])
    with jax.enable_x64(True):
        model = descent.start(hidden, 1.0)
        matrices = tuple(scale * jnp.asarray(rng.normal(size=W.shape)) for W in model.key_query)
        model = exact.with_key_query(model, matrices)
        model = exact.with_readout(
            model, model.readout + 0.3 * scale * jnp.asarray(rng.normal(size=model.readout.shape))
        )
        examples = exact.of_heads(exact.drawn(hidden, 3, 12, rng), *heads)
        gradient, loss = exact.mean_gradient(model, examples), exact.mean_loss(model, examples)
        labels = np.asarray(examples.labels)
    found = numerics.evaluate(
        """([hidden, W, psi, sequences, queries, heads]) => {
          const s = stairwise.composition, model = new s.Model(4, 3);
          W.forEach((w, l) => { model.W[l].set(w); model.idle[l] = w.every((x) => x === 0); });
          model.psi.set(psi);
          const labels = sequences.map((one, i) => [0, 1, 2].map((h) => s.hop(hidden, one, 2 ** h)[queries[i]]));
          let loss = 0;
          sequences.forEach((one, i) => {
            model.learnKeys(one, queries[i], labels[i], heads);
            loss += model.learnReadouts(one, queries[i], labels[i], heads) / sequences.length;
          });
          return {loss, labels, W: model.gW.map((g) => [...g]), psi: [...model.gPsi]};
        }""",
        [
            hidden.tolist(),
            [np.asarray(W).reshape(-1).tolist() for W in model.key_query],
            np.asarray(model.readout).reshape(-1).tolist(),
            np.asarray(examples.sequence).tolist(),
            np.asarray(examples.query).tolist(),
            [head - 1 for head in heads],
        ],
    )
    assert found["labels"] == labels.tolist()
    close(found["loss"], loss)
    close(np.array(found["psi"]) / 12, np.asarray(gradient.readout).reshape(-1))
    if heads[-1] == 3 or scale == 0:  # a page's key-query step reads no block above its last head's
        for mine, kernels in zip(found["W"], gradient.key_query, strict=True):
            close(np.array(mine) / 12, np.asarray(kernels).reshape(-1))


def test_the_predictions_for_composition_are_the_kernels(numerics):
    from stairwise.papers.composition.plan import layers
    from stairwise.papers.composition.task import Composition, ideal_attention, ideal_stream
    from stairwise.papers.composition.theory import noise, population

    rng = np.random.default_rng(6)
    hidden, sequence = (np.array([rng.permutation(4) for _ in range(4)]) for _ in range(2))
    found = numerics.evaluate(
        """([hidden, sequence]) => {
          const s = stairwise.composition, rate = s.rateFor(4, 4, 1, 40);
          return {numbers: [s.plateau(4, 1), s.marginOverNoise(4, 4, 8192, 3), rate],
                  keys: [0, 1, 2].map((l) => s.rightKeys(hidden, sequence, l)), hops: s.hop(hidden, sequence, 4)};
        }""",
        [hidden.tolist(), sequence.tolist()],
    )
    plateau, margin, rate = found["numbers"]
    close(plateau, population.plateau(4, 1.0))
    close(margin, noise.margin_over_noise(4, 4, 8192, 3))
    derangement = np.roll(np.arange(4), 1)[None].repeat(4, axis=0)
    close(rate * abs(population.key_query_gradient(derangement, 3, 1.0)).max(), 40)
    task, of = Composition(jnp.asarray(hidden)), layers(4)
    assert found["hops"] == np.asarray(task.hop(jnp.asarray(sequence), 4)).reshape(-1).tolist()
    keys = ideal_attention(of, jnp.asarray(hidden), ideal_stream(of, jnp.asarray(hidden), jnp.asarray(sequence)))
    assert found["keys"] == np.asarray(keys).reshape(3, -1).tolist()


# --- the page ---------------------------------------------------------------------------------------------------------

MACHINES = ("selection", "parity", "composition", "lego")


def settings(visit) -> dict:
    return visit.page.evaluate("stairwise.page.settings()")


def in_address(visit) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(visit.page.url.partition("#")[2]).items()}


def of_machine(visit, part: str) -> list[dict]:
    return visit.page.evaluate(f"stairwise.machines.find((m) => m.id === stairwise.page.machine()).{part}")


def go(visit, address: dict) -> None:
    """Changes what is behind the hash, as a link within the page does."""
    words = {
        name: {True: "1", False: "0"}.get(value, value) if value in (True, False) else value
        for name, value in address.items()
    }
    visit.page.evaluate("(words) => { location.hash = new URLSearchParams(words) }", words)
    visit.page.wait_for_timeout(50)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_plays_pauses_steps_and_resets(visit, machine):
    visit.open(f"index.html#machine={machine}")
    start = visit.page.inner_text("#status")
    visit.page.click("#play")
    visit.until(f"document.getElementById('status').innerText !== {start!r}")
    assert visit.page.get_attribute("#play", "aria-pressed") == "true"
    visit.page.evaluate("document.activeElement.blur()")
    visit.page.keyboard.press("Space")
    assert visit.page.evaluate("stairwise.page.playing()") is False
    assert visit.page.inner_text("#news").startswith("paused")
    paused = visit.page.inner_text("#status")
    visit.page.keyboard.press("s")
    visit.until(f"document.getElementById('status').innerText !== {paused!r} || stairwise.page.run().ended")
    visit.page.keyboard.press("r")
    assert visit.page.inner_text("#status") == start


@pytest.mark.parametrize("machine", MACHINES)
def test_every_control_changes_its_setting_and_the_address(visit, machine):
    visit.open(f"index.html#machine={machine}")
    presets = [preset["set"] for preset in of_machine(visit, "presets")]
    for control in of_machine(visit, "controls"):
        name, kind = control["name"], control.get("kind", "range")
        for chosen in [*presets, {"group": "own"}]:
            if visit.page.is_hidden(f"#row-{name}"):
                go(visit, {"machine": machine, **chosen})
        assert visit.page.is_visible(f"#row-{name}"), name
        before = settings(visit)[name]
        if kind == "check":
            visit.page.click(f"#set-{name}")
        elif kind == "text":
            visit.page.fill(f"#set-{name}", "<[[1,2,3,4,0]]>")
            visit.page.keyboard.press("Enter")
        elif kind == "choice" and len(control["options"]) <= 3:
            value = next(option[0] for option in control["options"] if option[0] != before)
            visit.page.check(f"#set-{name}-{value}", force=True)
        elif kind == "choice":
            value = next(option[0] for option in control["options"] if option[0] != before)
            visit.page.select_option(f"#set-{name}", str(value))
        else:
            last = int(visit.page.get_attribute(f"#set-{name}", "max")) == int(
                float(visit.page.input_value(f"#set-{name}"))
            )
            visit.page.focus(f"#set-{name}")
            visit.page.keyboard.press("ArrowLeft" if last else "ArrowRight")
            assert visit.page.get_attribute(f"#set-{name}", "aria-valuetext") == visit.page.inner_text(
                f"#set-{name}-value"
            )
        assert settings(visit)[name] != before, name
        now, first = settings(visit)[name], control["value"]
        if now != first:
            assert in_address(visit)[name] == ({True: "1", False: "0"}[now] if kind == "check" else f"{now}"), name
        go(visit, {"machine": machine})


@pytest.mark.parametrize("machine", MACHINES)
def test_every_preset_trains_and_can_be_linked_to(visit, machine):
    visit.open(f"index.html#machine={machine}")
    presets = of_machine(visit, "presets")
    assert {bool(preset.get("breaks")) for preset in presets} == {True, False}
    for number in range(len(presets)):
        visit.page.click(f"#preset-{number}")
        visit.until("stairwise.works.length > 3")
        visit.page.click("#reset")
        assert visit.page.get_attribute(f"#preset-{number}", "aria-pressed") == "true"
        chosen, link = settings(visit), visit.page.url
        visit.open("index.html#" + link.partition("#")[2])
        assert settings(visit) == chosen
        assert visit.page.get_attribute(f"#preset-{number}", "aria-pressed") == "true"


# what a preset's words promise, as a condition on the run after so many steps
SHOWN = {
    "selection": {
        "Stochastic encodings generalise": (2000, "run.arms[0].byLength[4] < 0.65 * run.arms[1].byLength[4]"),
        "The 1/t law": (9999, "Math.abs(run.loss / stairwise.selection.lateLaw(run.task, run.flow.time) - 1) < 0.02"),
        "Fix the encodings": (1200, "run.arms[0].byLength[4] > 8 * run.arms[0].byLength[0]"),
        "Only a few encodings": (1200, "run.arms[0].byLength[4] > 5 * run.arms[0].recent"),
        "A large learning rate": (1200, "run.ended && run.arms.some((arm) => !Number.isFinite(arm.recent))"),
    },
    "parity": {
        "One step finds the tree": (9999, "run.solved && run.facts.support === 1"),
        "Without forcing, level by level": (
            9999,
            "run.steps.every((row, step) => row.every((sup, level) => (sup < 0.5) === level < step))",
        ),
        "Too few samples": (9999, "!run.solved && run.facts.support < 1"),
        "Too small a step": (9999, "!run.solved && run.facts.support === 1"),
        "No filter, no rounding": (9999, "run.number === 5 && run.levels().every((sup) => sup > 0.5)"),
        "Integers on too few samples": (9999, "!run.solved"),
    },
    "composition": {
        "Algorithm 1, head by head": (9999, "run.latest.every((head) => head.accuracy === 1)"),
        "Algorithm 2, layer by layer": (
            9999,
            "run.latest.every((head) => head.accuracy === 1)"
            " && run.moved.filter(Boolean).every((sizes, step) => sizes.indexOf(Math.max(...sizes)) === step)",
        ),
        "4 hops alone": (9999, "run.latest.every((head) => head.accuracy < 0.4)"),
        "Too few samples": (9999, "run.latest[2].right < 0.5"),
        "Small steps": (9999, "run.latest[2].right < 0.5"),
    },
    "lego": {
        "Self-training doubles the length": (
            9999,
            "run.stages.length === 7 && run.time === 186 && Math.round(run.reach) === 285"
            " && run.stages.every((stage) => stage.labels === 1 && stage.reach > 2 * stage.length)",
        ),
        "Chains of two go far, for turns": (9999, "run.reach > 300"),
        "Stop a stage too early": (9999, "run.stuck && run.labels < 0.9"),
        "No self-training": (186, "Math.round(run.reach) === 43"),
        "A low logit clip": (9999, "run.stuck && run.stage === 1"),
    },
}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_preset_shows_what_it_says(numerics, machine):
    for name, (steps, condition) in SHOWN[machine].items():
        status = numerics.evaluate(
            f"""([id, name, steps]) => {{
              const machine = stairwise.machines.find((m) => m.id === id);
              const settings = Object.fromEntries(machine.controls.map((c) => [c.name, c.value]));
              const run = machine.make({{...settings, ...machine.presets.find((p) => p.name === name).set}});
              for (let n = 0; n < steps && !run.ended; n++) run.step();
              return ({condition}) ? "" : run.status();
            }}""",
            [machine, name, steps],
        )
        assert status == "", name
    presets = numerics.evaluate(
        "(id) => stairwise.machines.find((m) => m.id === id).presets.map((p) => p.name)", machine
    )
    assert presets == list(SHOWN[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_the_page_gives_the_same_in_python(visit, machine):
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.open(f"index.html#machine={machine}")
    for preset in range(len(visit.page.query_selector_all("#presets button"))):
        visit.page.click(f"#preset-{preset}")
        visit.page.click("#reset")
        visit.page.click("#python")
        code = visit.page.inner_text("#code-text")
        visit.until("document.getElementById('copied').innerText === 'copied'")
        assert visit.page.evaluate("navigator.clipboard.readText()") == code
        check_python(code)
        visit.page.click("#python")


def check_python(code: str) -> None:
    """Commands are such as `run` takes, and Python compiles and names what there is."""
    from stairwise.cli import main

    for command in re.findall(r"stairwise (run .*)", code):
        assert main([*shlex.split(command), "--dry-run"]) == 0
    if not code.startswith("stairwise "):
        lines = [line for line in code.splitlines() if re.match(r"(from|import) ", line)]
        exec("\n".join(lines), {})
        compile(code, "playground", "exec")


@pytest.mark.parametrize("machine", MACHINES)
def test_a_frame_is_short_and_the_page_fits_a_phone(browser, machine):
    for width, scheme in ((1400, "light"), (390, "dark")):
        with Visit(browser, playground.STATIC, color_scheme=scheme, has_touch=width < 500) as visit:
            visit.page.set_viewport_size({"width": width, "height": 844})
            visit.open(f"index.html#machine={machine}")
            (visit.page.tap if width < 500 else visit.page.click)("#play")
            visit.page.wait_for_timeout(3000)
            work = np.array(visit.page.evaluate("stairwise.works"))
            assert len(work) > 20
            quiet = np.quantile(work, 0.1)  # a busy machine stretches frames; the quietest ones show the work itself
            assert quiet < 8, np.quantile(work, (0.1, 0.5, 0.9))
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert visit.page.evaluate(
                "[...document.querySelectorAll('canvas')].every((c) => c.getAttribute('aria-label'))"
            )
            assert visit.complaints == []


@pytest.mark.parametrize("machine", MACHINES)
def test_an_embedded_machine_stands_without_its_frame(visit, machine):
    visit.open(f"index.html#machine={machine}&embed=1")
    assert [visit.page.is_visible(part) for part in ("header", "#intro", "canvas")] == [False, False, True]
    visit.page.click("#preset-0")
    assert in_address(visit)["embed"] == "1"


def test_a_bad_value_in_the_address_is_said_in_one_line(visit):
    visit.open("index.html#machine=selection&T=5000")
    assert visit.page.inner_text("#status") == "T=5000 must lie in 8..60"
    assert settings(visit)["T"] == 16
    visit.open("index.html#machine=clock")
    assert visit.page.inner_text("#status") == f"machine=clock must be one of {', '.join(MACHINES)}"


def test_the_addresses_of_the_guide_mean_what_they_say(visit):
    found = re.findall(r"index\.html#([\w=&]+)", text("how-to/playground"))
    assert len(found) == 3
    for words in found:
        visit.open(f"index.html#{words}")
        asked = {name: values[0] for name, values in parse_qs(words).items()}
        assert visit.page.evaluate("stairwise.page.machine()") == asked.pop("machine")
        assert (visit.page.is_hidden("header"), visit.page.evaluate("stairwise.page.playing()")) == (
            asked.pop("embed", "0") == "1",
            asked.pop("play", "0") == "1",
        )
        assert {name: str(settings(visit)[name]) for name in asked} == asked


def test_digits_and_arrows_choose_a_machine(visit):
    visit.open("index.html")
    for number, machine in enumerate(MACHINES, start=1):
        visit.page.keyboard.press(str(number))
        assert visit.page.evaluate("stairwise.page.machine()") == machine
        assert visit.page.get_attribute(f"#tab-{machine}", "aria-selected") == "true"
    visit.page.focus(f"#tab-{MACHINES[-1]}")
    visit.page.keyboard.press("ArrowRight")
    assert visit.page.evaluate("stairwise.page.machine()") == MACHINES[0]
