"""Every catalogued behaviour is proved by a test, knowingly different, or on a list that may only shrink."""

from tests.behaviours import citations

CATALOGUE = citations.catalogue()
CITED = citations.cited()
DIFFERENT = citations.differences()
UNCITED = citations.uncited()

FULL_LIST = 779
"""Ids of both catalogues together; the list of uncited ones started there."""


def test_the_catalogues_are_complete_and_name_each_id_once():
    assert len(CATALOGUE) == len(set(CATALOGUE)) == FULL_LIST


def test_tests_cite_only_behaviours_that_exist():
    known = {*CATALOGUE, *citations.further()}
    unknown = {name: sorted(places) for name, places in CITED.items() if name not in known}
    assert unknown == {}


def test_differences_name_only_behaviours_that_exist_and_give_a_reason():
    assert [name for name in DIFFERENT if name not in CATALOGUE] == []
    assert [name for name, reason in DIFFERENT.items() if len(reason) < 10] == []


def test_every_difference_is_shown_by_a_test_that_cites_it():
    assert [name for name in DIFFERENT if name not in CITED] == []


def test_every_behaviour_is_cited_different_or_listed():
    forgotten = [name for name in CATALOGUE if name not in CITED and name not in DIFFERENT and name not in UNCITED]
    assert forgotten == []


def test_the_list_of_uncited_behaviours_is_no_longer_than_the_truth():
    """Run ``python -m tests.behaviours.citations`` when this fails."""
    assert [name for name in UNCITED if name in CITED or name in DIFFERENT] == []
    assert [name for name in UNCITED if name not in CATALOGUE] == []
    assert len(UNCITED) == len(set(UNCITED))
