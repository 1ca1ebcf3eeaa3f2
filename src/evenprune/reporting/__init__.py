"""From the records of a run to results.csv, significance.csv, tables, figures and one PDF."""

from ..base.hidden import unhide

unhide("scipy")
