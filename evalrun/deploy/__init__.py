"""The server under test: check what is there, install, start deploy.sh, wait, probe, and end all
that came of it.
"""

from evalrun.deploy.checks import Checked, addressed, check, default_samples, with_origin
from evalrun.deploy.lifecycle import serving

__all__ = ["Checked", "addressed", "check", "default_samples", "serving", "with_origin"]
