"""Recorded steps and SIGKILL: what is recorded is not done again; policies for outcomes that nobody knows."""

import pytest

from tests.behaviour.shop import POINTS, ledger, life

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60)]
KILLED = -9
DONE = {"log": ["charge 7", "ship a book"]}
UNKNOWN = {"charging": "charge", "shipped": "ship"}
"""Killed here, a side effect happened and nothing says so."""


def done(folder):
    return [what for what, _ in ledger(folder)]


@pytest.mark.parametrize(
    ("point", "face"),
    [*((point, "sync") for point in POINTS), *((point, "async") for point in ("charging", "answered"))],
)
def test_killed_anywhere_it_charges_once_and_ships_once(tmp_path, point, face):
    assert life(tmp_path, point, face=face)[0] == KILLED
    assert life(tmp_path, face=face) == (0, DONE)
    if point in UNKNOWN:  # the step ran twice, and the service is told the same key
        assert done(tmp_path).count(UNKNOWN[point]) == 2
    assert len({tuple(line) for line in ledger(tmp_path)}) == 2
    expected = ["charge", "ship"] if point not in UNKNOWN else sorted(["charge", "ship", UNKNOWN[point]])
    assert sorted(done(tmp_path)) == expected


def test_killed_time_and_again_it_still_ends_with_one_key_each(tmp_path):
    for point in ("charging", "charging", "asking", "shipped", "shipped"):
        assert life(tmp_path, point)[0] == KILLED
    assert life(tmp_path) == (0, DONE)
    assert {what: len({key for one, key in ledger(tmp_path) if one == what}) for what in ("charge", "ship")} == {
        "charge": 1,
        "ship": 1,
    }


@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("point", ["charging", "charged", "asking", "shipped"])
def test_in_other_durabilities_a_step_may_be_done_again_but_under_no_other_key(tmp_path, point, durability):
    assert life(tmp_path, point, durability=durability)[0] == KILLED
    assert life(tmp_path, durability=durability) == (0, DONE)
    assert done(tmp_path).count("ship") <= 2
    keys = {key for what, key in ledger(tmp_path) if what == "ship"}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("point", "durability"), [("before charge", "sync"), ("charging", "sync"), ("charging", "async")]
)
def test_ask_a_human_who_says_what_it_gave(tmp_path, point, durability):
    options = {"policy": "ask", "durability": durability}
    assert life(tmp_path, point, **options)[0] == KILLED
    code, said = life(tmp_path, **options)
    assert code == 0
    assert said["asked"]["step"] == "charge"
    assert said["asked"]["node"] == "shop"
    keys = [key for _, key in ledger(tmp_path)]
    assert all(key == said["asked"]["idempotency_key"] for key in keys)
    assert life(tmp_path, answer={"result": "told"}, **options) == (0, {"log": ["told", "ship a book"]})
    assert done(tmp_path) == ["charge", "ship"][0 if point == "charging" else 1 :]


def test_ask_a_human_who_wants_it_done_again(tmp_path):
    assert life(tmp_path, "charging", policy="ask")[0] == KILLED
    assert life(tmp_path, policy="ask", answer="rerun") == (0, DONE)
    assert done(tmp_path) == ["charge", "charge", "ship"]
    assert len({tuple(line) for line in ledger(tmp_path)}) == 2


def test_a_function_that_finds_the_result_out_has_the_last_word(tmp_path):
    assert life(tmp_path, "charging", policy="found")[0] == KILLED
    assert life(tmp_path, policy="found") == (0, {"log": ["found 7", "ship a book"]})
    assert done(tmp_path) == ["charge", "ship"]


def test_a_function_that_finds_nothing_has_it_done_again(tmp_path):
    assert life(tmp_path, "charging", policy="not found")[0] == KILLED
    assert life(tmp_path, policy="not found") == (0, DONE)
    assert done(tmp_path) == ["charge", "charge", "ship"]


@pytest.mark.parametrize("policy", ["ask", "found"])
def test_a_step_whose_result_was_recorded_is_not_unknown(tmp_path, policy):
    assert life(tmp_path, "charged", policy=policy)[0] == KILLED
    assert life(tmp_path, policy=policy) == (0, DONE)
    assert done(tmp_path) == ["charge", "ship"]
