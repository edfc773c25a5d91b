"""The wide table: records --blocks--> Block (one dataset) --build--> Table (texts) --render-->
md, txt, screen.
"""

from evalrun.stages.summary.assemble import Column, Table, build
from evalrun.stages.summary.formatting import SummarySettings
from evalrun.stages.summary.render import md_text, print_table, txt_text

__all__ = ["Column", "SummarySettings", "Table", "build", "md_text", "print_table", "txt_text"]
