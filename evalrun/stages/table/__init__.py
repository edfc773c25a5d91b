"""The wide table: records --blocks--> Block (one dataset) --build--> Table (texts) --render--> md, txt, screen."""

from evalrun.stages.table.build import Column, Table, build
from evalrun.stages.table.numbers import SummarySettings
from evalrun.stages.table.render import md_text, print_table, txt_text

__all__ = ["Column", "SummarySettings", "Table", "build", "md_text", "print_table", "txt_text"]
