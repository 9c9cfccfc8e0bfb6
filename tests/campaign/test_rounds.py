"""What happens around a design that takes long: pins and outcomes meanwhile, units in the field, a database that goes away."""

import threading
import time
import types

import numpy as np
import pandas as pd
import pytest

import cobed
from cobed.campaign import records, store, unsaved
from cobed.campaign.campaign import Campaign
from cobed.campaign.records import Assignment, Round
from cobed.designers.result import DesignResult
from cobed.errors import CampaignError, StorageError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
"""
TINY = cobed.Budget(
    num_steps=2, batch_size=8, num_starts=1, settle_steps=0, settle_batch_size=8, num_evaluation_batches=2,
    pool_size=64, num_samples=1,
)  # fmt: skip


def people(number, start=0):
    names = [f"{start + i:03d}" for i in range(number)]
    return pd.DataFrame({"customer": names, "recency": np.arange(number) % 4 + 1.0})


def told(*units):
    return pd.DataFrame({"customer": units, "amount": 50.0})


@pytest.fixture
def begin(tmp_path):
    """Starts a campaign."""
    opened = []

    def make(text=SPEC, location=None):
        (tmp_path / "campaign.toml").write_text(text)
        opened.append(Campaign.create(tmp_path / "campaign.toml", location or tmp_path / "campaign.db"))
        return opened[-1]

    yield make
    for campaign in opened:
        campaign.close()


@pytest.fixture
def meanwhile(monkeypatch):
    """In the place of a design: options in turn, the last option first. `meanwhile.do` is called while it runs."""

    state = types.SimpleNamespace(do=None, batches=[])

    def draw(spec, model, posterior, batch, seed, budget=None, progress=None):
        state.batches.append(batch)
        if state.do is not None:
            do, state.do = state.do, None
            do()
        actions = np.eye(model.action_space.dim)[-1 - np.arange(len(batch.contexts)) % model.action_space.dim]
        return DesignResult("Fake", actions, [], batch.contexts, None, [], "", seed, 0.0, 0.0)

    monkeypatch.setattr("cobed.campaign.rounds.design_batch", draw)
    return state


def is_fixed(batch):
    return np.isfinite(batch.allowed.fixed).all(axis=1)


def offers(frame):
    return frame.set_index("customer")["offer"].to_dict()


def stored(campaign):
    return campaign.export().set_index("customer")["offer"].to_dict()


def test_a_pin_made_while_the_round_is_designed_is_kept_and_obeyed(begin, meanwhile, tmp_path):
    campaign = begin(SPEC + '[constraints]\nat_most = { "5%" = 2 }\n')
    campaign.recommend(people(6))
    other = Campaign.open(tmp_path / "campaign.db")
    meanwhile.do = lambda: (other.pin({"001": "5%", "003": "5%"}), other.reject(["000"]))
    frame = campaign.recommend(people(6), people(3, 50))
    # What was designed gives way where the constraints ask for it.
    assert (
        offers(frame)
        == stored(campaign)
        == {unit: "5%" if unit in ("001", "003") else "none" for unit in people(6)["customer"]}
    )
    with campaign.store.reading() as connection:
        rows = {row.unit: row for row in records.read_assignments(connection, 1)}
    assert (rows["001"].state, rows["000"].rejected) == ("pinned", ("5%",))
    # The next design obeys them from the start.
    assert campaign.rounds()[-1].summary["stale"]
    campaign.recommend(people(6), people(3, 50))
    assert is_fixed(meanwhile.batches[-1]).sum() == 2
    assert "stale" not in campaign.rounds()[-1].summary
    other.close()


def test_pins_that_contradict_the_constraints_stop_a_running_design_and_are_kept(begin, meanwhile, tmp_path):
    campaign = begin(SPEC + '[constraints]\nat_most = { "5%" = 1 }\n')
    before = offers(campaign.recommend(people(4)))
    other = Campaign.open(tmp_path / "campaign.db")
    meanwhile.do = lambda: other.pin({"001": "5%", "003": "5%"})
    with pytest.raises(CampaignError, match="at most 1 units of '5%'"):
        campaign.recommend(people(4), people(3, 50))
    assert stored(campaign) == {**before, "001": "5%", "003": "5%"}
    assert [(r.id, r.version) for r in campaign.rounds()] == [(1, 1)]
    other.close()


def test_an_outcome_that_comes_while_the_round_is_designed_anew_keeps_its_action(begin, meanwhile, tmp_path):
    campaign = begin()
    before = offers(campaign.recommend(people(4)))
    campaign.reject(["001"])
    other = Campaign.open(tmp_path / "campaign.db")
    meanwhile.do = lambda: other.add_outcomes(told("000"))
    after = offers(campaign.recommend(people(4)))
    assert after["000"] == before["000"] == stored(campaign)["000"]
    assert campaign.status().num_outcomes == 1
    assert campaign.export()["as_planned"].all()
    assert "stale" not in campaign.rounds()[-1].summary
    other.close()


def test_a_round_that_another_process_wrote_meanwhile_is_not_written_over(begin, meanwhile, tmp_path):
    campaign = begin()
    other = Campaign.open(tmp_path / "campaign.db")
    meanwhile.do = lambda: other.recommend(people(3))
    with pytest.raises(CampaignError, match="Another process wrote a round"):
        campaign.recommend(people(5, 10))
    assert len(stored(campaign)) == 3
    other.close()


def test_units_in_the_field_are_fixed_rows_of_the_next_design_and_of_nothing_else(begin, meanwhile):
    campaign = begin(SPEC + '[constraints]\nat_most = { "5%" = 2 }\ncost = { "5%" = 1 }\nmax_cost = 2\n')
    first = campaign.recommend(people(4))
    campaign.add_outcomes(told("000"))
    second = campaign.recommend(people(3, 10))
    batch = meanwhile.batches[-1]
    assert is_fixed(batch).tolist() == [False] * 3 + [True] * 3
    assert np.argmax(batch.allowed.fixed[3:], axis=1).tolist() == [["none", "5%"].index(o) for o in first["offer"][1:]]
    # The limit is the round's own.
    assert sorted(second["offer"]) == ["5%", "5%", "none"]
    assert campaign.rounds()[-1].summary["field"] == 3
    # A round designed anew is not in its own field.
    campaign.reject(["010"])
    campaign.recommend(people(3, 10))
    assert is_fixed(meanwhile.batches[-1]).tolist() == [False] * 3 + [True] * 3


def test_a_second_wave_is_designed_beside_the_first_before_any_outcome_is_in(begin, meanwhile):
    campaign = begin(SPEC)
    first = campaign.recommend(people(8), take=3)
    assert offers(campaign.recommend(people(8), take=3)) == offers(first)
    second = campaign.recommend(people(8), take=3, new_round=True)
    assert set(second["customer"]).isdisjoint(first["customer"])
    assert is_fixed(meanwhile.batches[-1]).tolist() == [False] * 3 + [True] * 3
    assert [r.num_units for r in campaign.rounds()] == [3, 3]
    assert stored(campaign) == offers(first) | offers(second)


def put_in_field(campaign, frame, action):
    """A round as a design would have stored it, so that none has to be compiled."""
    rows = [Assignment(unit, {"recency": recency}, action) for unit, recency in frame.values.tolist()]
    with campaign.store.transaction() as connection:
        records.write_meta(connection, "encoding", '{"scales": {"recency": [2.5, 1.1]}, "levels": {}}')
        records.write_round(connection, Round(1, records.now(), "", 0, 1, {}), rows)


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["", "[constraints]\nat_least = { none = 1 }\n"])
def test_the_next_round_tries_what_the_field_does_not(begin, rules, tmp_path):
    """30 units are out with one option: of the 10 of the next round nearly all get the other, and not a half."""
    shares = []
    for name in ("alone", "beside"):
        campaign = begin(SPEC + rules, tmp_path / f"{name}.db")
        if name == "beside":
            put_in_field(campaign, people(30), "none")
        frame = campaign.recommend(people(10, 100), people(20, 500), budget=TINY)
        shares.append((frame["offer"] == "5%").sum())
    assert 3 <= shares[0] <= 7
    assert shares[1] >= 9


@pytest.mark.slow
def test_numbers_in_the_field_leave_the_cost_of_a_round_to_its_own_units(begin):
    campaign = begin(
        SPEC.replace('options = ["none", "5%"]', "numbers = { price = { low = 0, high = 10 } }")
        + "[constraints]\ncost = { price = 1 }\nmax_cost = 20\n"
    )
    put_in_field(campaign, people(4, 50), {"price": 10.0})
    frame = campaign.recommend(people(4), budget=TINY)
    assert 0 < frame["price"].sum() <= 20
    assert campaign.rounds()[-1].summary["field"] == 4


# A server that goes away.


def test_a_design_is_stored_when_the_server_was_restarted_meanwhile(
    begin, meanwhile, postgres, postgres_url, monkeypatch, capfd
):
    monkeypatch.setattr(store, "WAITS", (0.1, 0.2, 0.4, 1, 2, 4, 8))
    campaign = begin(location=postgres_url)
    campaign.add_outcomes(people(4, 50).assign(offer="none", amount=50.0))

    def restart():
        postgres.stop()
        threading.Timer(0.2, postgres.start).start()

    meanwhile.do = restart
    frame = campaign.recommend(people(4))
    assert offers(frame).items() <= stored(campaign).items()
    assert capfd.readouterr().err.count("does not answer; trying again") == 1
    # A connection closed by a restart in between is no error at all.
    postgres.stop()
    postgres.start()
    assert campaign.status().num_waiting == 4
    postgres.stop()
    postgres.start()
    assert campaign.add_outcomes(told("000")).added == 1
    campaign.deploy(people(3, 90))
    assert len(campaign.policies()) == 1


def test_a_design_that_cannot_be_stored_is_kept_and_stored_by_the_same_command(
    begin, meanwhile, postgres, postgres_url, monkeypatch, tmp_path
):
    campaign = begin(location=postgres_url)
    monkeypatch.setattr(store, "WAITS", (0.1, 0.1))
    meanwhile.do = postgres.stop
    try:
        with pytest.raises(StorageError, match=r"finished design is kept in .*unsaved-round.json: the same command"):
            campaign.recommend(people(4))
    finally:
        postgres.start()
    path = tmp_path / unsaved.NAME
    assert path.stat().st_mode & 0o077 == 0
    again = Campaign.open(postgres_url, tmp_path / "campaign.toml")
    designs = len(meanwhile.batches)
    frame = again.recommend(people(4))
    assert len(meanwhile.batches) == designs
    assert offers(frame) == stored(again)
    assert not path.exists()
    again.close()


def test_a_design_kept_from_before_is_not_taken_for_another(begin, meanwhile, tmp_path):
    campaign = begin()
    campaign.recommend(people(4))
    path = unsaved.keep(tmp_path, {"store": "another"}, [], {})
    path.write_text("{")
    assert len(campaign.recommend(people(5, 10))) == 5
    assert not path.exists()


def test_a_commit_whose_answer_was_lost_is_not_taken_for_another_process(begin, meanwhile, monkeypatch):
    """The connection breaks after the commit: the second attempt finds its own round."""
    campaign = begin()
    write, broken = campaign.store.write, []

    def write_twice(change):
        write(change)
        broken.append(time.time())
        return write(change)

    monkeypatch.setattr(campaign.store, "write", write_twice)
    frame = campaign.recommend(people(4))
    assert broken
    assert offers(frame) == stored(campaign)
    assert [(r.id, r.version) for r in campaign.rounds()] == [(1, 1)]
