"""The tasks as PyTorch data sets: records made on the fly, every one exactly once for any number of workers.

from stairwise.interop.torch import IterableDataset

loader = DataLoader(IterableDataset("lego", n=100_000, action="S5", numbers=True), batch_size=256, num_workers=4)
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import data

from stairwise.lab.data.request import DataRequest, ExampleBlock


class IterableDataset(data.IterableDataset):
    """The examples of a task, a function of its options, seed and split; what `stairwise data` writes.

    As plain records (texts and lists), or with `numbers=True` as dictionaries of tensors alone, ready to be batched.
    Workers take blocks in turn: no example is lost or seen twice, and which there are does not depend on the workers.
    """

    def __init__(
        self,
        task: str,
        n: int,
        *,
        seed: int = 0,
        split: str = "train",
        cot: bool = True,
        numbers: bool = False,
        **options: Any,
    ):
        self.request = DataRequest.of(task, options, n, seed=seed, split=split, cot=cot)
        self.numbers = numbers
        _ = self.request.source  # drawn here, once: a forked worker must not start JAX

    def __getstate__(self) -> dict[str, Any]:
        """What a worker of its own process is sent: the request, whose functions it finds again by name."""
        return {"header": self.request.header("jsonl"), "numbers": self.numbers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.request, self.numbers = DataRequest.from_header(state["header"]), state["numbers"]

    def __len__(self) -> int:
        return self.request.n

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = data.get_worker_info()
        shard, shards = (worker.id, worker.num_workers) if worker else (0, 1)
        for block in self.request.blocks(shard, shards):
            yield from _tensors(block) if self.numbers else block.records()


def _tensors(block: ExampleBlock) -> Iterator[dict[str, torch.Tensor]]:
    columns = {"index": torch.from_numpy(block.index)}
    columns |= {name: torch.from_numpy(values.copy()).long() for name, values in block.columns.items()}
    for row in range(block.rows):
        yield {name: values[row] for name, values in columns.items()}
