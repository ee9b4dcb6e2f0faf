"""`warmroute demo`: emulated engines, the router and an agent workload, under one policy after the other."""

from warmroute.demo.child import ChildFailed
from warmroute.demo.options import DemoOptions
from warmroute.demo.show import show

__all__ = ["ChildFailed", "DemoOptions", "show"]
