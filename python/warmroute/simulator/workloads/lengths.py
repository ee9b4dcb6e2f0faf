"""How long prompts and answers are: skewed to the right, as people's are."""

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths in tokens, log-normal about `median`, cut to `least` .. `most`. `spread`: sigma of the logarithm."""

    median: int
    spread: float
    least: int
    most: int

    def draw(self, rng: random.Random) -> int:
        drawn = round(math.exp(rng.gauss(math.log(self.median), self.spread)))
        return min(self.most, max(self.least, drawn))
