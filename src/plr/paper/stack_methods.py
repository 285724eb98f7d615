"""Which weightings and losses a stack of networks can be trained by; needs no PyTorch."""

from __future__ import annotations

from plr.errors import ParameterError
from plr.losses import Absolute, Huber, Loss, Squared
from plr.weighting import Average, Identify, Posterior, Progressive, Weighting

__all__ = ["FUSED_LOSSES", "FUSED_WEIGHTINGS", "check_method"]

FUSED_WEIGHTINGS: tuple[type[Weighting], ...] = (Average, Identify, Progressive, Posterior)
FUSED_LOSSES: tuple[type[Loss], ...] = (Squared, Absolute, Huber)
"""What the fused kernel has code for; on the device, each goes by its place here."""


def check_method(weighting: Weighting, loss: Loss) -> None:
    """Refuse, by name, a weighting or a loss that a stack cannot train by."""
    if isinstance(weighting, Posterior):
        special = weighting.noise != "student" or weighting.needs_density or weighting.scale_by_row
        if special:
            raise ParameterError(
                f"A stack knows the posterior with Student's noise, uniform false labels and one noise scale alone, "
                f"not {weighting!r}; train it on the CPU."
            )
    elif weighting.torch_score is None:
        raise ParameterError(
            f"A stack does not know the weighting {type(weighting).__name__}, which has no torch_score; train it on "
            f"the CPU."
        )
    if loss.torch_value is None:
        raise ParameterError(
            f"A stack does not know the loss {type(loss).__name__}, which has no torch_value; train it on the CPU."
        )
