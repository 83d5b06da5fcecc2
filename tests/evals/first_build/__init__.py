"""What the first build stored, and how to look whether it is usable still: `make.py` makes it, `backup.tar` is one.

A collection `kettles` of four documents with a chunk set, vectors, fields, labels over two splits; grades by two
judges; two deep runs, as were usual then, the first of them pinned as `main`, and one as it ships; a vote; a kept
variant; a notebook; and `faq`, attached to a table of somebody's, with a label.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

COMMIT: Final = "d4ff8fdd7bc3423c466e2728600cd2fdd65650dc"
MAKE: Final = Path(__file__).with_name("make.py")
BACKUP: Final = Path(__file__).with_name("backup.tar")
