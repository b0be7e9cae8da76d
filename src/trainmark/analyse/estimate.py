"""One measured throughput and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Throughput of one run, or of several pooled runs of one cell."""

    value: float
    """Samples per second of all devices together: sum of samples over sum of seconds, never a mean of rates."""

    ci95: tuple[float, float] | None
    """Interval that covers the true throughput in 95 of 100 measurements; None when there are too few steps to say."""

    num_steps: int
    """Steps of the steady state, those that `value` is made of."""

    num_warmup_steps: int
    """Steps before the steady state, which were left out."""

    method: str
    """How `ci95` was found: `ar-t` (one run), `runs-t` or `runs-within` (pooled), `none` (no interval)."""

    std_error: float | None
    """Standard error of `value`, in samples per second; None where `ci95` is None."""

    dof: float | None
    """Degrees of freedom behind `std_error`, for Student's t; infinite where the error is known to be zero."""

    @property
    def relative_half_width(self) -> float | None:
        """Half of the interval over the value: the x of "± x"."""
        if self.ci95 is None:
            return None
        low, high = self.ci95
        return (high - low) / 2 / self.value
