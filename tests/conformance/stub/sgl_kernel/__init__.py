"""Stands in for SGLang's compiled kernels on a CPU: three fused operators, in plain torch.

SGLang imports a module of this name before it calls the operators. It has widened scale, shift and
gate to the shape of `x` by then.
"""

import torch
from torch.nn import functional

LIBRARY = torch.library.Library("sgl_kernel", "DEF")


def _modulate(x, scale, shift, constant=1.0):
    return (x * (scale + constant) + shift).to(x.dtype)


def _normalise(x, weight, bias, kind, eps):
    if kind == "rms":
        return functional.rms_norm(x, x.shape[-1:], weight, eps)
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _normalise_and_modulate(x, weight, bias, scale, shift, kind, eps):
    return _modulate(_normalise(x, weight, bias, kind, eps), scale, shift)


def _add_normalise_and_modulate(residual, x, gate, weight, bias, scale, shift, kind, eps):
    total = (residual + (x if gate is None else gate * x)).to(x.dtype)
    return _normalise_and_modulate(total, weight, bias, scale, shift, kind, eps), total


MODULATION = "Tensor? weight, Tensor? bias, Tensor scale, Tensor shift, str kind, float eps"
OPERATORS = {
    "fused_scale_shift_cpu(Tensor x, Tensor scale, Tensor shift, float constant) -> Tensor": (
        _modulate
    ),
    f"fused_norm_scale_shift_cpu(Tensor x, {MODULATION}) -> Tensor": _normalise_and_modulate,
    "fused_scale_residual_norm_scale_shift_cpu(Tensor residual, Tensor x, Tensor? gate, "
    f"{MODULATION}) -> (Tensor, Tensor)": _add_normalise_and_modulate,
}
for schema, function in OPERATORS.items():
    LIBRARY.define(schema)
    LIBRARY.impl(schema.split("(")[0], function, "CompositeExplicitAutograd")
