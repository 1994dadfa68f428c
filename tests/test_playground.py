"""The playground's folder: small, whole, without a network, and written or served by one command."""

import re
import threading
import urllib.request

import pytest

from stairwise import playground
from stairwise.cli import main
from stairwise.lab.serve import address, server
from tests.guides.page import blocks, commands, parsed, text

FILES = sorted(playground.STATIC.iterdir())


def test_the_folder_is_small():
    assert sum(file.stat().st_size for file in FILES) < 150_000


def test_no_file_asks_the_network_or_needs_a_server():
    for file in FILES:
        text = file.read_text()
        assert re.findall(r"https?://(?!www\.w3\.org)", text) == []
        assert (
            re.findall(r"\bfetch\(|XMLHttpRequest|type=.?module|^import .*['\"]|@import|\beval\(", text, re.MULTILINE)
            == []
        )


def test_the_page_names_every_file_of_the_folder_and_no_other():
    page = (playground.STATIC / "index.html").read_text()
    named = re.findall(r'(?:src|href)="([\w.-]+)"', page)
    assert sorted(named) == sorted(file.name for file in FILES if file.name != "index.html")


def test_the_command_writes_the_folder(tmp_path, capsys):
    assert main(["playground", "--out", str(tmp_path / "new" / "place")]) == 0
    page = tmp_path / "new" / "place" / "index.html"
    assert capsys.readouterr().out.strip() == str(page)
    assert {file.name: file.read_bytes() for file in page.parent.iterdir()} == {f.name: f.read_bytes() for f in FILES}


def test_a_place_that_cannot_be_written_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["playground", "--out", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err.strip()
    assert "out=" in said
    assert "\n" not in said


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_a_port_outside_its_range_is_refused_in_one_line(port, capsys):
    assert main(["playground", "--port", port, "--no-open"]) == 2
    assert f"port={port} must lie in 0..65535" in capsys.readouterr().err


def test_the_guide_prints_commands_that_are_some():
    found = [command for _, block in blocks(text("how-to/playground")) for command in commands(block)]
    assert [parsed(command[: command.index("#")])[0].out for command in found] == [None, "machines"]


def test_the_folder_is_served_whole():
    with server(playground.STATIC, 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        for file in FILES:
            assert urllib.request.urlopen(address(serving) + file.name, timeout=5).read() == file.read_bytes()
        serving.shutdown()


@pytest.mark.parametrize("command", ["playground", "stories"])
def test_a_folder_of_somebody_else_is_not_written_over(tmp_path, capsys, command):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("mine")
    assert main([command, "--out", str(folder)]) == 2
    assert "its index.html is something else" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("index.html", "mine")]
    (folder / "index.html").unlink()
    for _ in range(2):  # and once more over its own
        assert main([command, "--out", str(folder)]) == 0
    assert not list(folder.rglob(".stairwise-*"))
