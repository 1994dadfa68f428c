"""What the figures of the crossings share."""

from typing import Any


def plain_log(axis: Any) -> None:
    """A logarithmic axis with the ticks 1, 2, 5, 10, ..., written as 500, 2k, 50k."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(EngFormatter(sep=""))
    axis.set_minor_formatter(NullFormatter())
