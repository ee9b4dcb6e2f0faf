"""What the router tells of itself: explanations and metrics. Observers of the router; it knows none of them."""
