"""A gate's checks as JUnit XML, which CI servers show: a suite for each collection, a case for each check.

Owns the file's form: the attributes that Jenkins, GitLab and the GitHub reporters read, and nothing that XML forbids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from core import atomic_files
from evals.suites.gate import Check

# XML 1.0, section 2.2: all that a document may not hold, escaped or not.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(name: str, checks: Sequence[Check]) -> str:
    """The whole document."""
    collections = list(dict.fromkeys(check.collection for check in checks))
    root = ElementTree.Element("testsuites", _counts(name, checks))
    for collection in collections:
        own = [check for check in checks if check.collection == collection]
        suite = ElementTree.SubElement(root, "testsuite", _counts(f"{name}: {collection}", own))
        for check in own:
            _case(suite, check)
    return _written(root)


def broken(name: str, sentence: str) -> str:
    """A suite that could not be run: one case, with the sentence as its error."""
    return junit(name, [Check(name, name, "the suite runs", "-", "-", "error", sentence)])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.write_whole(path, text)


def _counts(name: str, checks: Sequence[Check]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "name": _clean(name),
        "tests": str(len(checks)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "skipped": "0",
        "time": "0",
    }


def _case(suite: ElementTree.Element, check: Check) -> None:
    of = {"classname": _clean(f"{check.collection}.{check.variant}"), "name": _clean(check.what), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", of)
    told = _clean(f"{check.variant}: {check.what}: found {check.found}, wanted {check.wanted}. {check.says}".strip())
    if check.outcome == "passed":
        ElementTree.SubElement(case, "system-out").text = told
    else:
        kind = "failure" if check.outcome == "failed" else "error"
        first = _clean(f"found {check.found}, wanted {check.wanted}")
        ElementTree.SubElement(case, kind, {"message": first, "type": "gate"}).text = told


def _written(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
