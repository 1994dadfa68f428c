"""The tasks in PyTorch: with any number of workers every example comes exactly once."""

import subprocess
import sys

import pytest

import stairwise as sw
from stairwise.lab.data.check import problem_with
from stairwise.lab.data.request import DataRequest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'stairwise[hf]'")
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")  # by JAX; a worker uses NumPy alone


@pytest.mark.parametrize("workers", [0, 2])
def test_every_example_comes_exactly_once_for_any_number_of_workers(workers):
    from torch.utils.data import DataLoader

    from stairwise.interop.torch import IterableDataset

    dataset = IterableDataset("parity_chain", n=101, seed=4, numbers=True)
    loader = DataLoader(dataset, batch_size=10, num_workers=workers)
    batches = list(loader)
    index = torch.cat([batch["index"] for batch in batches])
    assert len(dataset) == 101
    assert sorted(index.tolist()) == list(range(101))
    tokens = torch.cat([batch["tokens"] for batch in batches])[index.argsort()]
    assert tokens.tolist() == [record["tokens"] for record in sw.data("parity_chain", 101, seed=4)]


def test_records_of_workers_are_true():
    from torch.utils.data import DataLoader

    from stairwise.interop.torch import IterableDataset

    dataset = IterableDataset("composition", n=40, hops=(1, 3))
    header = DataRequest.of("composition", {"hops": (1, 3)}, 40).header("jsonl")
    found = list(DataLoader(dataset, batch_size=None, num_workers=2))
    assert [problem_with(header, record) for record in found] == [None] * 40


def test_a_dataset_is_sent_to_other_processes_by_name_alone():
    import copy

    from stairwise.interop.torch import IterableDataset

    dataset = IterableDataset("lego", n=5, action="S3", cot=False)
    assert list(copy.deepcopy(dataset)) == list(dataset)


def test_without_torch_one_line_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import stairwise.interop.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: stairwise.interop.torch needs the extra hf: pip install 'stairwise[hf]'"
