"""Flies one scenario many times with varied values: designs, searches, engines that fly them, and results."""

from sitl_bridge.lab.campaign.dask_engine import SCHEME, DaskEngine
from sitl_bridge.lab.campaign.flight_job import Job, RunRow, fly_job
from sitl_bridge.lab.campaign.ledger import Ledger, campaign_header, clopper_pearson, is_sample, read_rows
from sitl_bridge.lab.campaign.page import cluster_of, write_campaign_report, write_tables
from sitl_bridge.lab.campaign.run import CampaignProgress, CampaignRun
from sitl_bridge.lab.campaign.space import CampaignSpace
from sitl_bridge.lab.campaign.worker_pool import Engine, WorkerPool

__all__ = [
    "SCHEME",
    "CampaignProgress",
    "CampaignRun",
    "CampaignSpace",
    "DaskEngine",
    "Engine",
    "Job",
    "Ledger",
    "RunRow",
    "WorkerPool",
    "campaign_header",
    "clopper_pearson",
    "cluster_of",
    "fly_job",
    "is_sample",
    "read_rows",
    "write_campaign_report",
    "write_tables",
]
