"""Entropies of Hugging Face models: streaming equals the whole computation, and padding changes nothing."""

import json

import numpy as np
import pytest

from stairwise.papers.parity_cot import gsm8k
from tests.helpers import assert_close
from tests.language import INVENTED, gsm8k_folder, need_transformers, save_tiny_model, write_problems

PROBLEMS = [gsm8k.WordProblem(*one) for one in INVENTED]
TEXTS = [gsm8k.texts(one) for one in PROBLEMS]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    need_transformers()
    return save_tiny_model(tmp_path_factory.mktemp("qwen2"), [text.with_cot for text in TEXTS])


@pytest.fixture(scope="module")
def model(model_folder):
    from stairwise.papers.parity_cot import entropies

    return entropies.load(str(model_folder), device="cpu")


def whole_attention(model, tokens):
    """Every layer's weights at once, as the library gives them."""
    import torch

    with torch.inference_mode():
        out = model.network(torch.tensor([tokens]), output_attentions=True)
    return np.stack([layer[0].double().numpy() for layer in out.attentions])


def eq1(weights, rows, skip_sink=False):
    """Eq. (1) of weights [layer, head, i, j] as it is written, in NumPy and double precision."""
    values = []
    for i in rows:
        seen = weights[..., i, 1 if skip_sink else 0 : i + 1]
        if seen.shape[-1] < 2:
            continue
        p = seen / seen.sum(-1, keepdims=True)
        values.append(-np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1) / np.log(seen.shape[-1]))
    return np.min(values, axis=0), np.mean(values, axis=0)


@pytest.mark.parametrize("skip_sink", [False, True])
def test_the_streamed_entropies_are_those_of_the_whole_attention(model, skip_sink):
    from stairwise.papers.parity_cot import entropies

    values = entropies.measure(model, TEXTS[:3], skip_sink=skip_sink).values
    for number, texts in enumerate(TEXTS[:3]):
        for condition, one in entropies.encode(model.tokenizer, texts).items():
            weights, end = whole_attention(model, one.tokens), one.question + one.matched
            for variant, rows in {
                "all": range(len(one.tokens)),
                "all, matched": range(end),
                "answer": range(one.question, len(one.tokens)),
                "answer, matched": range(one.question, end),
            }.items():
                smallest, mean = eq1(weights, rows, skip_sink)
                names = [str(v) for v in entropies.VARIANTS]
                assert_close(values[condition][number][..., names.index(f"min, {variant}")], smallest, 2e-6)
                assert_close(values[condition][number][..., names.index(f"mean, {variant}")], mean, 2e-6)


def test_only_one_layer_of_attention_is_alive_at_a_time(model):
    import weakref

    import torch

    from stairwise.papers.parity_cot import entropies

    alive, counts = [], []

    def reduce(module, weights):
        counts.append(sum(ref() is not None for ref in alive))
        alive.append(weakref.ref(weights))
        return np.zeros((1, 4, 1))

    with torch.inference_mode(), entropies.each_attention(model.network, reduce) as layers:
        model.network.base_model(torch.arange(50)[None])
    assert (len(layers), counts) == (3, [0, 0, 0])


def test_padding_and_companions_change_nothing(model):
    from stairwise.papers.parity_cot import entropies

    alone = entropies.measure(model, TEXTS).values
    together = entropies.measure(model, TEXTS, batch=4).values
    for condition in entropies.CONDITIONS:
        assert_close(together[condition], alone[condition], 1e-5)


def test_a_sliding_window_counts_the_keys_inside_it():
    torch = pytest.importorskip("torch")
    from stairwise.papers.parity_cot import entropies

    window, length = 3, 7
    i, j = torch.arange(length)[:, None], torch.arange(length)
    inside = (j <= i) & (j > i - window)
    uniform = (inside / inside.sum(-1, keepdim=True))[None, None]
    rows, counted = entropies.row_entropy(uniform, torch.ones(1, length, dtype=torch.bool), window)
    assert counted[0].tolist() == [False] + [True] * (length - 1)
    assert_close(rows[0, 0, 1:], np.ones(length - 1), 1e-6)


def test_without_the_sink_a_head_that_drains_into_it_shows_what_is_left():
    torch = pytest.importorskip("torch")
    from stairwise.papers.parity_cot import entropies

    weights = torch.tensor([[1.0, 0, 0], [0.9, 0.1, 0], [0.98, 0.01, 0.01]])[None, None]
    rows, counted = entropies.row_entropy(weights, torch.ones(1, 3, dtype=torch.bool), skip_sink=True)
    assert counted[0].tolist() == [False, False, True]
    assert_close(rows[0, 0, 2], 1.0, 1e-6)


def test_half_precision_weights_are_summed_in_single_precision():
    torch = pytest.importorskip("torch")
    from stairwise.papers.parity_cot import entropies

    uniform = torch.full((1, 1, 512, 512), 1 / 512, dtype=torch.bfloat16)
    rows, _ = entropies.row_entropy(uniform, torch.ones(1, 512, dtype=torch.bool))
    assert_close(rows[0, 0, -1], 1.0, 1e-6)


def test_more_tokens_never_raise_the_minimum_whatever_the_weights(model):
    """The text up to a later token contains the text up to an earlier one: the paper's number depends on length."""
    from stairwise.papers.parity_cot import entropies

    for texts in TEXTS[:3]:
        tokens = entropies.encode(model.tokenizer, texts)["with CoT"].tokens
        ends = (len(tokens) // 3, len(tokens) // 2, len(tokens))
        cut = [entropies.entropies(model, [entropies.Encoded(tokens[:end], 1, 1)])[0, ..., 0] for end in ends]
        assert np.all(cut[1] <= cut[0] + 1e-6)
        assert np.all(cut[2] <= cut[1] + 1e-6)


def test_a_question_that_merges_with_the_answer_ends_where_the_tokens_part():
    from stairwise.papers.parity_cot import entropies

    class Pairs:
        """Tokens are pairs of characters: the boundary moves with the parity of the question."""

        def __call__(self, text):
            return {"input_ids": [hash(text[k : k + 2]) for k in range(0, len(text), 2)]}

    encoded = entropies.encode(Pairs(), gsm8k.ProblemTexts("abc", "abc long answer", "abc short"))
    assert {name: one.question for name, one in encoded.items()} == {"with CoT": 1, "without CoT": 1}
    assert {one.matched for one in encoded.values()} == {4}


def test_differences_are_paired_by_problem(model):
    from stairwise.papers.parity_cot import entropies

    values = entropies.measure(model, TEXTS).values["without CoT"]
    shifted = entropies.compare(values + np.float32(0.25), values)
    for row in shifted:
        assert_close([*row.difference], [0.25] * 3, 1e-6)
        assert (row.lower, row.not_higher) == (0.0, 0.0)


def test_a_model_without_attention_weights_is_named(model_folder):
    from transformers import AutoModelForCausalLM

    from stairwise.papers.parity_cot import entropies

    network = AutoModelForCausalLM.from_pretrained(model_folder, attn_implementation="sdpa")
    model = entropies.load(str(model_folder), device="cpu")._replace(network=network)
    with pytest.raises(ValueError, match=r"no attention weights .*attn_implementation=eager"):
        entropies.measure(model, TEXTS[:1])


def test_an_entropy_that_is_not_finite_is_refused_by_model_and_problem(model):
    import copy

    import torch

    from stairwise.papers.parity_cot import entropies

    broken = model._replace(network=copy.deepcopy(model.network))
    with torch.no_grad():
        broken.network.model.layers[1].self_attn.q_proj.weight.fill_(torch.inf)
    with pytest.raises(ValueError, match=f"^model={model.name}: problem 1 with CoT gives no finite entropy$"):
        entropies.measure(broken, TEXTS[:1])


def test_gpt2_is_read_too_and_a_text_longer_than_its_table_is_refused(tmp_path):
    need_transformers()
    from stairwise.papers.parity_cot import entropies

    gpt2 = entropies.load(str(save_tiny_model(tmp_path, [t.with_cot for t in TEXTS], "gpt2")), device="cpu")
    one = entropies.encode(gpt2.tokenizer, TEXTS[1])["with CoT"]
    found = entropies.entropies(gpt2, [one])[0, ..., 0]
    assert_close(found, eq1(whole_attention(gpt2, one.tokens), range(len(one.tokens)))[0], 2e-6)
    with pytest.raises(ValueError, match="300 tokens and the model reads at most 256"):
        entropies.entropies(gpt2, [entropies.Encoded([1] * 300, 5, 5)])


def test_random_weights_keep_the_scale_of_every_matrix_and_nothing_else(model_folder):
    from stairwise.papers.parity_cot import entropies

    trained = entropies.load(str(model_folder), device="cpu")
    before = {name: weight.detach().clone() for name, weight in trained.network.named_parameters()}
    entropies.randomise(trained, seed=0)
    for name, weight in trained.network.named_parameters():
        if weight.ndim < 2:
            assert bool((weight == before[name]).all())
        else:
            assert_close(weight.std().item(), before[name].std().item(), 0.05)
            assert abs(np.corrcoef(weight.detach().flatten(), before[name].flatten())[0, 1]) < 0.1
    again, other = (entropies.randomise(entropies.load(str(model_folder), device="cpu"), seed=seed) for seed in (0, 1))
    first, second, third = (entropies.measure(one, TEXTS[:1]).values["with CoT"] for one in (trained, again, other))
    np.testing.assert_array_equal(first, second)
    assert np.any(first != third)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["{"], "line 1 is not JSON"),
        ([json.dumps({"question": "q", "answer": "#### 1"}), "", "nonsense"], "line 3 is not JSON"),
        ([json.dumps({"question": "q"})], 'line 1 must be an object with the texts "question" and "answer"'),
        ([json.dumps(["q", "#### 1"])], "line 1 must be an object"),
        ([json.dumps({"question": "q", "answer": "1"})], "line 1: the answer must end with ####"),
        ([json.dumps({"question": "", "answer": "#### 1"})], "line 1 must be an object"),
        ([json.dumps({"question": "q", "answer": "2 + 2 #### "})], "line 1: the answer must end with #### and"),
        ([json.dumps({"question": chr(0xD800), "answer": "#### 1"})], "line 1 must be text, without lone surrogates"),
        (["[" * 10**5], "line 1 is not JSON"),
        (['{"question": ' + "9" * 5000 + "}"], "line 1 is not JSON"),
        ([], "holds no records"),
        (["", ""], "holds no records"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused_by_line(tmp_path, lines, words):
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=words) as caught:
        gsm8k.read_problems(path)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused_by_line(tmp_path):
    path = write_problems(tmp_path / "bad.jsonl", INVENTED[:2])
    path.write_bytes(path.read_bytes() + b'{"question": "\xff", "answer": "#### 1"}\n')
    with pytest.raises(ValueError, match="line 3 is not JSON"):
        gsm8k.read_problems(path)
    assert len(gsm8k.read_problems(path, limit=2)) == 2


def test_results_keep_their_commas_apart_and_their_signs():
    assert [gsm8k.result(one.answer) for one in PROBLEMS] == ["12", "120", "2125", "-10", "81", "26"]


def test_the_authors_pattern_is_wrong_on_16_of_the_1319_test_problems():
    problems = gsm8k.read_problems(gsm8k_folder() / "test.jsonl")
    wrong = [one for one in problems if gsm8k.trailing_digits(one.answer) != gsm8k.result(one.answer)]
    spans = [one for one in problems if gsm8k.without_calculator(one.answer) != one.answer]
    assert (len(problems), len(wrong), len(spans)) == (1319, 16, 1301)


def test_random_weights_are_already_sparser_with_cot_by_eq1_and_not_by_the_mean(tmp_path):
    """The confound, on published problems: the minimum falls with length, the mean over tokens rises."""
    need_transformers()
    from stairwise.papers.parity_cot import entropies

    problems = [gsm8k.texts(one) for one in gsm8k.read_problems(gsm8k_folder() / "test.jsonl", limit=10)]
    folder = save_tiny_model(tmp_path, [text.with_cot for text in problems])
    values = entropies.measure(entropies.load(str(folder), device="cpu"), problems).values
    rows = {str(row.variant): row for row in entropies.compare(values["with CoT"], values["without CoT"])}
    assert rows["min, all"].difference.high < 0
    assert rows["min, all"].not_higher > 0.9
    assert rows["mean, all"].difference.value > 0
