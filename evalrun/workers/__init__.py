"""Worker processes: a function over many items, each call under a deadline that ends it for
certain.
"""

from evalrun.workers.pool import Ending, Outcome, Pool, close, run

__all__ = ["Ending", "Outcome", "Pool", "close", "run"]
