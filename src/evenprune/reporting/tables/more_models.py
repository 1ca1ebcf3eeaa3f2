"""The same for further models: the paper's tab:debias-sparsegpt-newmodels."""

from .main import build

__all__ = ["build"]
