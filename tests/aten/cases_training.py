"""Cases of losses, fused optimizer steps and loss scaling."""

import torch

from case_support import aten, case, f, pos, simple

REDUCTIONS = (("none", 0), ("mean", 1), ("sum", 2))


def unit(*sizes):
    return lambda d: d.f(*sizes).sigmoid()


for reduction, number in REDUCTIONS:
    g = f(6, 5) if number == 0 else f()
    simple("smooth_l1_loss", f(6, 5), f(6, 5), number, 0.5, variant=reduction)
    simple("smooth_l1_loss_backward", g, f(6, 5), f(6, 5), number, 0.5, variant=reduction)
    simple("huber_loss", f(6, 5), f(6, 5), number, 0.75, variant=reduction)
    simple("huber_loss_backward", g, f(6, 5), f(6, 5), number, 0.75, variant=reduction)
    for weight in (None, pos(6, 5)):
        variant = f"{reduction}{' weighted' if weight else ''}"
        simple("binary_cross_entropy", unit(6, 5), unit(6, 5), weight, number, variant=variant)
        simple("binary_cross_entropy_backward", g, unit(6, 5), unit(6, 5), weight, number, variant=variant)
        simple("binary_cross_entropy_with_logits", f(6, 5), unit(6, 5), weight, None, number, variant=variant)
    simple("binary_cross_entropy_with_logits", f(6, 5), unit(6, 5), None, pos(5), number,
           variant=f"{reduction} positive weights")
    simple("soft_margin_loss", f(6, 5), lambda d: d.f(6, 5).sign(), number, variant=reduction)
    simple("soft_margin_loss_backward", g, f(6, 5), lambda d: d.f(6, 5).sign(), number, variant=reduction)
    for ignore in (-100, 2):
        for weighted in (False, True):

            def forward(d, number=number, ignore=ignore, weighted=weighted):
                weight = d.pos(5) if weighted else None
                results = aten.nll_loss2d_forward.default(-d.pos(3, 5, 2, 4), d.i(3, 2, 4, high=5), weight, number,
                                                          ignore)
                return results[:1] if number == 0 else results

            def backward(d, number=number, ignore=ignore, weighted=weighted):
                x, target = d.f(3, 5, 2, 4), d.i(3, 2, 4, high=5)
                weight = d.pos(5) if weighted else None
                _, total = aten.nll_loss2d_forward.default(x, target, weight, 1, ignore)
                return aten.nll_loss2d_backward.default(
                    d.f(3, 2, 4) if number == 0 else d.f(), x, target, weight, number, ignore, total)

            def rows(d, number=number, ignore=ignore, weighted=weighted):
                weight = d.pos(5) if weighted else None
                results = aten.nll_loss_forward.default(-d.pos(6, 5), d.i(6, high=5), weight, number, ignore)
                return results[:1] if number == 0 else results

            variant = f"{reduction} {ignore}{' weighted' if weighted else ''}"
            case("nll_loss2d_forward", variant)(forward)
            case("nll_loss2d_backward", variant)(backward)
            if weighted:
                case("nll_loss_forward", variant)(rows)


def copies(tensors):
    return [t.clone() for t in tensors]


def some(d, dtype=torch.float32):
    return [d.f(3, 5, dtype=dtype), d.f(4, dtype=dtype), d.f(dtype=dtype)]


def steps(d):
    return d.keep(lambda: [torch.tensor(float(k)) for k in (1, 2, 7)])


def fused_adam(op, variant, rate=0.01, dtype=torch.float32, grad_scale=None, found_inf=None, **options):
    @case(op, variant)
    def run(d):
        settings = {
            "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-6, "amsgrad": False, "maximize": False,
            **options
        }
        lists = [copies(some(d, dtype)) for _ in range(3)
                ] + [copies([t.abs() for t in some(d, dtype)]) for _ in range(2)]
        packet, _, overload = op.partition(".")
        extra = {}
        if grad_scale is not None:
            extra["grad_scale"] = d.keep(lambda: torch.tensor(grad_scale))
        if found_inf is not None:
            extra["found_inf"] = d.keep(lambda: torch.tensor(found_inf))
        lr = d.keep(lambda: torch.tensor(rate)) if overload else rate * (1 + d.step)
        if not settings["amsgrad"]:
            getattr(getattr(aten, packet), overload or "default")(*lists[:4], [], steps(d), lr=lr, **settings, **extra)
            return [t for part in lists[:4] for t in part]
        getattr(getattr(aten, packet), overload or "default")(*lists, steps(d), lr=lr, **settings, **extra)
        return [t for part in lists for t in part]


for op in ("_fused_adam_", "_fused_adamw_"):
    fused_adam(op, "")
    fused_adam(op, "amsgrad", amsgrad=True, maximize=True)
    fused_adam(op, "float64", dtype=torch.float64)
    fused_adam(op, "scaled", grad_scale=4.0, found_inf=0.0)
    fused_adam(op, "overflow", grad_scale=4.0, found_inf=1.0)
    fused_adam(f"{op}.tensor_lr", "")


def fused_sgd(op, variant, **options):
    @case(op, variant)
    def run(d):
        settings = {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.25, "nesterov": False, "maximize": False,
                    "is_first_step": False, **options}
        x, g, m = copies(some(d)), copies(some(d)), copies(some(d))
        packet, _, overload = op.partition(".")
        lr = d.keep(lambda: torch.tensor(0.01)) if overload else 0.01
        getattr(getattr(aten, packet), overload or "default")(x, g, m if settings["momentum"] else [], lr=lr,
                                                              **settings)
        return [*x, *m] if settings["momentum"] else x


fused_sgd("_fused_sgd_", "")
fused_sgd("_fused_sgd_", "plain", momentum=0.0, weight_decay=0.0)
fused_sgd("_fused_sgd_", "first", is_first_step=True, maximize=True)
fused_sgd("_fused_sgd_", "nesterov", nesterov=True, dampening=0.0)
fused_sgd("_fused_sgd_.tensor_lr", "")


@case("_fused_adagrad_")
def fused_adagrad(d):
    x, g, s = copies(some(d)), copies(some(d)), copies([t.abs() for t in some(d)])
    aten._fused_adagrad_.default(x, g, s, steps(d), lr=0.01, lr_decay=0.1, weight_decay=0.1, eps=1e-6, maximize=False)
    return [*x, *s]


@case("_fused_adagrad_.tensor_lr")
def fused_adagrad_tensor(d):
    x, g, s = copies(some(d)), copies(some(d)), copies([t.abs() for t in some(d)])
    lr = d.keep(lambda: torch.tensor(0.01))
    aten._fused_adagrad_.tensor_lr(x, g, s, steps(d), lr=lr, lr_decay=0.1, weight_decay=0.1, eps=1e-6, maximize=True)
    return [*x, *s]


for bad in (None, float("inf"), float("nan")):

    @case("_amp_foreach_non_finite_check_and_unscale_", str(bad))
    def check_and_unscale(d, bad=bad):
        grads = copies(some(d))
        if bad is not None:
            grads[1][2] = bad
        found = torch.zeros(1)
        aten._amp_foreach_non_finite_check_and_unscale_.default(grads, found, d.keep(lambda: torch.tensor([0.25])))
        return [*grads, found]


for variant, tracker, found in (("grows", 4, 0.0), ("waits", 2, 0.0), ("overflow", 3, 1.0)):

    @case("_amp_update_scale_", variant)
    def update_scale(d, tracker=tracker, found=found):
        scale = d.keep(lambda: torch.tensor([1024.0])).clone()
        count = d.keep(lambda: torch.tensor([tracker], dtype=torch.int32)).clone()
        aten._amp_update_scale_.default(scale, count, d.keep(lambda: torch.tensor([found])), 2.0, 0.5, 5)
        return [scale, count]


# Views that are copies, and views in place
simple("diagonal_copy", f(4, 5))
simple("diagonal_copy", f(3, 4, 5), 1, 1, 2, variant="upper")
simple("diagonal_copy", f(4, 5, 3), -2, 0, -2, variant="lower")


@case("unsafe_split.Tensor")
def unsafe_split(d):
    return [t.clone() for t in aten.unsafe_split.Tensor(d.f(7, 3).clone(), 3, 0)]


@case("unsafe_split_with_sizes")
def unsafe_split_with_sizes(d):
    return [t.clone() for t in aten.unsafe_split_with_sizes.default(d.f(7, 3).clone(), [2, 5], 0)]


@case("transpose_")
def transpose_in_place(d):
    return aten.transpose_.default(d.f(3, 4).clone(), 0, 1).clone()


@case("as_strided_")
def as_strided_in_place(d):
    return aten.as_strided_.default(d.f(12).clone(), [3, 2], [4, 1], 1).clone()


@case("_to_copy", "layout")
def to_dtype_layout(d):
    return aten.to.dtype_layout(d.f(3, 4), dtype=torch.float64)
