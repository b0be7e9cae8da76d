"""Convolutions with channels in multiples of 8, as the tensor cores want them, without any change of the results.

The library would otherwise pad activations before every convolution and cut them afterwards. Here the activations keep
their additional channels from layer to layer. The additional channels are zero: their weights are not parameters but
zeros that are put beside the parameters in every step, so nothing can train them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainmark.workloads.torch_same import pad_input

CHANNEL_MULTIPLE = 8


def convolve_padded(
    convolution: nn.Conv2d, x: Tensor, *, parts: Sequence[int] = (), multiple: int = CHANNEL_MULTIPLE
) -> Tensor:
    """With as many input channels as `x` has and a multiple of `multiple` output channels.

    `parts`: the channels of tensors that were padded one by one and then concatenated to `x`.
    """
    weight, bias = convolution.weight, convolution.bias
    if parts:
        split = weight.split(list(parts), dim=1)
        weight = torch.cat([functional.pad(w, (0, 0, 0, 0, 0, -w.shape[1] % multiple)) for w in split], dim=1)
    more_out, more_in = -weight.shape[0] % multiple, x.shape[1] - weight.shape[1]
    if more_out or more_in:
        weight = functional.pad(weight, (0, 0, 0, 0, 0, more_in, 0, more_out))
        bias = None if bias is None else functional.pad(bias, (0, more_out))
    x, padding = pad_input(convolution, x)
    return functional.conv2d(x, weight, bias, convolution.stride, padding)
