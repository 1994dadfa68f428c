"""Time to solution against what a user would run: GPT-2 by `transformers`, seeds one after another.

The same LEGO and parity trainings: data, batch size, optimiser, rate and evaluations are ours, the blocks are those of
`GPT2Model` (AdamW fused, bfloat16 autocast on a GPU, as written or by `torch.compile`). A seed is solved when its
held-out sentences are right; a side's time is that of all seeds, compiling included (on a CPU: seconds of its core).
PyTorch gets its LEGO sentences made beforehand. A side that is over its time stops; its other seeds are taken to need
what the solved ones did.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import torch
from torch import nn
from torch.nn import functional

from benchmarks.mirror import tensor
from benchmarks.parity_cot import TorchSequences
from benchmarks.row import Job, Row, Settings, first_line
from stairwise.papers.lego import train as lego
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task as Chains
from stairwise.papers.lego.task import SLOTS
from stairwise.papers.parity_cot import train as parity
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.task import problem_of
from stairwise.train.gradient import Reached, gradient_training
from stairwise.train.keys import role_key
from stairwise.train.loop import Hooks, Member, Program
from stairwise.train.stage import Stage

SEEDS = 8
LINE = 0.95  # of the held-out LEGO sentences; parities are solved when all are right


@dataclass(frozen=True)
class Side:
    """Seconds of every seed that was solved in time, the first with its compiling, and the steps that it took."""

    seconds: tuple[float, ...]
    steps: tuple[float, ...]
    seeds: int
    together: bool = False

    @property
    def total(self) -> float:
        """Of all seeds; those that were not begun in time are taken to need what the others did."""
        if self.together or len(self.seconds) >= self.seeds:
            return sum(self.seconds)
        later = self.seconds[1:] or self.seconds
        return sum(self.seconds) + (self.seeds - len(self.seconds)) * statistics.mean(later)

    def facts(self, name: str) -> dict[str, Any]:
        solved = len(self.steps)
        foreseen = "" if self.together or len(self.seconds) >= self.seeds else ", predicted from these"
        steps = statistics.median(self.steps) if self.steps else float("nan")
        each = " ".join(f"{second:.1f}" for second in self.seconds)
        said = f"{self.total:.1f} s ({solved} of {self.seeds} seeds solved{foreseen}; median {steps:.0f} steps; {each})"
        return {f"{name}, all seeds": said}


class User(NamedTuple):
    """A training as a user writes it: parameters, the loss of a step's batch, and whether held-out data are right."""

    parameters: list[nn.Parameter]
    loss: Callable[[int], torch.Tensor]
    solved: Callable[[], bool]


class Contest(NamedTuple):
    """A training on both sides: our stage, its config, and the user's training of one seed (compiled or not)."""

    work: str
    stage: Stage
    config: Training | Practical
    user: Callable[[int, bool], User]
    look: int  # steps between evaluations
    warm_up: int


# --- ours -------------------------------------------------------------------------------------------------------------


def clock(settings: Settings) -> float:
    """Seconds of this process's core, which other work on the machine does not touch; on a GPU those of the wall."""
    return time.perf_counter() if settings.device == "gpu" else time.process_time()


def ours(contest: Contest, settings: Settings, seeds: int, width: int) -> Side:
    """All seeds through one program: side by side on a GPU, one after another on a CPU."""
    program = Program([contest.stage], width)
    seconds: list[float] = []
    steps: list[float] = []
    for first in range(0, seeds, width):
        began = clock(settings)
        members = [Member(seed, contest.config) for seed in range(first, min(first + width, seeds))]
        for outcome in program.run(members, Hooks()):
            steps += [contest.look * outcome.step[-1]] if outcome.status == "reached" else []
        seconds.append(clock(settings) - began)
    return Side(tuple(seconds), tuple(steps), seeds, together=width > 1)


def lego_stage(config: Practical, look: int) -> Stage:
    """Training at the task's length until held-out sentences are right, clause by clause."""
    task = lego.make_task(config.task)

    def right(trial, model) -> dict[str, Any]:
        def one(sentence):
            logits = model(sentence[:-1], task.length)
            return jnp.all(jnp.argmax(logits, axis=-1) == sentence[task.length + 1 :])

        return {"exact": jnp.mean(jax.vmap(one)(held_out(config, trial.seed)), dtype=jnp.float32)}

    return gradient_training(
        model=lambda trial, key: lego.make_decoder(config, key),
        batch=lego.with_places(config, lego.draw_sentences),
        loss=lambda trial, model, batch, key: lego.batch_loss(config, model, batch),
        optimizer=lego.optimizer,
        steps=config.steps,
        steps_per_tick=look,
        look=right,
        look_at_start=False,
        until=Reached("exact", LINE),
        keep=None,
    )


def sentences(config: Practical, seed: Any, name: str, number: int) -> Any:
    task, key = lego.make_task(config.task), role_key(seed, name)
    return jax.vmap(lambda i: task.clauses(task.example(key, i)))(jnp.arange(number, dtype=jnp.int32))


def held_out(config: Practical, seed: Any) -> Any:
    return sentences(config, seed, "held out", config.test_examples)


# --- a user's ---------------------------------------------------------------------------------------------------------


def gpt2(width: int, layers: int, heads: int, length: int, std: float, device: str, compile: bool) -> nn.Module:
    """GPT-2's blocks at these sizes, without dropout, on embeddings."""
    from transformers import GPT2Config, GPT2Model

    none: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": length, "vocab_size": 2}
    none |= {"bos_token_id": None, "eos_token_id": None}
    model = GPT2Model(GPT2Config(**sizes, **none, initializer_range=std)).to(device)  # type: ignore[arg-type]
    return torch.compile(model) if compile else model  # type: ignore[return-value]


def parity_user(config: Training, device: str, seed: int, compile: bool) -> User:
    torch.manual_seed(seed)
    problem = problem_of(config.task, seed)
    layout, model = problem.layout, config.model
    table = nn.Embedding(2, model.width, device=device)
    nn.init.normal_(table.weight, std=float(model.std))
    body = gpt2(model.width, model.layers, model.heads, layout.length, float(model.std), device, compile)
    live = tensor(problem.live, device)
    fresh = TorchSequences(problem, config.batch, device)
    test = TorchSequences(problem, config.test_examples, device).draw()

    def logits(tokens: torch.Tensor) -> torch.Tensor:
        stream = body(inputs_embeds=table(tokens[:, : layout.length])).last_hidden_state
        return stream[:, layout.first : layout.first + layout.rows] @ table.weight.T

    def labels(tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, layout.first + 1 : layout.first + 1 + layout.rows]

    def loss(step: int) -> torch.Tensor:
        tokens = fresh.draw()
        return functional.cross_entropy(
            logits(tokens)[:, live].flatten(0, 1).float(), labels(tokens)[:, live].flatten()
        )

    def solved() -> bool:
        return bool((logits(test).argmax(-1) == labels(test))[:, live].all())

    return User([*table.parameters(), *body.parameters()], loss, solved)


class Clauses(nn.Module):
    """GPT-2 on clauses of five tokens: their vectors are added, and five heads tell the next clause."""

    def __init__(self, config: Practical, device: str, compile: bool):
        super().__init__()
        shape, task = config.model, lego.make_task(config.task)
        std = shape.width**-0.5
        self.length = task.length
        self.table = nn.Parameter(torch.randn(SLOTS, task.vocabulary, shape.width, device=device) * SLOTS**-0.5)
        self.heads = nn.Parameter(torch.randn(SLOTS, shape.width, task.vocabulary, device=device) * std)
        self.body = gpt2(shape.width, shape.layers, shape.heads, 2 * task.length + 1, std, device, compile)
        places = self.body.get_parameter("wpe.weight" if not compile else "_orig_mod.wpe.weight")
        places.data.zero_()  # ours has no positions
        places.requires_grad_(False)

    def forward(self, clauses: torch.Tensor) -> torch.Tensor:
        vectors = self.table[torch.arange(SLOTS, device=clauses.device), clauses] * (clauses != 0)[..., None]
        stream = self.body(inputs_embeds=vectors.sum(2)).last_hidden_state[:, self.length :]
        return torch.einsum("bkw,swv->bksv", stream, self.heads)


def lego_user(config: Practical, device: str, seed: int, compile: bool) -> User:
    torch.manual_seed(seed)
    model, length = Clauses(config, device, compile), config.task.length
    number = config.batch * config.steps
    pool = tensor(jax.jit(partial(sentences, config, seed, "sentences", number))(), device)
    test = tensor(held_out(config, seed), device)

    def loss(step: int) -> torch.Tensor:
        batch = pool[step * config.batch : (step + 1) * config.batch]
        logits, labels = model(batch[:, :-1]), batch[:, length + 1 :]
        summed = functional.cross_entropy(logits.float().flatten(0, 2), labels.flatten(), reduction="sum")
        return summed / config.batch

    def solved() -> bool:
        right = (model(test[:, :-1]).argmax(-1) == test[:, length + 1 :]).flatten(1).all(1)
        return right.float().mean().item() >= LINE

    return User([each for each in model.parameters() if each.requires_grad], loss, solved)


def theirs(contest: Contest, settings: Settings, seeds: int, limit: float, compile: bool) -> Side:
    """Seed by seed, until all are done or the time is over."""
    seconds, steps, began = [], [], clock(settings)
    for seed in range(seeds):
        user = contest.user(seed, compile)
        since = clock(settings)
        late = began + limit if seed else since + 4 * limit  # the first seed may have to be compiled
        taken = solve(contest, user, settings, late)
        if taken is None:
            break
        seconds.append(clock(settings) - since)
        steps.append(taken)
        print(f"  seed {seed}: {taken} steps, {seconds[-1]:.1f} s", file=sys.stderr, flush=True)
    return Side(tuple(seconds), tuple(steps), seeds)


def solve(contest: Contest, user: User, settings: Settings, deadline: float) -> int | None:
    """The steps until held-out data are right; None where budget or time are over."""
    config, device, gpu = contest.config, settings.torch_device, settings.device == "gpu"
    optimizer = torch.optim.AdamW(user.parameters, lr=float(config.learning_rate), weight_decay=0.0, fused=True)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / max(contest.warm_up, 1)))
    for step in range(config.steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=gpu):
            loss = user.loss(step)
        loss.backward()
        optimizer.step()
        warm_up.step()
        if (step + 1) % contest.look == 0:
            with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16, enabled=gpu):
                if user.solved():
                    return step + 1
            if clock(settings) > deadline:
                return None
    return None


# --- the rows ---------------------------------------------------------------------------------------------------------


def parity_contest(settings: Settings) -> Contest:
    gpu, tiny = settings.device == "gpu", settings.tiny
    bits, size = (6, 2) if tiny else (30, 8) if gpu else (16, 8)
    config = Training(
        task=PaddedTask(bits=bits, size=size, padding=size),
        model=Decoder(width=128 if gpu else 64, layers=2 if gpu else 1, compute="bfloat16" if gpu else "float32"),
        batch=32 if tiny else 128, look=64 if tiny else 1024, test_examples=32 if tiny else 1024,
        budget=6400 if tiny else 204_800, clip=0.0,
    )  # fmt: skip
    sizes = f"n={bits}, k={size}, {config.model.layers} layer(s), width {config.model.width}"
    user = partial(parity_user, config, settings.torch_device)
    work = f"parity with its chain, {sizes}, batch {config.batch}"
    return Contest(work, parity.stage(config, keep=False), config, user, config.look // config.batch, 0)


def lego_contest(settings: Settings) -> Contest:
    gpu, tiny = settings.device == "gpu", settings.tiny
    task = Chains("C3", 6, 2) if tiny else Chains("C6", 48, 5) if gpu else Chains("C4", 24, 5)
    config = Practical(
        task=task, model=Shape(width=256 if gpu else 64), batch=128 if gpu else 64,
        steps=500 if tiny else 3000, warm_up=100,
        final_rate=1.0, test_lengths=(task.length,), test_examples=256,
    )  # fmt: skip
    look, user = 50, partial(lego_user, config, settings.torch_device)
    sizes = f"{task.action}, {task.variables} variables, L={task.length}, one layer, width {config.model.width}"
    return Contest(f"LEGO, {sizes}, batch {config.batch}", lego_stage(config, look), config, user, look, config.warm_up)


def row(make: Callable[[Settings], Contest], settings: Settings) -> Row:
    """Seconds of all seeds on every side; each side is said as soon as it is there."""
    contest, gpu = make(settings), settings.device == "gpu"
    seeds, limit = (2, 5.0) if settings.tiny else (SEEDS, 20.0 if gpu else 60.0)
    made = Row("users", f"{contest.work}: {seeds} seeds until solved", unit="seed", mirror="GPT-2 of transformers")
    sides: dict[str, Callable[[], Side]] = {
        "ours": lambda: ours(contest, settings, seeds, seeds if gpu else 1),
        "eager": lambda: theirs(contest, settings, seeds, limit, compile=False),
    }
    if settings.compile:
        sides["compiled"] = lambda: theirs(contest, settings, seeds, limit, compile=True)
    for name, run in sides.items():
        try:
            side = run()
        except Exception as error:
            if name != "compiled":
                raise
            return replace(made, no_compile=f"torch.compile: {type(error).__name__}: {first_line(error)}")
        said = side.facts(name)
        print(f"users: {contest.work}: {said}", file=sys.stderr, flush=True)
        time_each = (1e3 * side.total / seeds,) if side.seconds else ()
        made = replace(made, facts={**made.facts, **said}, **{name: time_each})
    return made


def jobs(settings: Settings) -> list[Job]:
    return [
        Job("LEGO, seeds until solved", partial(row, lego_contest)),
        Job("parity with its chain, seeds until solved", partial(row, parity_contest)),
    ]
