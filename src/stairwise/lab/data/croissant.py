"""A Croissant card of files of examples: JSON-LD that says what they hold (mlcommons.org/croissant/1.0)."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.data.formats import read_header
from stairwise.lab.data.request import DataRequest
from stairwise.lab.store.files import explained

NAME = "croissant.json"
MEDIA = {"jsonl": "application/jsonlines", "parquet": "application/x-parquet"}
LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"
MEANING = {
    "index": "the number of the example in its split, for this seed",
    "prompt": "the question in words",
    "steps": "the worked steps in words",
    "answer": "the answer in words",
    "step_values": "the results of the steps as whole numbers",
    "answer_value": "the answer as a whole number, or a list of them",
    "tokens": "the sequence that a next-token model reads",
}
TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
    "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in TERMS},
}


def card(paths: Sequence[Path], url: str | None = None) -> dict[str, Any]:
    """The card of files of one task, written by `stairwise data`: one set of records per file.

    `url` is where the data set can be read about; without one it is the paper's page, where that has one.
    """
    if not paths:
        raise ConfigError("card needs a file of examples")
    headers = [read_header(path) for path in paths]
    names = [path.name for path in paths]
    for path, header in zip(paths, headers, strict=True):
        if header["format"] not in MEDIA:
            raise ConfigError(f"card={path} must be jsonl or parquet, not {header['format']}")
        if header["task"] != headers[0]["task"]:
            raise ConfigError(f"card={path} must be of {headers[0]['task']}, not of {header['task']}")
        if names.count(path.name) > 1 or path.parent != paths[0].parent:
            raise ConfigError(f"card={path} must lie in the folder of {paths[0]}, under a name of its own")
    requests = [DataRequest.from_header(header) for header in headers]
    task = requests[0].task
    paper = registry.paper(task.paper)
    place = url or (f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else None)
    first = headers[0]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"stairwise-{task.id}",
        "description": f"{task.says}. {first['notation']}",
        "version": f"{first['task_version']}.0.0",
        "license": LICENCE,
        "creator": {"@type": "sc:Organization", "name": "The Stairwise developers"},
        "datePublished": time.strftime("%Y-%m-%d", time.gmtime(max(path.stat().st_mtime for path in paths))),
        "citeAs": f"{paper.authors}: {paper.title}. {paper.year}",
        **({"url": place} if place else {}),
        "distribution": [_file(path, header) for path, header in zip(paths, headers, strict=True)],
        "recordSet": [_records(path, request) for path, request in zip(paths, requests, strict=True)],
    }


def _file(path: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    with explained(f"read {path}"), open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "description": f"{header['n']} examples of the {header['split']} split, seed {header['seed']}",
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": MEDIA[header["format"]],
        "sha256": digest,
    }


def _records(path: Path, request: DataRequest) -> dict[str, Any]:
    id = path.stem
    (example,) = request.block(0, 1).records()
    return {
        "@type": "cr:RecordSet",
        "@id": id,
        "name": id,
        "description": f"one record per example of the {request.split} split",
        "key": {"@id": f"{id}/index"},
        "field": [_field(id, path.name, name, value) for name, value in example.items()],
    }


def _field(records: str, file: str, name: str, value: Any) -> dict[str, Any]:
    inner, depth = value, 0
    while isinstance(inner, list):
        inner, depth = (inner[0] if inner else 0), depth + 1
    nested = "a list of lists" if depth > 1 else ""
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{name}",
        "name": name,
        "description": MEANING.get(name, nested or f"{name.replace('_', ' ')} of the example"),
        "dataType": "sc:Text" if isinstance(inner, str) else "sc:Integer",
        **({"repeated": True} if depth else {}),
        "source": {"fileObject": {"@id": file}, "extract": {"column": name}},
    }
