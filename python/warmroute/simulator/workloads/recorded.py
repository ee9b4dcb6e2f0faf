"""Workloads whose traffic is read from the folder of traces."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warmroute.errors import ConfigError
from warmroute.simulator.workload import FleetPlan
from warmroute.simulator.workloads.single_stage import SingleStage, Traffic


@dataclass(frozen=True, slots=True)
class Recorded:
    """A workload that can be made where the file `file` lies in the folder of traces."""

    name: str
    about: str
    fleet: FleetPlan
    file: str
    traffic: Callable[[Path], Traffic]

    def open(self, traces: Path | None) -> SingleStage:
        """The workload. ConfigError where there is no folder, the file is not in it, or cannot be read."""
        if traces is None:
            raise ConfigError(
                f"the workload {self.name} is made from recorded traces; say where they are: --traces FOLDER"
            )
        path = traces / self.file
        if not path.is_file():
            raise ConfigError(f"the workload {self.name} needs {path}, which is not there; --traces names the folder")
        return SingleStage(self.name, self.about, self.fleet, self.traffic(path))
