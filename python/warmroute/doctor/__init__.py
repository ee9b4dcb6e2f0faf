"""Finds where requests that ought to share a prefix part, names the kind, counts the cost, and applies the fix.

    Logged -> family -> first divergence -> kind -> fix -> the reuse with the fix -> Finding

Nothing is rewritten on its way to an engine: the fix makes a body for a person to look at.
"""

from warmroute.doctor.diagnosis import diagnose
from warmroute.doctor.kind import Kind
from warmroute.doctor.options import DoctorOptions
from warmroute.doctor.report import Finding, Fix, Report, Told, ToldReport, told
from warmroute.request_log.logged import Logged

__all__ = ["DoctorOptions", "Finding", "Fix", "Kind", "Logged", "Report", "Told", "ToldReport", "diagnose", "told"]
