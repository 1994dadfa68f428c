"""How well anything answers a task: per length and per step, with and without worked steps, with Wilson intervals.

A model is one of

    a function from a prompt to what it says                           form="text"
    a function from token ids (rows, length) to logits (rows, length, vocabulary)      form="tokens"
    an object with complete(prompts, like) -> texts, such as `measure.completion.LanguageModel`
    a path or name of a Hugging Face causal language model

What has no possible answer in it is wrong, and counted as invalid.

>>> evaluate(lambda prompt: "Answer: 0", "lego", n=20, cot=False, action="C3").rows[0].invalid
0
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from stairwise.config import ConfigError, as_dict, short
from stairwise.lab.contract.sources import TaskSource
from stairwise.lab.data.request import DataRequest
from stairwise.lab.progress import Silent
from stairwise.measure.reading import Reading, Value, read, value_of

FORMS = ("text", "tokens")
AT_ONCE = 16


@runtime_checkable
class Completer(Protocol):
    """Continues prompts; `like` is an answer of the kind that is expected."""

    batch: int

    def complete(self, prompts: Sequence[str], like: str) -> list[str]: ...


@dataclass(frozen=True)
class Rate:
    """A success rate with its 95 % Wilson interval."""

    right: int
    of: int
    value: float
    low: float
    high: float

    @staticmethod
    def of_hits(hits: Iterable[bool]) -> "Rate":
        from stairwise.measure.accuracy import wilson

        hits = list(hits)
        found = wilson(sum(hits), len(hits))
        return Rate(sum(hits), len(hits), *(round(float(end), 6) for end in found))


@dataclass(frozen=True)
class DifficultyScore:
    """One difficulty, with or without worked steps."""

    difficulty: int
    cot: bool
    answer: Rate
    steps: tuple[Rate, ...]
    invalid: int


@dataclass(frozen=True)
class Evaluation:
    """What was asked, and how it was answered."""

    task: str
    options: dict[str, Any]
    difficulty: str
    model: str
    form: str
    shots: int
    seed: int
    split: str
    rows: tuple[DifficultyScore, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """One line per difficulty, with and without worked steps."""
        lines = [f"{self.task}: {self.model}, {self.shots} shots, {self.split} split, seed {self.seed}"]
        for row in self.rows:
            steps = "with" if row.cot else "without"
            rate = f"{row.answer.value:.3f} right ({row.answer.low:.3f}..{row.answer.high:.3f}) of {row.answer.of}"
            lines.append(f"  {self.difficulty} {row.difficulty} {steps} worked steps: {rate}, {row.invalid} invalid")
        return "\n".join(lines)

    def row(self, difficulty: int | None = None, cot: bool = True) -> DifficultyScore:
        """The row of a difficulty (the only one, if there is one)."""
        found = [row for row in self.rows if row.cot == cot and difficulty in (None, row.difficulty)]
        if len(found) != 1:
            raise ValueError(f"difficulty={difficulty} cot={cot} names {len(found)} of the {len(self.rows)} rows")
        return found[0]


@dataclass(frozen=True)
class Exam:
    """What is asked: everything is checked when it is made, before a model is loaded."""

    task: TaskSource
    requests: tuple[tuple[int, DataRequest], ...]
    shots: int
    form: str

    @staticmethod
    def of(
        task: str | TaskSource,
        options: dict[str, Any],
        *,
        n: int = 200,
        lengths: Sequence[int] | None = None,
        shots: int = 0,
        cot: bool | None = None,
        seed: int = 0,
        split: str = "test",
        form: str = "text",
    ) -> "Exam":
        """Every length, with worked steps and without (`cot=None`: both)."""
        base = DataRequest.of(task, options, n, seed=seed, split=split)
        if form not in FORMS:
            raise ConfigError(f"form={form} must be one of {', '.join(FORMS)}")
        if not 0 <= shots <= 1000:
            raise ConfigError(f"shots={shots} must lie in 0..1000")
        if shots and form == "tokens":
            raise ConfigError(f"shots={shots} must be 0 where form=tokens")
        if shots and split == "train":
            raise ConfigError(f"split=train must be val or test where shots={shots}: solved examples come from train")
        field = base.task.difficulty
        plain = getattr(base.config, field)
        chosen = plain if lengths is None else tuple(lengths)
        chosen = chosen if isinstance(chosen, tuple) else (chosen,)
        if not chosen:
            raise ConfigError(f"lengths=[] must have at least one value of {field}")
        for place, length in enumerate(chosen):
            if length in chosen[:place]:
                raise ConfigError(f"lengths={length} must not be repeated")
        requests = []
        for length in chosen:
            value = (length,) if isinstance(plain, tuple) else length
            for told in (True, False) if cot is None else (cot,):
                more = {"seed": seed, "split": split, "cot": told}
                request = DataRequest.of(task, {**options, field: value}, n, **more)
                held = request.space.capacity("train")
                if shots > held:
                    raise ConfigError(f"shots={shots} must be at most {held}, the examples of split=train")
                requests.append((length, request))
        return Exam(base.task, tuple(requests), shots, form)

    def take(self, model: Any, name: str, progress: Silent | None = None) -> Evaluation:
        """Put every question to the model."""
        progress = progress or Silent()
        progress.begin(f"eval {self.task.id}", len(self.requests), 0)
        rows = []
        try:
            for length, request in self.requests:
                label = f"{self.task.difficulty} {length}{'' if request.cot else ' without steps'}"

                def tell(done: int, label: str = label, total: int = request.n) -> None:
                    progress.ticks(label, done, total, {})

                rows.append(_row(length, request, self._answers(model, request, tell)))
                progress.finished(label, "answered")
        finally:
            progress.end()
        first = self.requests[0][1]
        options = as_dict(first.config)
        return Evaluation(
            self.task.name, options, self.task.difficulty, name, self.form, self.shots, first.seed, first.split,
            tuple(rows),
        )  # fmt: skip

    def _answers(self, model: Any, request: DataRequest, tell: Callable[[int], None]):
        if self.form == "tokens":
            return _by_tokens(model, request, tell)
        return _by_text(as_completer(model), request, few_shots(request, self.shots), tell)


def evaluate(
    model: Any,
    task: str | TaskSource,
    *,
    n: int = 200,
    lengths: Sequence[int] | None = None,
    shots: int = 0,
    cot: bool | None = None,
    seed: int = 0,
    split: str = "test",
    form: str = "text",
    **options: Any,
) -> Evaluation:
    """The accuracy of a model on a task: `n` held-out questions per length, with worked steps, without, or both."""
    exam = Exam.of(
        task, options, n=n, lengths=lengths, shots=shots, cot=cot, seed=seed, split=split, form=form
    )  # fmt: skip
    name = model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
    return exam.take(as_completer(model) if form == "text" else model, name)


# --- words ------------------------------------------------------------------------------------------------------------


class _Function:
    """A function of one prompt as a completer."""

    batch = AT_ONCE

    def __init__(self, answer: Callable[[str], Any]):
        self.answer = answer

    def complete(self, prompts: Sequence[str], like: str) -> list[str]:
        said = [self.answer(prompt) for prompt in prompts]
        for each in said:
            if not isinstance(each, str):
                raise ConfigError(f"the model must answer in words (str), not {short(each)} of {type(each).__name__}")
        return said


def as_completer(model: Any) -> Completer:
    """A path or name is loaded; a function is asked prompt by prompt."""
    if isinstance(model, str):
        from stairwise.measure.completion import load_language_model

        return load_language_model(model)
    if isinstance(model, Completer):
        return model
    if callable(model):
        return _Function(model)
    raise ConfigError(f"model={model!r} must be a path, a function, or an object with batch and complete")


def worked(record: dict[str, Any]) -> str:
    """What a right answer says.

    >>> worked({"steps": "s1 = 0; s2 = 1", "answer": "1"})
    's1 = 0; s2 = 1. Answer: 1'
    """
    return f"{record['steps']}. Answer: {record['answer']}" if "steps" in record else f"Answer: {record['answer']}"


def few_shots(request: DataRequest, shots: int) -> str:
    """What stands before every question: the notation, how to answer, and examples of the training split."""
    how = 'Write the steps as "name = value", then' if request.cot else "Write only"
    intro = f'{request.source.notation} {how} "Answer: " and the value.\n\n'
    if not shots:
        return intro
    train = DataRequest(request.task, request.config, shots, request.seed, "train", request.cot)
    examples = [record for block in train.blocks() for record in block.records()]
    return intro + "".join(f"Q: {example['prompt']}\nA: {worked(example)}\n\n" for example in examples)


def _by_text(model: Completer, request: DataRequest, before: str, tell: Callable[[int], None]):
    """Each record with what was read of its answer, as (steps right, answer right, invalid)."""
    possible = {value_of(answer) for answer in request.source.answers} or None
    for block in request.blocks():
        records = list(block.records())
        for start in range(0, len(records), model.batch):
            asked = records[start : start + model.batch]
            like = max((worked(record) for record in asked), key=len)
            said = model.complete([f"{before}Q: {record['prompt']}\nA:" for record in asked], like)
            for record, text in zip(asked, said, strict=True):
                yield _judged(record, read(text, possible, vector=possible is None))
            tell(block.start + start + len(asked))


@dataclass(frozen=True)
class Score:
    """How one response answers one entry: whether the answer is right, and each step; `invalid` if there is no answer.

    It is true, and 1.0 as a number, where the answer is right.
    """

    right: bool
    steps: tuple[bool, ...]
    invalid: bool

    def __bool__(self) -> bool:
        return self.right

    def __float__(self) -> float:
        return float(self.right)


def score(entry: Mapping[str, Any], response: str, *, answers: Iterable[str] = ()) -> Score:
    """Score what a model has said, in its own words, against an entry: a record of `data`, or a row of its file.

    The answer is the first value after the last "Answer", or else the last value; `answers` are the ones that there
    are, where other numbers in the text are to be passed over.

    >>> entry = {"prompt": "x3 = a2(x1); x7 = a0(x3); x1 = 4; x7 = ?", "steps": "x3 = 0; x7 = 5", "answer": "5"}
    >>> score(entry, "First x3 = 0, so x7 = 5. Answer: 5")
    Score(right=True, steps=(True, True), invalid=False)
    >>> bool(score(entry, "I think that it is 4.")), score(entry, "No idea.").invalid
    (False, True)
    """
    if "answer" not in entry or not isinstance(entry["answer"], str) or not value_of(entry["answer"]):
        raise ConfigError("entry must have an answer in words, such as those of sw.data")
    possible = {value_of(answer) for answer in answers} or None
    found = read(response, possible, vector=entry["answer"].startswith("("))
    steps, right, invalid = _judged(entry, found)
    return Score(right, tuple(steps), invalid)


def _judged(record: Mapping[str, Any], found: Reading) -> tuple[list[bool], bool, bool]:
    vector = record["answer"].startswith("(")
    expected: list[Value] = read(record.get("steps", ""), None, vector).steps
    steps = [place < len(found.steps) and found.steps[place] == value for place, value in enumerate(expected)]
    return steps, found.answer == value_of(record["answer"]), found.answer is None


# --- tokens -----------------------------------------------------------------------------------------------------------


def _by_tokens(model: Callable[[np.ndarray], Any], request: DataRequest, tell: Callable[[int], None]):
    """Greedy roll-out from the question's tokens; an answer that is no token of an answer is invalid."""
    source = request.source
    if not source.vocabulary:
        raise ConfigError(f"form=tokens must be text: the tokens of {request.task.name} are vectors")
    places = list(source.step_places)
    possible = [token for token, word in enumerate(source.vocabulary) if word in source.answers]
    for block in request.blocks():
        true = np.asarray(block.columns["tokens"], dtype=np.int32)
        said = true[:, : source.prompt_tokens]
        while said.shape[1] < true.shape[1]:
            logits = np.asarray(model(said))
            said = np.concatenate([said, logits[:, -1].argmax(axis=-1)[:, None].astype(np.int32)], axis=1)
        right = (said == true)[:, source.prompt_tokens :][:, places]
        last = said[:, source.prompt_tokens :][:, places[-1]]
        for hits, token in zip(right.tolist(), last.tolist(), strict=True):
            yield hits if request.cot else [], hits[-1], token not in possible
        tell(block.start + block.rows)


def _row(difficulty: int, request: DataRequest, answers: Iterable[tuple[list[bool], bool, bool]]) -> DifficultyScore:
    steps, hits, invalid = zip(*answers, strict=True)
    rates = tuple(Rate.of_hits(column) for column in zip(*steps, strict=True))
    return DifficultyScore(difficulty, request.cot, Rate.of_hits(hits), rates, sum(invalid))
