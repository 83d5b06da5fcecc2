"""TOML that somebody wrote: whatever is wrong with it is a sentence, and no file of it can keep the reader for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from core.toml_io import LARGEST_FILE, file_text, read_toml
from core.variant import Variant
from evals.suites.suite import Suite


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a = 1\nb = \n", 2, "not TOML"),
        ('a = """\n', 1, "not TOML"),
        ("a = " + "[" * 5_000, 1, "nested too deeply"),
        ("a = " + "{b = " * 5_000, 1, "nested too deeply"),
        ("a = " + "9" * 5_000, 1, "a number in it has no end"),
        ("a = [{ b = 0x" + "f" * 5_000 + " }]", 1, "a number in it has no end"),
        ("a = 2024-02-31", 1, "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_toml(text)
    assert caught.value.line == line


def test_what_is_right_is_read() -> None:
    assert read_toml("a = 9_000_000_000_000_000_000\r\n[b]\nc = [1.5, true]\n") == {
        "a": 9 * 10**18,
        "b": {"c": [1.5, True]},
    }


@pytest.mark.parametrize("read", [Variant.from_file, Suite.from_file])
def test_a_device_that_never_ends_is_not_read(read) -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("there is no such device here")
    with pytest.raises(InputError, match="not a plain file"):
        read(endless)


def test_a_file_that_nobody_wrote_by_hand_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(InputError, match="more than 4,194,304 bytes"):
        file_text(large, "The variant")


@pytest.mark.parametrize("name", ["none.toml", "nul\x00.toml", "x" * 5_000, "."])
def test_a_name_that_is_no_files_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"The variant cannot be read \("):
        file_text(tmp_path / name, "The variant")
