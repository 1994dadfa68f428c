"""`stairwise entropy`: attention entropy of language models on word problems, measured, printed, written, drawn.

What is measured is `parity_cot`'s (Figures 6 and 7), which is imported, and JAX with it, when the work begins.
"""

import argparse
import hashlib
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.commands import flags
from stairwise.config import ConfigError
from stairwise.lab.api import save_figure
from stairwise.lab.contract.plots import house_style
from stairwise.lab.progress import Silent, for_terminal
from stairwise.lab.store.files import explained, output_file, render, replace_file
from stairwise.terminal import heading, new_table, open_console, print_json

FIGURES = (".pdf", ".svg", ".png")
TABLES = (".json", ".parquet")


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="PATH_OR_NAME",
        help="a Hugging Face model; may be given several times",
    )
    command.add_argument(
        "--data", required=True, metavar="FILE.jsonl", help="a file of lines with question and answer, such as GSM8K's"
    )
    command.add_argument("--limit", action=flags.Whole, help="read only so many problems (default: all)")
    command.add_argument("--batch", action=flags.Whole, default=1, help="texts read side by side (default: 1)")
    command.add_argument("--skip-sink", action="store_true", help="leave out attention to the first token")
    command.add_argument("--strip-calculator", action="store_true", help="leave out <<...>> spans")
    command.add_argument(
        "--answer-rule",
        default="last-line",
        choices=("last-line", "trailing-digits"),
        help="how the result is found; trailing-digits, the authors', is wrong for 2,125 and -10 (default: last-line)",
    )
    command.add_argument(
        "--no-baseline", dest="baseline", action="store_false", help="do not compare with a model of random weights"
    )
    command.add_argument("--seed", action=flags.Whole, default=0, help="seed of the random weights (default: 0)")
    flags.add_model_place(command)
    command.add_argument(
        "-o", "--out", metavar="FILE", help="write the numbers: .json (one number per head) or .parquet (all)"
    )
    command.add_argument("--figure", metavar="FILE", help="draw the heads of every layer: .pdf, .svg or .png")
    command.add_argument(
        "--layers", action=flags.Wholes, metavar="1,11,21,28", help="only these layers in the figure (default: all)"
    )


def act(options, fields) -> int:
    problems, layers = check(options)
    found = measured(options, problems, layers, for_terminal())
    rows = summary(found, options.model)
    about = facts(options, found)
    if options.out:
        write(Path(options.out), found, rows, about)
    if options.json:
        print_json(about | {"comparisons": rows})
    else:
        print_summary(rows, len(problems))
    if options.figure:
        draw(Path(options.figure), found, options.model, layers)
    return 0


def check(options: Any) -> tuple[list[Any], list[int] | None]:
    """The texts to read and the layers to draw; what is wrong with the request is said before PyTorch is imported."""
    for name, low in (("limit", 1), ("batch", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and not low <= value < 2**32:
            raise ConfigError(f"{name}={value} must lie in {low}..{2**32 - 1}")
    _check_different("model", options.model)
    _check_different("layers", options.layers or [])
    if options.layers and min(options.layers) < 1:
        raise ConfigError(f"layers={min(options.layers)} must be at least 1")
    if options.layers is not None and options.figure is None:
        raise ConfigError(f"layers={','.join(map(str, options.layers))} must be left out where there is no --figure")
    for name, endings in (("figure", FIGURES), ("out", TABLES)):
        if getattr(options, name) is not None:
            output_file(name, getattr(options, name), endings)
    from stairwise.papers.parity_cot import gsm8k

    try:
        problems = gsm8k.read_problems(options.data, options.limit)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    texts = [gsm8k.texts(one, strip_calculator=options.strip_calculator, rule=options.answer_rule) for one in problems]
    return texts, options.layers


def _check_different(name: str, values: Sequence[Any]) -> None:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise ConfigError(f"{name}={value} must not be repeated")


def _check_depth(layers: Sequence[int] | None, depth: int | None) -> None:
    if layers and depth is not None and max(layers) > depth:
        raise ConfigError(f"layers={','.join(map(str, layers))} must lie in 1..{depth}, the layers of the model")


def measured(options: Any, problems: Sequence[Any], layers: Sequence[int] | None, progress: Silent) -> list[Any]:
    """The entropies of the first model, of the same with random weights, and of the other models."""
    from stairwise.papers.parity_cot import entropies

    progress.begin("entropy", len(options.model) + options.baseline, 0)
    found = []

    def read(model: Any) -> None:
        tell = partial(_tell, progress, model.name, len(problems))
        found.append(
            entropies.measure(model, problems, skip_sink=options.skip_sink, batch=options.batch, progress=tell)
        )
        progress.finished(model.name, "measured")

    try:
        for number, name in enumerate(options.model):
            progress.status(f"loading {name}")
            model = entropies.load(name, device=options.device, dtype=options.dtype)
            _check_depth(layers, getattr(model.network.config, "num_hidden_layers", None))
            read(model)
            if options.baseline and number == 0:
                read(entropies.randomise(model, options.seed))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    finally:
        progress.end()
    return found


def _tell(progress: Silent, name: str, total: int, done: int) -> None:
    progress.ticks(name, done, total, {})


def facts(options: Any, found: Sequence[Any]) -> dict[str, Any]:
    """What was measured, on what, with what."""
    import torch
    import transformers

    problems, layers, heads, _ = next(iter(found[0].values.values())).shape
    return {
        "models": [one.name for one in found],
        "problems": problems,
        "layers": layers,
        "heads": heads,
        "data_sha256": hashlib.sha256(Path(options.data).read_bytes()).hexdigest(),
        "skip_sink": options.skip_sink,
        "strip_calculator": options.strip_calculator,
        "answer_rule": options.answer_rule,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


# --- what is said -----------------------------------------------------------------------------------------------------


def summary(found: Sequence[Any], models: Sequence[str]) -> list[dict[str, Any]]:
    """With CoT against without in each of those found, then the models against the first on texts with CoT."""
    from stairwise.papers.parity_cot import entropies

    with_cot, without = entropies.CONDITIONS
    pairs = [
        (one.name, with_cot, without, entropies.compare(one.values[with_cot], one.values[without])) for one in found
    ]
    first = found[0]
    pairs += [
        (with_cot, other.name, first.name, entropies.compare(other.values[with_cot], first.values[with_cot]))
        for other in found[1:]
        if other.name in models[1:] and other.values[with_cot].shape == first.values[with_cot].shape
    ]
    return [
        {
            "on": where,
            "first": a,
            "second": b,
            "reduction": row.variant.reduction,
            "rows": row.variant.rows,
            "matched": row.variant.matched,
            "mean of first": row.first,
            "mean of second": row.second,
            "difference": row.difference.value,
            "low": row.difference.low,
            "high": row.difference.high,
            "share lower": row.lower,
            "share not higher": row.not_higher,
        }
        for where, a, b, rows in pairs
        for row in rows
    ]


def print_summary(rows: Sequence[dict[str, Any]], problems: int) -> None:
    """One table per comparison; the paper's own number, eq. (1), first."""
    console = open_console()
    console.print(
        f"normalised attention entropy, mean over heads and {problems} problems; 95 % intervals over problems"
    )
    for where, a, b in dict.fromkeys((row["on"], row["first"], row["second"]) for row in rows):
        console.print()
        heading(console, where, f"{a} - {b}")
        table = new_table("tokens", a, b, "difference", "interval", "lower", right=("difference", "lower"))
        for row in rows:
            if (row["on"], row["first"], row["second"]) == (where, a, b):
                table.add_row(*_cells(row))
        console.print(table)
    console.print()
    console.print("min, all is the paper's eq. (1); matched counts as many tokens of both answers as the shorter has;")
    console.print(
        "lower is the share of problems x heads. A longer text alone lowers a minimum: see the random weights."
    )


def _cells(row: dict[str, Any]) -> list[str]:
    name = f"{row['reduction']}, {row['rows']}{', matched' if row['matched'] else ''}"
    interval = f"[{row['low']:+.4f}, {row['high']:+.4f}]"
    values = [f"{row[key]:.4f}" for key in ("mean of first", "mean of second")]
    return [name, *values, f"{row['difference']:+.4f}", interval, f"{row['share lower']:.1%}"]


# --- what is written --------------------------------------------------------------------------------------------------


def write(path: Path, found: Sequence[Any], rows: Sequence[dict[str, Any]], facts: dict[str, Any]) -> None:
    """JSON: facts, comparisons, one number per head. Parquet: one row per model, condition, problem and head."""
    data = (
        _parquet(found) if path.suffix == ".parquet" else render(facts | {"comparisons": rows, "heads": _heads(found)})
    )
    with explained(f"write {path}"):
        replace_file(path, data)


def _heads(found: Sequence[Any]) -> list[dict[str, Any]]:
    from stairwise.papers.parity_cot import entropies

    return [
        {"model": one.name, "condition": condition, **variant._asdict(), "layers": entropies.per_head(values, variant)}
        for one in found
        for condition, values in one.values.items()
        for variant in entropies.VARIANTS
    ]


def _parquet(found: Sequence[Any]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    from stairwise.papers.parity_cot import entropies

    tables = []
    for one in found:
        for condition, values in one.values.items():
            problem, layer, head = np.indices(values.shape[:3], dtype=np.int32)
            columns: dict[str, Any] = {"model": [one.name] * head.size, "condition": [condition] * head.size}
            columns |= {"problem": problem.ravel(), "layer": layer.ravel() + 1, "head": head.ravel() + 1}
            columns |= {str(variant): values[..., k].ravel() for k, variant in enumerate(entropies.VARIANTS)}
            tables.append(pyarrow.table(columns))
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables), buffer, compression="zstd")
    return buffer.getvalue()


def draw(path: Path, found: Sequence[Any], models: Sequence[str], layers: Sequence[int] | None) -> None:
    """Figures 6 and 7: eq. (1) of every head of the models, sorted within a layer, with and without CoT."""
    from stairwise.papers.parity_cot import entropies
    from stairwise.papers.parity_cot.figures.heads import heads_by_layer

    named = {
        f"{Path(one.name).name}, {condition}": entropies.per_head(values)
        for one in found
        if one.name in models
        for condition, values in one.values.items()
    }
    _check_depth(layers, min(len(values) for values in named.values()))
    with house_style():
        save_figure(heads_by_layer(named, layers), path)
