"""Reports: a run as one page that opens offline, on paper and on a phone."""

from sublearn.reports._write import page, write

__all__ = ["page", "write"]
