"""Cases of batch norm in the flavours that run on a CPU."""

from case_support import BF16, F32, F64, aten, case


def operands(d, dtype=F32, size=(4, 3, 2, 5)):
    x = d.f(*size, dtype=dtype)
    weight, bias, mean = (d.f(3, dtype=dtype) for _ in range(3))
    return x, weight, bias, mean.clone(), d.keep(lambda: mean.abs() + 0.5).clone()


for variant, dtype, size in (("f32", F32, (4, 3, 2, 5)), ("f64", F64, (6, 3)), ("3d", F32, (2, 3, 2, 2, 3))):
    @case("_native_batch_norm_legit.no_stats", variant)
    def no_stats(d, dtype=dtype, size=size):
        x, weight, bias, _, _ = operands(d, dtype, size)
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, 1e-5)

    @case("_native_batch_norm_legit_no_training", variant)
    def no_training(d, dtype=dtype, size=size):
        return aten._native_batch_norm_legit_no_training.default(*operands(d, dtype, size), 0.1, 1e-5)[:1]

    for training in (True, False):
        @case("_native_batch_norm_legit_functional", f"{variant} {training}")
        def functional(d, dtype=dtype, size=size, training=training):
            results = aten._native_batch_norm_legit_functional.default(*operands(d, dtype, size), training, 0.1, 1e-5)
            return [r for r in results if r.numel() > 0]

    @case("_batch_norm_with_update", variant)
    def with_update(d, dtype=dtype, size=size):
        x, weight, bias, mean, var = operands(d, dtype, size)
        return [*aten._batch_norm_with_update.default(x, weight, bias, mean, var, 0.1, 1e-5), mean, var]

    @case("_batch_norm_with_update_functional", variant)
    def with_update_functional(d, dtype=dtype, size=size):
        results = aten._batch_norm_with_update_functional.default(*operands(d, dtype, size), 0.1, 1e-5)
        return [*results[:3], *results[4:]]

    @case("_batch_norm_no_update", variant)
    def no_update(d, dtype=dtype, size=size):
        return aten._batch_norm_no_update.default(*operands(d, dtype, size), 0.1, 1e-5)[:1]

    for update in (True, False):
        @case("batch_norm_backward", f"{variant} {update}")
        def backward(d, dtype=dtype, size=size, update=update):
            x, weight, bias, mean, var = operands(d, dtype, size)
            g = d.f(*size, dtype=dtype)
            _, save_mean, save_scale, reserve = aten._batch_norm_with_update.default(
                x, weight, bias, mean, var, 0.1, 1e-5)
            return aten.batch_norm_backward.default(g, x, weight, mean, var, save_mean, save_scale, update, 1e-5,
                                                    [True, True, True], reserve)

    @case("batch_norm_update_stats", variant)
    def update_stats(d, dtype=dtype, size=size):
        x, _, _, mean, var = operands(d, dtype, size)
        return [*aten.batch_norm_update_stats.default(x, mean, var, 0.1), mean, var]


@case("native_batch_norm", "bf16")
def narrow(d):
    x, weight, bias, mean, var = operands(d, BF16)
    return aten.native_batch_norm.default(x, weight, bias, mean, var, True, 0.1, 1e-5)[:1]
