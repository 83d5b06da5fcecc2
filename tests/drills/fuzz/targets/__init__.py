"""Every target by its name. A new parser is a function in one of these files; nothing is found by scanning."""

from __future__ import annotations

from tests.drills.fuzz.target import Target
from tests.drills.fuzz.targets import answers, backups, sources, texts

_ALL = (*sources.TARGETS, *texts.TARGETS, *answers.TARGETS, *backups.TARGETS)
TARGETS: dict[str, Target] = {each.name: each for each in _ALL}
assert len(TARGETS) == len(_ALL), "two targets bear one name"
