"""Many faults, on one machine or many: sampled, made, counted, compared.

    sample → run → journal → rates, intervals, pictures

`population` and `sample` say which faults, `worker` makes them in any process,
`execute` hands them to an executor, `journal` keeps them, `statistics` and `results`
count them.
"""

from fi_notebook.campaign.campaign import Campaign
from fi_notebook.campaign.draws import CampaignError
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.plan import DryRun
from fi_notebook.campaign.results import Results

__all__ = ["Campaign", "CampaignError", "DryRun", "Results", "Row"]
