"""StereoSet's scores beside CrowS-Pairs, by calibration set: not in the paper."""

from ...base.errors import UserError
from ...stats.directions import direction
from ..fields import Field, Run, benchmark_field
from ..method_table import method_table, widest_experiment
from ..render import Column, Table
from ..results import Quantity


def build(run: Run, slug: str) -> Table:
    """Return StereoSet's scores beside CrowS-Pairs, by calibration set: not in the paper.

    Rows are those of the experiment ``calib_source``, whose pairs are from different sources,
    where the run has it: each data set is a clean test of the pairs of the other one.
    """
    run_sheet = run.sheet
    name = run_sheet.primary("stereoset")
    if name is None:
        raise UserError(
            "the table stereoset shows StereoSet, but the configuration has no benchmark with "
            "task stereoset; add one or leave the table out"
        )
    fields = [
        Field(
            Column(metric, head, "fairness", direction("stereoset", metric), 100.0, span=span),
            Quantity(name, metric),
        )
        for metric, head, span in (
            ("icat", "ICAT", "StereoSet"),
            ("lms", "LMS", "StereoSet"),
            ("ss", "SS", "StereoSet"),
            ("icat_norm_terms", "ICAT", "Per token and term"),
        )
    ]
    crows = run_sheet.primary("crows_pairs")
    fields += [benchmark_field(run_sheet, crows)] if crows else []
    caption = (
        "StereoSet: share of sentences with sense preferred to nonsense (LMS), of stereotypes "
        "preferred to their opposites (SS), and both in one (ICAT, 100 is ideal)"
    )
    caption += ", beside CrowS-Pairs." if crows else "."
    experiment = "calib_source" if "calib_source" in run_sheet.experiments else None
    return method_table(run, slug, experiment or widest_experiment(run_sheet), caption, fields)
