"""Fixtures of the tests of reporting."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick(few_resamples):
    """What a test says of intervals holds for coarse ones too, or it asks for samples itself."""
