"""The source and bias type of the calibration pairs, as a calibration ablation."""

from .calib_size import build

__all__ = ["build"]
