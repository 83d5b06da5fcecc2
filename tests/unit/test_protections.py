"""The drill of taken-out protections: each patch still fits its file, and each test that it names is there."""

from __future__ import annotations

import pytest

from tests.drills.mutants.protections import PROTECTIONS, Protection
from tests.unit.test_security_promises import ROOT, TEXT, named_in


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda each: each.name)
def test_a_patch_fits_its_file_and_its_tests_exist(protection: Protection) -> None:
    assert (ROOT / protection.file).read_text(encoding="utf-8").count(protection.text) == 1
    for test in (protection.test, protection.stays):
        file, _, name = test.partition("::")
        assert name in named_in(ROOT / file), test


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda each: each.name)
def test_what_notices_is_a_test_that_security_md_names(protection: Protection) -> None:
    assert f"`{protection.test}`" in TEXT
