"""A record against its oracle: what the prompt says, solved by other code, is what the record says."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from stairwise.config import from_dict
from stairwise.lab import registry
from stairwise.measure.reading import Value, read, value_of


def problem_with(header: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    """What is wrong with a record (texts and numbers, as `data` or a file gives it), or none.

    >>> from stairwise.lab.data.request import DataRequest
    >>> request = DataRequest.of("lego", {}, 1)
    >>> (record,) = next(request.blocks()).records()
    >>> problem_with(request.header("jsonl"), record)
    >>> problem_with(request.header("jsonl"), record | {"answer_value": 7})
    'answer_value: 7, and the oracle says 5'
    """
    task = registry.task(header["task"])
    solved = task.solve(from_dict(task.Config, header["options"]), header["drawn"], record["prompt"])
    steps, answer = [value_of(step) for step in solved.steps], value_of(solved.answer)
    if "wrong" in record:  # label noise flips a step and all that builds on it
        flips = [sum(record["wrong"][: step + 1]) % 2 for step in range(len(steps))]
        steps = [((value[0] + flip) % 2,) for value, flip in zip(steps, flips, strict=True)]
        answer = steps[-1]
    expected: dict[str, Any] = {"answer": answer, "answer_value": answer}
    found: dict[str, Any] = {"answer": value_of(record["answer"])}
    found["answer_value"] = _in_units(record["answer_value"], header["unit"])
    if header["cot"]:
        expected |= {"steps": steps, "step_values": steps}
        vector = solved.answer.startswith("(")
        found["steps"] = read(record["steps"], None, vector).steps
        found["step_values"] = [_in_units(value, header["unit"]) for value in record["step_values"]]
    for name, value in expected.items():
        if found[name] != value:
            return f"{name}: {record[name]}, and the oracle says {_shown(value)}"
    return None


def _in_units(value: Any, unit: int) -> Value:
    values = list(value) if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) else [value]
    return tuple(Fraction(int(one), unit) for one in values)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return ",".join(map(str, value))
