"""warmroute sends each LLM request to the worker that already holds its prefix."""
