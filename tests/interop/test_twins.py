"""Every model that papers train has a PyTorch twin with the same outputs to 1e-5."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.plan import layers
from stairwise.papers.lego import model as theory
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.papers.selection.model import SelectionAttention
from stairwise.tasks.decomposition import balanced

torch = pytest.importorskip("torch", reason="needs the extra hf")

from stairwise.interop.torch import twin  # noqa: E402

DRAW = np.random.default_rng(0)
START = DRAW.bit_generator.state


def drawn(make, *arguments, **options):
    """A model whose leaves are all drawn, none special."""
    shapes = eqx.filter_eval_shape(make, *arguments, **options)
    return jax.tree.map(lambda leaf: weights(*leaf.shape), shapes)


def normal(*shape):
    return (0.5 * DRAW.standard_normal(shape)).astype(np.float32)


def weights(*shape):
    return jnp.asarray(normal(*shape))


def whole(high, *shape):
    return DRAW.integers(0, high, shape).astype(np.int32)


def standard(**more):
    options = {"vocab": 7, "width": 12, "layers": 2, "heads": 2, "causal": True, "max_length": 9} | more
    return drawn(Transformer, **options, key=jax.random.key(0))


def decoder(**more):
    return drawn(Decoder, vocabulary=9, width=8, heads=2, max_clauses=9, key=jax.random.key(0), **more)


def network():
    return theory.ClauseTransformer(
        weights(5, 6, 5, 6, 3), theory.SparseScores(weights(6, 6), weights(6, 6)), 0.1, 2.0, 0.5, 3
    )


def composition() -> AttentionOnly:
    model = untrained(layers(2), 2, 3, 1.0)
    return jax.tree.map(lambda leaf: weights(*leaf.shape), model)


TREE = eqx.filter_jit(balanced)(jnp.arange(4, dtype=jnp.int32), 4)
CASES = {
    "learned": lambda: (standard(positions="learned"), "__call__", [whole(7, 6)]),
    "rotary": lambda: (standard(positions="rotary", outputs=3, norm="rms", loops=2), "__call__", [whole(7, 6)]),
    "encoder": lambda: (
        standard(positions="none", causal=False, attention_residual=False, norm=False),
        "__call__",
        [whole(7, 6)],
    ),
    "lego": lambda: (decoder(positions="rotary"), "__call__", [whole(9, 6, 5), 3]),
    "lego learned": lambda: (decoder(positions="learned", mlp_residual=False), "__call__", [whole(9, 6, 5), 3]),
    "lego theory": lambda: (network(), "logits", [whole(6, 5, 5), 2]),
    "selection": lambda: (
        SelectionAttention(weights(5, 5), weights(3, 5)), "__call__", [normal(4, 3), normal(4, 2), normal(5)]
    ),
    "composition": lambda: (composition(), "heads", [whole(3, 2, 3)]),
    "parity_onestep": lambda: (PositionalAttention(weights(7, 3), TREE), "by_levels", [normal(4)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_twin_has_the_outputs_of_its_model(case):
    DRAW.bit_generator.state = START
    model, method, inputs = CASES[case]()
    arrays, rest = [x for x in inputs if not isinstance(x, int)], [x for x in inputs if isinstance(x, int)]
    ours = jax.jit(lambda model, *arrays: getattr(model, method)(*arrays, *rest))(model, *arrays)
    theirs = twin(model)(*(torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x) for x in arrays), *rest)
    np.testing.assert_allclose(theirs.detach().numpy(), ours, atol=1e-5 * max(1, np.abs(ours).max()))


def test_a_twin_trains_in_batches():
    network = twin(standard(positions="learned"))
    tokens = torch.from_numpy(whole(7, 3, 6).astype(np.int64))
    assert network(tokens).shape == (3, 6, 7)
    network(tokens).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_what_has_no_twin_is_refused():
    with pytest.raises(ConfigError, match="model=Linear has no twin in PyTorch"):
        twin(eqx.nn.Linear(2, 2, key=jax.random.key(0)))
    with pytest.raises(ConfigError, match="compute_dtype=bfloat16 must be float32 or float64"):
        twin(standard(positions="none", compute_dtype="bfloat16"))


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_twin_computes_where_its_weights_lie(positions):
    network = twin(standard(positions=positions)).to("meta")  # a device without numbers, which every machine has
    assert network(torch.zeros(2, 5, dtype=torch.long, device="meta")).device.type == "meta"
