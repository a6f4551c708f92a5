"""Many faults, on one machine or many: sampled, made, counted, compared.

    sample → run → journal → rates, intervals, pictures

`sample` says which faults, `worker` makes them in any process, `execute` hands them to
an executor, `journal` keeps them, `statistics` and `results` count them.
"""

from fi_notebook.campaign.campaign import Campaign, DryRun
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.sample import CampaignError

__all__ = ["Campaign", "CampaignError", "DryRun", "Results", "Row"]
