"""The router in virtual time: its own decision code on modelled engines, on workloads of which every request is known.

    workload -> world: clock, router, engines, events -> result -> tables and reports

Only the clock, the engines and the transport differ from production. `route`, `first_byte` and `settle`, the policies,
the index, the decoding of KV events and the waiting room are the ones that serve.
"""
