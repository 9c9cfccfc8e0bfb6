"""A campaign in the folder it is started in, with a part of every kind from this package. Prints what it found as JSON."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from cobed.campaign.campaign import Campaign
from cobed.report.campaign import write_report

SPEC = """name = "queue"
[units]
id = "caller"
[context]
day = "weekday"
[action]
options = ["letter", "call"]
[outcome]
column = "wait"
likelihood = "exponential"
typical = 3.0
[model]
inference = "resampling"
[design]
budget = "smoke"
objective = "d-optimality"
max_targets = 3
[constraints]
max_share = { call = 0.25 }
"""
DAYS = ["Monday", "Tuesday", "Saturday", "Sunday"]


def units(first: int) -> pd.DataFrame:
    return pd.DataFrame({"caller": [f"c{first + i}" for i in range(8)], "day": DAYS * 2})


def main() -> None:
    rng, found = np.random.default_rng(0), {}
    # The first round climbs the objective of this package, the second is by its designer.
    rounds = {"objective": SPEC, "designer": SPEC.replace('objective = "d-optimality"', 'designer = "in turn"')}
    for number, (part, text) in enumerate(rounds.items()):
        Path("campaign.toml").write_text(text)
        campaign = Campaign.open("campaign.db", "campaign.toml") if number else Campaign.create("campaign.toml")
        assigned = campaign.recommend(units(8 * number))
        found[part] = {"actions": assigned["action"].tolist(), "method": campaign.rounds()[-1].summary["method"]}
        campaign.add_outcomes(assigned.assign(wait=rng.exponential(3.0, 8)))
        campaign.close()
    campaign = Campaign.open("campaign.db", "campaign.toml")
    found["posterior"] = campaign.posterior()[1].method
    found["policy"] = campaign.deploy(units(100))["action"].tolist()
    found["check"] = {check.name: check.verdict for check in campaign.trust()}["enough units"]
    found["page"] = "Who is still awaited" in write_report(campaign, "report.html").read_text()
    campaign.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
