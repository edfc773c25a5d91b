"""The wide table: records --blocks--> Block (one dataset) --build--> WideTable (texts) --render-->
md, txt, screen.
"""

from evalrun.stages.summary.assemble import TableColumn, WideTable, build
from evalrun.stages.summary.formatting import SummarySettings
from evalrun.stages.summary.render import md_text, print_table, txt_text

__all__ = [
    "SummarySettings",
    "TableColumn",
    "WideTable",
    "build",
    "md_text",
    "print_table",
    "txt_text",
]
