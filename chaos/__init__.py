"""Chaos: a router in front of engines that die, stop and lie, and of clients that misbehave; every request is judged.

    .venv/bin/python -m chaos --seconds 300 --seed 7

What happens, and when, follows from the seed (`schedule.py`, `asks.py`, `behaviours.py`). What must hold is in
`judgement.py` (of each request) and `verdict.py` (of the router as a whole).
"""
