#!/usr/bin/env python3
"""Reference results of the elementwise functions, by mpmath, for tests/maths/test_maths.c.

    python3 -m venv venv && venv/bin/pip install mpmath gmpy2
    venv/bin/python tests/maths/reference.py tests/maths/maths.dat.gz            what the tree keeps
    venv/bin/python tests/maths/reference.py more.dat.gz --more=50 --seed=7      50 times as many random inputs

The file is gzip's, a sequence of records, each a line of text and raw little-endian numbers behind it:

    inputs TYPE ARGS N              N * ARGS numbers: inputs of all functions of TYPE with ARGS arguments
    function NAME | EXPRESSION | MODEL | TYPE ARGS N ALL SIGNS
                                    N * ARGS numbers more, for this one; then the results of all
                                    (ALL 0: of these); SIGNS 0: a zero has either sign

NAME is a row of docs/math.md, EXPRESSION the function in the language, MODEL its form in ONNX
(tests/graph/onnx_text.h) or empty. A result is the exact one rounded to TYPE, to nearest even. What the results of
special values are is written here, by `Special` and `zero`; mpmath has no -0, and knows little of infinities.
"""

import argparse
import gzip
import random
import struct
import sys
from fractions import Fraction

from mpmath import mp, mpf, inf, nan

mp.prec = 240

# name: (bits of the significand, least exponent, struct code, bytes)
TYPES = {
    "f32": (24, -149, "I", 4),
    "f64": (53, -1074, "Q", 8),
    "f16": (11, -24, "H", 2),
    "bf16": (8, -133, "H", 2),
}
TOP = {"f32": 128, "f64": 1024, "f16": 16, "bf16": 128}


# ---- numbers of a type as their bits ------------------------------------------------------------------


def width(t):
    return TYPES[t][3] * 8


def fraction_bits(t):
    return TYPES[t][0] - 1


def infinity(t):
    return ((1 << (width(t) - 1 - fraction_bits(t))) - 1) << fraction_bits(t)


def is_negative(t, bits):
    return bits >> (width(t) - 1) != 0


def value(t, bits):
    """The number: an mpf (0 without a sign), inf, -inf or nan."""
    sign, mag = (-1 if is_negative(t, bits) else 1), bits & ((1 << (width(t) - 1)) - 1)
    if mag >= infinity(t):
        return sign * inf if mag == infinity(t) else nan
    exponent, fraction = mag >> fraction_bits(t), mag & ((1 << fraction_bits(t)) - 1)
    if exponent:
        fraction |= 1 << fraction_bits(t)
        exponent -= 1
    return sign * mpf(fraction) * mpf(2) ** (exponent + TYPES[t][1])


def rounded(t, x, negative_zero=False):
    """The bits of x, to nearest even."""
    precision, least, _, _ = TYPES[t]
    top = 1 << (width(t) - 1)
    if mp.isnan(x):
        return infinity(t) | 1 << (fraction_bits(t) - 1)
    if x == 0:
        return top if negative_zero else 0
    sign = top if x < 0 else 0
    if mp.isinf(x):
        return sign | infinity(t)
    _, man, exp, bc = x._mpf_
    man = int(man)
    drop = max(least - exp, bc - precision)
    if drop > 0:
        if drop > bc + 1:
            return sign
        low, man = man & ((1 << drop) - 1), man >> drop
        half = 1 << (drop - 1)
        man += low > half or (low == half and man & 1)
        exp += drop
    else:
        take = min(-drop, precision - bc)
        man, exp = man << take, exp - take
    if man.bit_length() > precision:
        man, exp = man >> 1, exp + 1
    if man == 0:
        return sign
    if exp + man.bit_length() > TOP[t]:
        return sign | infinity(t)
    if man.bit_length() < precision:  # subnormal: exp is the least
        return sign | man
    return sign | (exp - least + 1) << fraction_bits(t) | man & ((1 << fraction_bits(t)) - 1)


def bits_of(t, x):
    """Of a Python number, rounded."""
    return rounded(t, mpf(x))


# ---- functions ------------------------------------------------------------------------------------------


def exp(x):
    return mp.exp(min(max(x, mpf(-100000)), mpf(100000))) if not mp.isinf(x) else (inf if x > 0 else mpf(0))


def expm1(x):
    return exp(x) - 1 if abs(x) > 1 else mp.expm1(x)


def log1p(x):
    return mp.log1p(x) if x < inf else inf


def sigmoid(x):
    return 1 / (1 + exp(-x))


def softplus(x):
    return max(x, mpf(0)) + log1p(exp(-abs(x)))


def real(f, low=-inf, high=inf):
    """f inside its domain, NaN elsewhere."""
    return lambda x: f(x) if low <= x <= high else nan


def finite(f, at_minus=nan, at_plus=nan):
    """f of finite numbers, and what it is at the infinities."""
    return lambda x: f(x) if not mp.isinf(x) else mpf(at_plus if x > 0 else at_minus)


def log(x, base=mp.log):
    return nan if x < 0 else -inf if x == 0 else inf if x == inf else base(x)


def erfc_half(x):  # erfc(-x / sqrt(2)) / 2
    return mp.erfc(-x / mp.sqrt(2)) / 2 if x > -500 else mpf(0)


def density(x):
    return exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def gelu_tanh(x):
    u = mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)
    return x * sigmoid(2 * u)


def gelu_tanh_derivative(x):
    c = mp.sqrt(2 / mp.pi)
    u, du = 2 * c * (x + mpf("0.044715") * x**3), 2 * c * (1 + 3 * mpf("0.044715") * x * x)
    return sigmoid(u) + x * du * sigmoid(u) * sigmoid(-u)


def mish(x):
    e = exp(x)
    return x * (e * (e + 2) / (e * (e + 2) + 2) if x < 1000 else 1)


def mish_derivative(x):
    if x > 1000:
        return mpf(1)
    e = exp(x)
    d = e * (e + 2) + 2
    return e * (e + 2) / d + x * 4 * e * (e + 1) / (d * d)


def silu_derivative(x):
    return sigmoid(x) * (1 + x * sigmoid(-x))


def nearest_even(x):
    return mp.nint(x) if not mp.isinf(x) else x


def clamp(x, low, high):
    return min(max(x, mpf(low)), mpf(high))


def sign(x):
    return mpf(0) if x == 0 else mpf(1) if x > 0 else mpf(-1)


ALPHA, GAMMA = mpf("1.6732632423543772"), mpf("1.0507009873554805")


class Special(Exception):
    """A result with its sign of zero."""

    def __init__(self, x, negative=False):
        self.x, self.negative = x, negative


def odd_whole(y):
    return not mp.isinf(y) and y == mp.floor(y) and mp.floor(y / 2) * 2 != y


def power(x, y, nx, ny):  # C's pow
    if y == 0 or x == 1:
        return mpf(1)
    if mp.isnan(x) or mp.isnan(y):
        return nan
    if mp.isinf(y):
        if abs(x) == 1:
            return mpf(1)
        return inf if (abs(x) > 1) == (y > 0) else mpf(0)
    odd = odd_whole(y)
    if x == 0 or mp.isinf(x):
        large = (x == 0) == (y < 0)
        raise Special((-inf if nx and odd else inf) if large else mpf(0), nx and odd)
    if x < 0 and y != mp.floor(y):
        return nan
    scale = y * mp.log(abs(x), 2)
    m = mpf(2) ** (3000 if scale > 3000 else -3000) if abs(scale) > 3000 else mp.power(abs(x), y)
    return -m if x < 0 and odd else m


def exact_remainder(x, y):
    def ratio(v):
        s, man, e, _ = v._mpf_
        return Fraction(-int(man) if s else int(man)) * Fraction(2) ** e

    a, b = abs(ratio(x)), abs(ratio(y))
    r = a % b
    return mpf(r.numerator) / mpf(r.denominator)


def fmod(x, y, nx, ny):
    if mp.isnan(x) or mp.isnan(y) or mp.isinf(x) or y == 0:
        return nan
    if mp.isinf(y) or x == 0:
        raise Special(x, nx)
    r = exact_remainder(x, y)
    raise Special(-r if nx else r, nx)


def mod_floor(x, y, nx, ny):
    if mp.isnan(x) or mp.isnan(y) or mp.isinf(x) or y == 0:
        return nan
    if mp.isinf(y):
        if x == 0:
            raise Special(x, ny)
        return x if nx == ny else y
    r = exact_remainder(x, y) if x != 0 else mpf(0)
    if r == 0:
        raise Special(r, ny)
    r = -r if nx else r
    return r if nx == ny else r + y


def atan2(y, x, ny, nx):
    if mp.isnan(x) or mp.isnan(y):
        return nan
    s = -1 if ny else 1
    if mp.isinf(x) and mp.isinf(y):
        return s * mp.pi / 4 * (1 if x > 0 else 3)
    if mp.isinf(y):
        return s * mp.pi / 2
    if y == 0 or mp.isinf(x):
        if not nx:
            raise Special(mpf(0), ny)
        return s * mp.pi
    return s * mp.pi / 2 if x == 0 else mp.atan2(y, x)


def quotient(x, y, nx, ny):
    if mp.isnan(x) or mp.isnan(y) or (x == 0 and y == 0) or (mp.isinf(x) and mp.isinf(y)):
        return nan
    if x == 0 or mp.isinf(y):
        raise Special(mpf(0), nx != ny)
    if y == 0 or mp.isinf(x):
        return -inf if nx != ny else inf
    return x / y


def zero_of(negative):
    raise Special(mpf(0), negative)


def extreme(greater):
    def f(x, y, nx, ny):
        if mp.isnan(x) or mp.isnan(y):
            return nan
        if x == y:
            raise Special(x, (nx and ny) if greater else (nx or ny))
        first = (x > y) == greater
        raise Special(x if first else y, nx if first else ny)

    return f


# ---- the list ---------------------------------------------------------------------------------------------


class Row:
    """alone: without the inputs of all functions.  signs: whether a zero's sign counts.
    zero: the sign of a zero result: 'x': that of x (odd functions), '+', or '-'.  near: where branches meet.
    inside: (low, high) from which more inputs are drawn, at all distances from both ends."""

    def __init__(
        self,
        expression,
        f,
        model="",
        args=1,
        zero="+",
        near=(),
        inside=None,
        types="f32 f64 f16 bf16",
        of_nan=nan,
        signs=True,
        alone=False,
    ):
        self.expression, self.f, self.model, self.args = expression, f, model, args
        self.zero, self.near, self.inside, self.types = zero, near, inside, types.split()
        self.alone = alone
        self.signs, self.of_nan, self.name, self.power, self.at_zero = (
            signs,
            of_nan,
            expression or model,
            None,
            False,
        )

    def result(self, t, bits):
        negative = [is_negative(t, b) for b in bits]
        try:
            x = [value(t, b) for b in bits]
            if self.args > 1:
                return rounded(t, mpf(self.f(*x, *negative)))
            if mp.isnan(x[0]):
                return rounded(t, mpf(self.of_nan))
            return rounded(t, mpf(self.f(x[0])), negative[0] if self.zero == "x" else self.zero == "-")
        except Special as s:
            return rounded(t, s.x, s.negative)


def rows():
    pi, ln2 = float(mp.pi), float(mp.log(2))
    one = (-1.0, 1.0)
    r = []

    def add(*a, **k):
        r.append(Row(*a, **k))

    # the language's own
    add(
        "exp(x)",
        exp,
        "Exp",
        near=(88.7228391, -87.3365448, -103.972084, 709.782712893384, -745.13, -708.4, 11.09, -17.33),
    )
    add(
        "exp2(x)",
        lambda x: exp(x * mp.log(2)) if not mp.isinf(x) else exp(x),
        near=(128, -126, -149, -150, 1024, -1022, -1074, -1075, 16, -24),
    )
    add("log(x)", log, "Log", near=(2 / 3, 4 / 3, 1.4142135623730951, 0.7071067811865476), inside=(0, 2))
    add(
        "log2(x)",
        lambda x: log(x, lambda v: mp.log(v, 2)),
        near=(2 / 3, 4 / 3, 1.4142135623730951),
        inside=(0, 2),
    )
    add("sqrt(x)", real(lambda x: mp.sqrt(x), 0), "Sqrt", zero="x", near=(4,))
    add(
        "rsqrt(x)",
        lambda x: nan if x < 0 else inf if x == 0 else mpf(0) if x == inf else 1 / mp.sqrt(x),
        near=(4,),
    )
    r[-1].at_zero = True
    add("sin(x)", finite(mp.sin), "Sin", zero="x", near=(pi, pi / 2, 2 * pi, 2.0**18, 2.0**30, 1e22))
    add("cos(x)", finite(mp.cos), "Cos", near=(pi, pi / 2, 2 * pi, 2.0**18, 2.0**30, 1e22))
    add("tanh(x)", finite(mp.tanh, -1, 1), "Tanh", zero="x", near=(0.59, 0.6, 9.01, 19.06))
    add("erf(x)", finite(mp.erf, -1, 1), "Erf", zero="x", near=(0.85, 1, 3.92, 4, 6))
    add(
        "floor(x)",
        lambda x: x if mp.isinf(x) else mp.floor(x),
        "Floor",
        zero="x",
        near=(0.5, 1.5, 2.0**23, 2.0**52),
    )
    add(
        "ceil(x)",
        lambda x: x if mp.isinf(x) else mp.ceil(x),
        "Ceil",
        zero="x",
        near=(0.5, 1.5, 2.0**23, 2.0**52),
    )
    add(
        "round(x)",
        nearest_even,
        "Round",
        zero="x",
        near=(0.5, 1.5, 2.5, 2.0**22 + 0.5, 2.0**23, 2.0**51 + 0.5, 2.0**52),
    )
    add(
        "trunc(x)",
        lambda x: x if mp.isinf(x) else mp.floor(x) if x > 0 else mp.ceil(x),
        zero="x",
        near=(0.5, 1.5, 2.0**23, 2.0**52),
    )
    add("abs(x)", abs, "Abs")
    add("sqrt_rn(x)", real(lambda x: mp.sqrt(x), 0), zero="x")
    add(
        "1 / x",
        lambda x: mpf(0) if mp.isinf(x) else 1 / x,
        "Reciprocal",
        zero="x",
        near=(2.0**126, 2.0**-126, 2.0**127),
    )
    r[-1].at_zero = True
    # the prelude
    add("sigmoid(x)", sigmoid, "Sigmoid", near=(87.3, -87.3, -88.7, -103.9, -709.8, -745.2))
    add(
        "silu(x)",
        finite(lambda x: x * sigmoid(x), nan, inf),
        "Swish opset=24",
        zero="x",
        near=(-88.7, -103.9, -709.8),
    )
    add("relu(x)", lambda x: max(x, mpf(0)), "Relu")
    add("square(x)", lambda x: x * x, near=(2.0**64, 2.0**-75))
    add(
        "log1p(x)",
        real(lambda x: -inf if x == -1 else log1p(x), -1),
        zero="x",
        near=(2.0**-24, -0.5, 2.0**-53, 2.0**24),
        inside=(-1, 1),
    )
    add("expm1(x)", expm1, zero="x", near=(0.5, -0.5, 88.7, 709.78, 2.0**-24, 2.0**-53, -17.4, -37))
    add("softplus(x)", softplus, "Softplus", near=(-20, 20, -88, -104, -709, -745, 17, 37))
    add(
        "gelu(x)",
        finite(lambda x: x * erfc_half(x), 0, inf),
        "Gelu opset=20",
        signs=False,
        near=(-1, 1, -5, -13, -14, -16, 16, -37, -38.5),
    )
    add(
        "gelu_tanh(x)",
        finite(gelu_tanh, nan, inf),
        'Gelu approximate="tanh" opset=20',
        zero="x",
        near=(-1, 1, -5, -10, -10.5, 10, -21.9),
    )
    add("sign(x)", sign, of_nan=0)
    add(
        "elu(x, 0.5)",
        lambda x: x if x > 0 else expm1(x) / 2,
        "Elu alpha=0.5",
        zero="x",
        near=(-0.5, -17, -37),
    )
    add("leaky_relu(x, 0.25)", lambda x: x if x > 0 else x / 4, "LeakyRelu alpha=0.25", zero="x")
    add("clamp(x, -2, 3)", lambda x: clamp(x, -2, 3), zero="x", near=(-2, 3))
    # std/activation
    add("relu6(x)", lambda x: clamp(x, 0, 6), near=(6,))
    add("hard_sigmoid(x)", lambda x: clamp(x / 6 + mpf(0.5), 0, 1), near=(3, -3))
    add(
        "hard_sigmoid(x, 0.25, 0.5)",
        lambda x: clamp(x / 4 + mpf(0.5), 0, 1),
        "HardSigmoid alpha=0.25",
        near=(2, -2),
    )
    add(
        "hard_swish(x)",
        finite(lambda x: x * clamp(x / 6 + mpf(0.5), 0, 1), nan, inf),
        "HardSwish opset=14",
        zero="x",
        near=(3, -3),
    )
    add("thresholded_relu(x, 0.5)", lambda x: x if x > 0.5 else mpf(0), near=(0.5,))
    add("", lambda x: x if x > 0.5 else mpf(0), "ThresholdedRelu alpha=0.5", near=(0.5,), of_nan=0)
    add("prelu(x, 0.25)", lambda x: x if x > 0 else x / 4, zero="x")
    add("selu(x)", lambda x: GAMMA * (x if x > 0 else ALPHA * expm1(x)), zero="x", near=(-0.5, -17, -37))
    add(
        "",
        lambda x: mpf(1.05070102214813232421875)
        * (x if x > 0 else mpf(1.67326319217681884765625) * expm1(x)),
        "Selu",
        zero="x",
        near=(-0.5, -17),
    )
    add(
        "celu(x, 0.5)",
        lambda x: x if x > 0 else expm1(2 * x) / 2,
        "Celu alpha=0.5 opset=12",
        zero="x",
        near=(-0.25, -9, -18),
    )
    add("mish(x)", finite(mish, nan, inf), "Mish opset=18", zero="x", near=(20, -20, -88, -104, -709))
    add(
        "quick_gelu(x)",
        finite(lambda x: x * sigmoid(mpf("1.702") * x), nan, inf),
        zero="x",
        near=(-51, -61, -417, -437),
    )
    add("softsign(x)", finite(lambda x: x / (1 + abs(x)), -1, 1), "Softsign", zero="x")
    add("log_sigmoid(x)", lambda x: -softplus(-x), zero="-", near=(-20, 20, 88, 104, 709, 745))
    add(
        "tanh_shrink(x)",
        finite(lambda x: x - mp.tanh(x) if abs(x) > 1e-20 else x**3 / 3, -inf, inf),
        zero="x",
        near=(0.59, 0.6, 2.0**-6),
    )
    for name, f in (
        ("soft", lambda x: x - sign(x) / 2 if abs(x) > 0.5 else mpf(0)),
        ("hard", lambda x: x if abs(x) > 0.5 else mpf(0)),
    ):
        add(f"{name}_shrink(x, 0.5)", f, near=(0.5, -0.5))
        add("", f, "Shrink lambd=0.5" + (" bias=0.5" if name == "soft" else ""), near=(0.5, -0.5), of_nan=0)
    # std/activation_backward
    add("sigmoid_derivative(x)", lambda x: sigmoid(x) * sigmoid(-x), near=(87.3, 103.9, 709.8))
    add("tanh_derivative(x)", lambda x: 4 * sigmoid(2 * x) * sigmoid(-2 * x), near=(43, 45, 52))
    add("silu_derivative(x)", finite(silu_derivative), near=(-1.2784645, -88, -104, 88), zero="-")
    add(
        "gelu_derivative(x)",
        finite(lambda x: erfc_half(x) + x * density(x), 0, 1),
        near=(-0.7517916, -5, -13, 16, -38),
        signs=False,
    )
    add(
        "gelu_tanh_derivative(x)",
        finite(gelu_tanh_derivative, 0, 1),
        near=(-0.7524614, -5, -10, 10),
        signs=False,
        zero="-",
    )
    add(
        "mish_derivative(x)",
        finite(mish_derivative, nan, 1),
        near=(-1.1924, 20, -88, -104),
        signs=False,
        zero="-",
    )
    add("elu_derivative(x, 0.5)", lambda x: mpf(1) if x > 0 else exp(x) / 2, near=(-88, -104))
    # std/elementary
    add("tan(x)", finite(mp.tan), "Tan", zero="x", near=(pi / 2, pi, pi / 4, 2.0**18, 2.0**30))
    add(
        "atan(x)",
        lambda x: sign(x) * mp.pi / 2 if mp.isinf(x) else mp.atan(x),
        "Atan",
        zero="x",
        near=(2.414213562373095, 0.414213562373095),
    )
    add("asin(x)", real(mp.asin, -1, 1), "Asin", zero="x", near=(0.5, -0.5, 0.70710678), inside=one)
    add("acos(x)", real(mp.acos, -1, 1), "Acos", near=(0.5, -0.5, 0.70710678), inside=one)
    add(
        "sinh(x)",
        lambda x: x if mp.isinf(x) else mp.sinh(x) if abs(x) < 100000 else sign(x) * exp(abs(x)),
        "Sinh",
        zero="x",
        near=(0.5, 20, 88.7, 89.4159851, 709.78, 710.4758600739439),
    )
    add(
        "cosh(x)",
        lambda x: abs(x) if mp.isinf(x) else mp.cosh(x) if abs(x) < 100000 else exp(abs(x)),
        "Cosh",
        near=(88.7, 89.4159851, 709.78, 710.4758600739439, 44.5),
    )
    add(
        "asinh(x)",
        lambda x: x if mp.isinf(x) else mp.asinh(x),
        "Asinh",
        zero="x",
        near=(1.8446744e19, 1.3407807929942596e154, 0.5, 2.0**-12),
    )
    add(
        "acosh(x)",
        lambda x: nan if x < 1 else x if mp.isinf(x) else mp.acosh(x),
        "Acosh",
        near=(1.8446744e19, 1.3407807929942596e154, 2, 1.5),
        inside=(1, 2),
    )
    add(
        "atanh(x)",
        lambda x: sign(x) * inf if abs(x) == 1 else nan if abs(x) > 1 else mp.atanh(x),
        "Atanh",
        zero="x",
        near=(0.5,),
        inside=one,
    )
    add("sign_of(x)", sign, "Sign", zero="x")
    for c in (2, 3, 4, 7, -1, -2, -3, -4, 0.5, 64, -101, 2.0**31, 0.25):
        t = str(int(c)) if c == int(c) else str(c)
        add(
            f"pow(x, {t})", None, f"Pow {t}.0" if c == int(c) else f"Pow {t}", near=(-1, 2.0), types="f32 f64"
        )
        r[-1].power, r[-1].name = c, "pow(x, number)"
    for c in (0, 1, 4, 7, -3):
        add(f"power_of<N = {c}>(x)", None, types="f32 bf16")
        r[-1].power, r[-1].name = c, "power_of<N>(x)"
    add("power_half(x)", None, types="f64 f16")
    r[-1].power = 0.5
    # of two arguments
    two = dict(args=2)
    add("x / y", quotient, "Div", **two)
    add("div_rn(x, y)", quotient, types="f32 f64", **two)
    add("min(x, y)", extreme(False), "Min", types="f32 f64 f16", **two)
    add("max(x, y)", extreme(True), "Max", types="f32 f64 bf16", **two)
    add(
        "copysign(x, y)",
        lambda x, y, nx, ny: (
            nan if mp.isnan(x) else mp.mpf(abs(x)) * (-1 if ny else 1) if x != 0 else zero_of(ny)
        ),
        **two,
    )
    add("atan2(x, y)", atan2, **two)
    add("pow(x, y)", power, "Pow", **two)
    add("power(x, y)", power, types="f32", alone=True, **two)
    add("fmod(x, y)", fmod, "Mod fmod=1", **two)
    add("mod_trunc(x, y)", fmod, types="f32", alone=True, **two)
    add("mod_floor(x, y)", mod_floor, **two)
    return r


# ---- inputs ---------------------------------------------------------------------------------------------


def around(t, x, by=2):
    """x and its neighbours, of both signs."""
    b = bits_of(t, abs(x)) & ((1 << (width(t) - 1)) - 1)
    out = []
    for d in range(-by, by + 1):
        if 0 <= b + d <= infinity(t):
            out += [b + d, (b + d) | 1 << (width(t) - 1)]
    return out


def drawn(t, rng, kind):
    """Any number; one of a moderate exponent; one of an interval about 0."""
    w, f = width(t), fraction_bits(t)
    b = rng.getrandbits(w)
    if kind == 0:
        return b if b & infinity(t) != infinity(t) else b & ~(1 << f)
    if kind == 1:
        bias = infinity(t) >> (f + 1)
        return b & ~infinity(t) | (bias + rng.randint(-14, 7)) << f
    return bits_of(t, rng.uniform(-24, 24))


def within(t, rng, low, high, n):
    """Numbers at all distances from both ends."""
    out = []
    for i in range(n):
        d = (high - low) * 2.0 ** rng.uniform(-fraction_bits(t) - 1, 0)
        out.append(bits_of(t, mpf(low) + d if i % 2 else mpf(high) - d))
    return out


def common(t, args, rng, more):
    top = float(value(t, infinity(t) - 1))
    least = float(value(t, 1 << fraction_bits(t)))
    small = width(t) == 16
    points = (
        [0.0, 1.0, least, top, 0.5, 2.0, 3.0]
        if args == 2 or small
        else [
            0.0,
            1.0,
            least,
            top,
            0.5,
            2.0,
            1.5,
            3.0,
            0.1,
            10.0,
            100.0,
            2.0**-12,
            2.0 ** (fraction_bits(t) + 1),
        ]
    )
    special = [infinity(t), infinity(t) | 1 << (width(t) - 1), infinity(t) | 1 << (fraction_bits(t) - 1)]
    for x in points:
        special += around(t, x, 0 if args == 2 and x not in (1.0,) or x == 2 or small and x != 1 else 1)
    special += around(t, float(value(t, 1)), 0) + [1, 1 | 1 << (width(t) - 1)]
    special = list(dict.fromkeys(special))
    if args == 1:
        n = int({"f32": 180, "f64": 80, "f16": 40, "bf16": 40}[t] * more)
        return special + [drawn(t, rng, i % 3) for i in range(n)]
    if small:
        special = special[::2]
    pairs = [(a, b) for a in special for b in special]
    n = int({"f32": 240, "f64": 120, "f16": 40, "bf16": 40}[t] * more)
    for i in range(n):
        kind = i % 3
        pairs.append((drawn(t, rng, kind), drawn(t, rng, kind if i % 2 else (kind + 1) % 3)))
    return [b for p in pairs for b in p]


def extra(row, t, rng, more):
    out = []
    if row.args == 1:
        for x in row.near:
            if abs(x) <= float(value(t, infinity(t) - 1)):
                out += [
                    b
                    for b in around(t, x, 1 if width(t) == 16 else 2)
                    if x == 0 or (value(t, b) < 0) == (x < 0)
                ]
        if row.inside and width(t) > 16:
            out += within(t, rng, *row.inside, int(40 * more))
    elif row.f is power and width(t) > 16:
        # small integers, whose powers are exact; bases about 1 with large exponents; whole ones past 6 bits
        for b in (2, 3, -3, 5, 7, 10, -10, 0.5):
            for e in (1, 2, 3, 5, 6, 7, 9, -1, -2, -3):
                out += [bits_of(t, b), bits_of(t, e)]
        big = fraction_bits(t) + 1
        for b in (-1, 2, -2, 0.5, -inf, inf, 0.0, -1.25):
            for e in (
                63,
                64,
                65,
                127,
                128,
                -63,
                -64,
                -65,
                2.0**20,
                2.0**20 + 1,
                2.0**big - 1,
                2.0**big,
                2.0**40,
                -149,
                -1074,
            ):
                out += [bits_of(t, b), bits_of(t, e)]
        for i in range(int(60 * more)):
            out += [
                bits_of(t, 1 + rng.uniform(-1, 1) * 2.0 ** -rng.randint(1, 20)),
                bits_of(t, rng.uniform(-1, 1) * 2.0 ** rng.randint(3, 24)),
            ]
    elif row.f in (fmod, mod_floor):
        for i in range(int(40 * more)):
            b = rng.randint(1, 1000)
            out += [
                bits_of(t, b * rng.randint(1, 100000)) | rng.getrandbits(1) << (width(t) - 1),
                bits_of(t, b),
            ]
    return out


# ---- the file ---------------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--more", type=float, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="")
    a = p.parse_args()
    with open(a.out, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as f:

        def numbers(t, list_):
            f.write(struct.pack(f"<{len(list_)}{TYPES[t][2]}", *list_))

        inputs = {}
        for t in TYPES:
            for args in (1, 2):
                inputs[t, args] = common(t, args, random.Random(f"{a.seed} {t} {args}"), a.more)
                f.write(f"inputs {t} {args} {len(inputs[t, args]) // args}\n".encode())
                numbers(t, inputs[t, args])
        for row in rows():
            if a.only and a.only not in row.name:
                continue
            for t in row.types:
                more = extra(row, t, random.Random(f"{a.seed} {t} {row.name}"), a.more)
                all_ = ([] if row.alone else inputs[t, row.args]) + more
                results = []
                for i in range(0, len(all_), row.args):
                    b = all_[i : i + row.args]
                    if row.power is not None:
                        c = bits_of(t, row.power)
                        results.append(POWER.result(t, [b[0], c]))
                    elif row.at_zero and value(t, b[0]) == 0:
                        results.append(infinity(t) | b[0])
                    else:
                        results.append(row.result(t, b))
                f.write(
                    f"function {row.name} | {row.expression} | {row.model} | {t} {row.args} "
                    f"{len(more) // row.args} {int(not row.alone)} {int(row.signs)}\n".encode()
                )
                numbers(t, more)
                numbers(t, results)
            print(row.name, file=sys.stderr)


POWER = Row("", power, args=2)

if __name__ == "__main__":
    main()
