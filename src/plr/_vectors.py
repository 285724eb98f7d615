"""Vector registers for kernels: a few numbers side by side, on which each operation is one instruction.

The compiler turns long plain loops into vector code by itself, but not short ones, such as those over a row's
candidates, and it never keeps a tile of sums in registers across an inner loop. Kernels for which that matters say it
here: a vector is loaded from an array, takes ``+ - * /`` with other vectors, and is stored or added up. It holds as
many numbers as a register of this machine does (`_registers.py`), sixteen float32 or eight float64 at most, four or two
at least.

Each function comes in the form Numba wants: given the types of its arguments it returns its own type and a function
that writes the instructions. Indices are not checked, and do not count from the end.

The formula takes a row's candidates a vector at a time, with an exponential of its
own; the network keeps tiles of four units in registers on blocks of 256 rows, feature-major
(`plr.network.layers`).

A vector is as wide as the widest registers that Numba compiles for: 64 bytes with AVX-512, 32 with AVX, otherwise 16
(SSE2, NEON). ``PLR_VECTOR_BYTES`` sets it to 64, 32 or 16, not to more than the machine has; each width has a cache of
its own, and Numba's cache tells processors apart. Tests marked ``kernel`` also run under all widths below the machine's
own (``tests/test_vector_widths.py``), 16 bytes with ``NUMBA_CPU_NAME=generic``, so compiled for any x86-64. Between
widths and processors fits agree up to rounding, not to the bit: sums are added in another order, and a product is fused
with the sum it goes into only where there is an instruction for it. A new kernel takes its step from `DOUBLES` or
`lanes_of`, never from a number, and gets a marked test.

On ARM (aarch64: Linux and macOS, for which Numba and LightGBM have wheels) vectors are NEON's 16 bytes; SVE is not
used. The code for 16 bytes is plain LLVM and names no x86 instruction, so it is expected to be right there. Products
may be fused with sums, as on x86 with FMA. Denormal numbers keep their value on both. Part of a vector is read and
written lane by lane, as with SSE2, so short rows gain less. None of this has been tried: the tests have run on x86-64
alone, with and without AVX-512. Recorded figures and speeds are of x86; the tests' tolerances are not to the bit of one
machine.
"""

# ruff: noqa: ARG001, ARG002 -- Numba looks at the names of arguments that only the instructions use.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.datamodel import PrimitiveModel, register_default
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic
from numpy.typing import NDArray

from plr._jit import inlined
from plr._registers import VECTOR_BYTES

__all__ = [
    "BYTES",
    "DOUBLES",
    "Vector",
    "add_sums",
    "at_least",
    "choose_above",
    "choose_equal",
    "exponential",
    "first_lanes",
    "highest",
    "lane",
    "lanes_of",
    "load",
    "load_some",
    "magnitude",
    "repeat",
    "root",
    "round_off",
    "splat",
    "store",
    "store_some",
    "times_power_of_two",
    "total",
]

BYTES = VECTOR_BYTES
DOUBLES = BYTES // 8
"""How many float64 a vector holds."""

Vector = Any

# A product may be fused with the sum it goes into, and a sign of zero lost; NaN and infinity keep their meaning.
_FLAGS = ("contract", "nsz")
_ONE_OVER_LN2 = 1.4426950408889634
# ln 2 in two parts, the first so short that its product with a small integer is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# The exponential of less is not a normal number.
_LOWEST_EXPONENT = -708.0
_INDEX = ir.IntType(32)
_LONG = ir.IntType(64)


class VectorType(types.Type):
    """Numba's type of a vector of float32 or float64."""

    def __init__(self, element: types.Float) -> None:
        self.element = element
        self.lanes = 8 * BYTES // element.bitwidth
        super().__init__(name=f"Vector({element}, {self.lanes})")


@register_default(VectorType)
class _VectorModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        element = ir.FloatType() if kind.element.bitwidth == 32 else ir.DoubleType()
        super().__init__(manager, kind, ir.VectorType(element, kind.lanes))


def _support(symbol: Callable[..., Any], instruction: str) -> None:
    """Let two vectors of one type be joined by an operator."""

    @infer_global(symbol)
    class _Join(AbstractTemplate):
        def generic(self, arguments: tuple[Any, ...], keywords: Any) -> Any:
            if len(arguments) == 2 and isinstance(arguments[0], VectorType) and arguments[0] == arguments[1]:
                return arguments[0](*arguments)
            return None

    @lower_builtin(symbol, VectorType, VectorType)
    def _lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=_FLAGS)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _support(_symbol, _instruction)


def _constant(kind: ir.VectorType, number: object) -> ir.Constant:
    return ir.Constant(kind, [number] * kind.count)


def _spread(builder: Any, kind: ir.VectorType, number: Any) -> Any:
    """Return a vector with the number in every lane."""
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _INDEX(0))
    return builder.shuffle_vector(single, single, _constant(ir.VectorType(_INDEX, kind.count), 0))


def _call(builder: Any, name: str, kind: Any, arguments: list[Any], result: Any = None) -> Any:
    """Call one of LLVM's own functions."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(result or kind, [a.type for a in arguments]), name
    )
    return builder.call(function, arguments, fastmath=() if isinstance(kind, ir.VoidType) else _FLAGS)


def _suffix(kind: ir.VectorType) -> str:
    return f"v{kind.count}f{32 if isinstance(kind.element, ir.FloatType) else 64}"


def _address(context: Any, builder: Any, array: Any, arguments: Any, kind: Any) -> Any:
    """Return where a function's first two arguments, an array and a place in it, point to."""
    if array.layout != "C" or array.ndim != 1:
        raise TypingError("A vector is loaded from, or stored to, a flat array whose entries lie side by side.")
    data = context.make_array(array)(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), kind.as_pointer())


@intrinsic
def splat(typing: Any, number: Any) -> Any:
    """Return a vector with ``number`` in every lane."""
    vector = VectorType(number)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(builder, context.get_value_type(vector), arguments[0])

    return vector(number), generate


@intrinsic
def repeat(typing: Any, array: Any, at: Any) -> Any:
    """Return a vector with the number at place ``at`` of an array in every lane."""
    vector = VectorType(array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(vector)
        return _spread(builder, kind, builder.load(_address(context, builder, array, arguments, kind.element)))

    return vector(array, types.int64), generate


@intrinsic
def lanes_of(typing: Any, array: Any) -> Any:
    """Return how many of the array's numbers a vector holds."""
    lanes = VectorType(array.dtype).lanes

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _LONG(lanes)

    return types.int64(array), generate


@intrinsic
def load(typing: Any, array: Any, at: Any) -> Any:
    """Return the vector of the numbers from place ``at`` of an array on; all of them must be inside."""
    vector = VectorType(array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(vector)
        place = _address(context, builder, array, arguments, kind)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return vector(array, types.int64), generate


@intrinsic
def store(typing: Any, array: Any, at: Any, values: Any) -> Any:
    """Write a vector into an array from place ``at`` on; all of it must be inside."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(values)
        place = _address(context, builder, array, arguments, kind)
        builder.store(arguments[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, values), generate


@intrinsic
def lane(typing: Any, values: Any) -> Any:
    """Return the first of a vector's numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], _INDEX(0))

    return values.element(values), generate


def _first(builder: Any, count: Any, lanes: int) -> Any:
    """Return which lanes are among the first ``count``."""
    kind = ir.VectorType(_LONG, lanes)
    return builder.icmp_signed("<", ir.Constant(kind, [_LONG(k) for k in range(lanes)]), _spread(builder, kind, count))


@intrinsic
def load_some(typing: Any, array: Any, at: Any, end: Any, other: Any) -> Any:
    """Return the numbers of an array from ``at`` up to ``end``, as far as a vector goes, and ``other`` behind them."""
    vector = VectorType(array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(vector)
        inside = _first(builder, builder.sub(arguments[2], arguments[1]), vector.lanes)
        place = _address(context, builder, array, arguments, kind)
        others = _spread(builder, kind, arguments[3])
        name = f"llvm.masked.load.{_suffix(kind)}.p0"
        return _call(builder, name, kind, [place, _INDEX(array.dtype.bitwidth // 8), inside, others])

    return vector(array, types.int64, types.int64, array.dtype), generate


@intrinsic
def _store_first(typing: Any, array: Any, at: Any, end: Any, values: Any) -> Any:
    """Write a vector into an array from ``at`` up to ``end``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(values)
        inside = _first(builder, builder.sub(arguments[2], arguments[1]), values.lanes)
        place = _address(context, builder, array, arguments, kind)
        name = f"llvm.masked.store.{_suffix(kind)}.p0"
        _call(builder, name, ir.VoidType(), [arguments[3], place, _INDEX(array.dtype.bitwidth // 8), inside])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, values), generate


@intrinsic
def first_lanes(typing: Any, count: Any, values: Any, others: Any) -> Any:
    """Return ``values`` in the first ``count`` lanes and ``others`` after them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(_first(builder, arguments[0], values.lanes), arguments[1], arguments[2])

    return values(types.int64, values, values), generate


def _chooser(relation: str) -> Callable[..., Any]:
    def choose(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.select(builder.fcmp_ordered(relation, *arguments[:2]), *arguments[2:])

        return a(a, a, a, a), generate

    return choose


choose_equal = intrinsic(_chooser("=="))
"""``choose_equal(a, b, yes, no)``: lane by lane ``yes`` where a equals b, else ``no``."""
choose_above = intrinsic(_chooser(">"))
"""``choose_above(a, b, yes, no)``: lane by lane ``yes`` where a is above b, else ``no``, also for NaN."""


def _unary(name: str) -> Callable[..., Any]:
    def apply(typing: Any, values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = context.get_value_type(values)
            return _call(builder, f"llvm.{name}.{_suffix(kind)}", kind, list(arguments))

        return values(values), generate

    return apply


magnitude = intrinsic(_unary("fabs"))
root = intrinsic(_unary("sqrt"))
round_off = intrinsic(_unary("rint"))


def _pick(builder: Any, a: Any, b: Any, lanes: range) -> Any:
    """Return some lanes of two vectors side by side."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INDEX, len(lanes)), [_INDEX(k) for k in lanes]))


def _half(builder: Any, values: Any, count: int, join: Callable[[Any, Any], Any]) -> Any:
    """Join the two halves of a vector, and theirs, until one number is left."""
    while count > 1:
        count //= 2
        parts = (range(count), range(count, 2 * count))
        values = join(*(_pick(builder, values, values, part) for part in parts))
    return builder.extract_element(values, _INDEX(0))


@intrinsic
def total(typing: Any, values: Any) -> Any:
    """Return the sum of a vector's numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _half(builder, arguments[0], values.lanes, lambda a, b: builder.fadd(a, b, flags=_FLAGS))

    return values.element(values), generate


@intrinsic
def highest(typing: Any, values: Any) -> Any:
    """Return the largest of a vector's numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def join(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        return _half(builder, arguments[0], values.lanes, join)

    return values.element(values), generate


@intrinsic
def add_sums(typing: Any, array: Any, at: Any, a: Any, b: Any, c: Any, d: Any, skip: Any) -> Any:
    """Add the sums of four vectors to four neighbours in an array, but for the first ``skip`` of them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def neighbours(x: Any, y: Any, lanes: int) -> Any:
            even, odd = (_pick(builder, x, y, range(first, lanes, 2)) for first in (0, 1))
            return builder.fadd(even, odd, flags=_FLAGS)

        # Adding neighbours, first of two vectors into one, sums four vectors in fewer steps than one after the other.
        lanes = a.lanes
        left = neighbours(arguments[2], arguments[3], 2 * lanes)
        right = neighbours(arguments[4], arguments[5], 2 * lanes)
        # Two lanes each hold the sums already; of more, neighbours are left to add.
        sums = _pick(builder, left, right, range(4)) if lanes == 2 else neighbours(left, right, 2 * lanes)
        while lanes > 4:
            sums = neighbours(sums, sums, lanes)
            lanes //= 2
        kind = ir.VectorType(context.get_value_type(a.element), 4)
        place = _address(context, builder, array, arguments, kind)
        whole = ir.VectorType(_LONG, 4)
        wanted = builder.icmp_signed(
            ">=", ir.Constant(whole, [_LONG(k) for k in range(4)]), _spread(builder, whole, arguments[6])
        )
        sums = builder.select(wanted, sums, _constant(kind, 0.0))
        align = array.dtype.bitwidth // 8
        builder.store(builder.fadd(builder.load(place, align=align), sums), place, align=align)
        return context.get_dummy_value()

    return types.void(array, types.int64, a, a, a, a, types.int64), generate


@intrinsic
def times_power_of_two(typing: Any, values: Any, exponent: Any) -> Any:
    """Multiply float64 by two to a whole exponent, which must stay within what a normal number can have."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(values)
        whole = ir.VectorType(_LONG, values.lanes)
        # Added to this number, an integer appears in the lowest bits; from there it moves to where the exponent stands.
        shifted = builder.fadd(arguments[1], _constant(kind, 1.5 * 2.0**52 + 1023.0))
        bits = builder.shl(builder.bitcast(shifted, whole), _constant(whole, 52))
        return builder.fmul(arguments[0], builder.bitcast(bits, kind), flags=_FLAGS)

    return values(values, values), generate


@inlined
def store_some(array: NDArray[Any], at: int, end: int, values: Vector) -> None:
    """Write a vector from ``at`` on; up to ``end`` at least, and beyond it wherever the array goes on.

    What is written in part cannot be read again at once, so whole vectors are written where there is room.
    """
    if at + lanes_of(array) <= array.size:
        store(array, at, values)
    else:
        _store_first(array, at, end, values)


@inlined
def at_least(values: Vector, floor: Vector) -> Vector:
    """Raise what is below ``floor`` to it; what is no number stays none."""
    return choose_above(floor, values, floor, values)


@inlined
def exponential(x: Vector) -> Vector:
    """Return e to the power of float64 that are at most 0, to 1e-15, and 0 below -708."""
    bounded = at_least(x, splat(_LOWEST_EXPONENT))
    exponent = round_off(bounded * splat(_ONE_OVER_LN2))
    r = bounded - exponent * splat(_LN2_HIGH) - exponent * splat(_LN2_LOW)
    # The series to the twelfth power: |r| is at most ln 2 / 2, so what is left out is below 2e-16.
    p = splat(1.0 / 479001600.0)
    p = p * r + splat(1.0 / 39916800.0)
    p = p * r + splat(1.0 / 3628800.0)
    p = p * r + splat(1.0 / 362880.0)
    p = p * r + splat(1.0 / 40320.0)
    p = p * r + splat(1.0 / 5040.0)
    p = p * r + splat(1.0 / 720.0)
    p = p * r + splat(1.0 / 120.0)
    p = p * r + splat(1.0 / 24.0)
    p = p * r + splat(1.0 / 6.0)
    p = p * r + splat(0.5)
    p = p * r + splat(1.0)
    p = p * r + splat(1.0)
    return choose_above(splat(_LOWEST_EXPONENT), x, splat(0.0), times_power_of_two(p, exponent))
