"""How often a request is tried again, and in which order requests wait while every worker is full."""

from warmroute.admission.options import FailoverOptions
from warmroute.admission.queue import Waiter, WaitingQueue
from warmroute.admission.retry_budget import RetryBudget

__all__ = ["FailoverOptions", "RetryBudget", "Waiter", "WaitingQueue"]
