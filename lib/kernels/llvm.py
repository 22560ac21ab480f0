"""What needs LLVM's own instructions: a fused multiply-add, and dot products of eight trials in SIMD registers.

Microseconds a step and trial with these two, in plain numba with every loop over lanes unrolled, and in plain loops:

=========================== ===== ======== =====
n = 4, T = 6, d = 10        these unrolled plain
=========================== ===== ======== =====
prompt, p = 2                 .45      1.3   1.5
prompt, p = 1.75              .80      2.0   2.2
matrix W, p = 2              1.25      4.4   5.7
joint                         .84      3.0     -
=========================== ===== ======== =====
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8  # trials that are computed side by side, the last dimension of arrays


@intrinsic
def fused(_, factor, other, term):
    """factor * other + term, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(factor, other, term), generate


def vectors(context, builder, signature, arguments, k):
    """A pointer to the numbers of argument k, an array, by LANES."""
    array = context.make_array(signature.args[k])(context, builder, arguments[k])
    return builder.bitcast(array.data, ir.VectorType(ir.DoubleType(), LANES).as_pointer())


@intrinsic
def add_multiple(_, out, place, factor, rows, row):
    """out[place] += factor rows[row]; an item is LANES numbers, and a product is rounded before it is added."""

    def generate(context, builder, signature, arguments):
        width, lane = ir.VectorType(ir.DoubleType(), LANES), ir.IntType(32)
        target, source = (
            builder.gep(vectors(context, builder, signature, arguments, k), [arguments[k + 1]]) for k in (0, 3)
        )
        first = builder.insert_element(ir.Constant(width, ir.Undefined), arguments[2], lane(0))
        factors = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(lane, LANES), LANES * [0]))
        product = builder.fmul(factors, builder.load(source, align=8))
        builder.store(builder.fadd(builder.load(target, align=8), product), target, align=8)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.float64, rows, types.int64), generate


@intrinsic
def add_dot(_, out, place, rows, row, row_step, others, other, other_step, count):
    """out[place] += sum_k rows[row + k row_step] others[other + k other_step] for k < count; an item is LANES numbers.

    The sum stays in registers. Arrays and places, not views of arrays, whose references numba would count.
    """

    def generate(context, builder, signature, arguments):
        width = ir.VectorType(ir.DoubleType(), LANES)
        multiply_add = builder.module.declare_intrinsic(
            f"llvm.fma.v{LANES}f64", (), ir.FunctionType(width, 3 * [width])
        )
        values = arguments
        data = [vectors(context, builder, signature, values, k) for k in (0, 2, 5)]
        total = cgutils.alloca_once_value(builder, builder.load(target := builder.gep(data[0], [values[1]]), align=8))
        with cgutils.for_range(builder, values[8]) as loop:
            at = [builder.add(values[k], builder.mul(loop.index, values[k + 1])) for k in (3, 6)]
            items = [builder.load(builder.gep(one, [place]), align=8) for one, place in zip(data[1:], at, strict=True)]
            builder.store(builder.call(multiply_add, [*items, builder.load(total)]), total)
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, whole, rows, whole, whole, others, whole, whole, whole), generate
