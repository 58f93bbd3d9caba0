#!/usr/bin/env python3
"""Finds the polynomials of lower/math.c.

Each is the minimax polynomial of a weighted function (Remez exchange in 80 digits), whose
coefficients are then rounded to f32 or f64 one by one, lowest power first: after each rounding
those not yet rounded are fitted again, so that they take up what the rounding left. Prints the
coefficients as C literals, highest power first, and the largest weighted error as a power of two.

    python3 bench/math_fit.py            all of them (minutes)
    python3 bench/math_fit.py tanh32     one
"""
import struct
import sys
from mpmath import (mp, mpf, matrix, lu_solve, log, log1p, exp, tanh, erf, erfc, sin, cos, sqrt,
                    pi, atanh, fabs)

mp.dps = 60


def to_f32(v):
    return mpf(struct.unpack('f', struct.pack('f', float(v)))[0])


def to_f64(v):
    return mpf(float(v))


def remez(g, w, powers, lo, hi, first=None):
    """Coefficients c of sum c[i] x^powers[i] that minimise max |w(x) (sum - g(x))| on [lo, hi].

    `first`: coefficients to fall back on where the exchange ends up with worse ones."""
    n = len(powers)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(pi * i / n) for i in range(n + 1)]
    size = 40 * (n + 1)
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(pi * mpf(i) / size) for i in range(size + 1)]
    table = [(x, g(x), w(x)) for x in grid]
    best_c, best_peak = None, None

    def peak_of(c):
        return max(fabs(wx * (sum(ck * (x ** p) for ck, p in zip(c, powers)) - gx))
                   for x, gx, wx in table)
    if first is not None:
        best_c, best_peak = first, peak_of(first)
    for _ in range(30):
        a = matrix(n + 1, n + 1)
        b = matrix(n + 1, 1)
        for r, x in enumerate(xs):
            for k, p in enumerate(powers):
                a[r, k] = x ** p if x else mpf(1 if p == 0 else 0)
            a[r, n] = (-1) ** r / w(x)
            b[r] = g(x)
        try:
            sol = lu_solve(a, b)
        except ZeroDivisionError:
            break
        c = [sol[k] for k in range(n)]
        es = [wx * (sum(ck * (x ** p) for ck, p in zip(c, powers)) - gx) for x, gx, wx in table]
        peak = max(fabs(e) for e in es)
        if best_c is None or peak < best_peak:
            best_c, best_peak = c, peak
        # one extremum for each run of equal sign
        runs, best = [], 0
        for i in range(1, len(es)):
            if (es[i] > 0) != (es[best] > 0):
                runs.append(best)
                best = i
            elif fabs(es[i]) > fabs(es[best]):
                best = i
        runs.append(best)
        while len(runs) > n + 1:
            runs.pop(0 if fabs(es[runs[0]]) < fabs(es[runs[-1]]) else -1)
        if len(runs) < n + 1:
            break
        low = min(fabs(es[i]) for i in runs)
        xs = [grid[i] for i in runs]
        if peak < low * mpf('1.001'):
            break
    return best_c, best_peak


def fit(name, g, w, powers, lo, hi, rounding, fixed=()):
    """`fixed`: coefficients given beforehand, as {power: value}."""
    lo, hi = mpf(lo), mpf(hi)
    done = dict(fixed)
    todo = [p for p in powers if p not in done]
    ideal, c = None, None
    while todo:
        def rest(x):
            return g(x) - sum(c * x ** p for p, c in done.items())
        c, e = remez(rest, w, todo, lo, hi, c[1:] if c and len(c) > 1 else None)
        if ideal is None:
            ideal = e
        done[todo[0]] = rounding(c[0])
        todo.pop(0)
    worst = mpf(0)
    for i in range(4001):
        x = lo + (hi - lo) * i / 4000
        e = fabs(w(x) * (sum(c * x ** p for p, c in done.items()) - g(x)))
        worst = max(worst, e)
    print('%s: 2^%.2f (before rounding 2^%.2f)' % (name, float(log(worst, 2)), float(log(ideal, 2))))
    suffix = 'f' if rounding is to_f32 else ''
    for p in sorted(done, reverse=True):
        print('    %s%s    // x^%d' % (float(done[p]).hex(), suffix, p))
    sys.stdout.flush()


EPS = mpf(10) ** -30
TINY = mpf(10) ** -40          # keeps a weight that vanishes at 0 invertible
S = sqrt


def series(terms):
    return lambda s: sum(c * s ** i for i, c in enumerate(terms))


def sin_tail(s):      # (sin x - x) / x^3 at s = x^2
    from mpmath import factorial
    return sum((-1) ** (i + 1) * s ** i / factorial(2 * i + 3) for i in range(20))


def cos_tail(s):      # (cos x - 1 + x^2 / 2) / x^4
    from mpmath import factorial
    return sum((-1) ** i * s ** i / factorial(2 * i + 4) for i in range(20))


def tanh_tail(s):     # (tanh x - x) / x^3
    if s < mpf('1e-6'):
        return -mpf(1) / 3 + 2 * s / 15 - 17 * s * s / 315
    x = S(s)
    return (tanh(x) - x) / (x * s)


def erf_tail(s):      # erf(x) / x - 1
    from mpmath import factorial
    if s < mpf('1e-2'):
        return 2 / S(pi) * sum((-1) ** i * s ** i / (factorial(i) * (2 * i + 1))
                               for i in range(14)) - 1
    x = S(s)
    return erf(x) / x - 1


def log_tail(f):      # (log(1 + f) - f) / f^2
    if fabs(f) < mpf('1e-4'):
        return sum((-1) ** (i + 1) * f ** i / (i + 2) for i in range(16))
    return (log1p(f) - f) / (f * f)


def log_weight(f):
    return fabs(f) + mpf('1e-20') if fabs(f) < mpf('1e-12') else fabs(f * f / log1p(f))


QUARTER = pi / 4 * mpf('1.02')

def exp_tail(r):      # (e^r - 1 - r) / r^2
    return (exp(r) - 1 - r) / (r * r) if fabs(r) > mpf('1e-8') else mpf(1) / 2 + r / 6 + r * r / 24


def atanh_tail(z):    # (2 atanh(s) / s - 2) / z at z = s^2
    return (2 * atanh(S(z)) / S(z) - 2) / z if z > mpf('1e-12') else mpf(2) / 3 + 2 * z / 5


def tanh_arg(s):      # atanh(erf(x)) / x at s = x^2
    if s < mpf('1e-6'):
        return 2 / S(pi) * (1 - s / 3) + (2 / S(pi)) ** 3 / 3 * s
    return log((1 + erf(S(s))) / erfc(S(s))) / 2 / S(s)


def turn(v):          # [1, 6] from v = (x - 2) / (x + 2)
    return 2 * (1 + v) / (1 - v)


HALF_LN2 = log(mpf(2)) / 2 * mpf('1.0001')
LOG_END = ((S(mpf(2)) - 1) / (S(mpf(2)) + 1)) ** 2 * mpf('1.001')

#   name    function, weight (of the error relative to the result), coefficients, range, rounding
FITS = {
    'log32':   lambda n=9: fit('log32', log_tail, log_weight, range(n), -mpf(1) / 3, mpf(1) / 3,
                               to_f32, {0: mpf(-0.5)}),
    'tanh32':  lambda n=4, hi='0.59': fit('tanh32', tanh_tail,
                               lambda s: s * S(s) / tanh(S(s)), range(n), EPS, mpf(hi) ** 2,
                               to_f32),
    'sin32':   lambda n=3: fit('sin32', sin_tail, lambda s: s * S(s) / sin(S(s)), range(n),
                               EPS, QUARTER ** 2, to_f32),
    'cos32':   lambda n=3: fit('cos32', cos_tail, lambda s: s * s / cos(S(s)) + TINY, range(n),
                               EPS, QUARTER ** 2, to_f32),
    'erf32':   lambda n=6, hi='0.85': fit('erf32', erf_tail, lambda s: S(s) / erf(S(s)), range(n),
                               EPS, mpf(hi) ** 2, to_f32),
    'erfc32':  lambda n=6, lo='0.84', hi='4.0': fit('erfc32', lambda t: log(erfc(t), 2) / t,
                               lambda t: t * erfc(t) * log(2) / erf(t), range(n),
                               mpf(lo), mpf(hi), to_f32),
    'gelu32':  lambda n=8, hi='5.7': fit('gelu32', lambda t: log(erfc(t / S(mpf(2))), 2) / t if t > TINY else -2 / S(2 * pi) / log(2),
                               lambda t: (t + mpf('1e-6')) * erfc(t / S(mpf(2))) * log(2), range(n),
                               mpf('1e-12'), mpf(hi), to_f32),
    'erffast': lambda n=3, hi='3.6': fit('erffast', tanh_arg,
                               lambda s: (1 - erf(S(s)) ** 2) * S(s) / erf(S(s)), range(n),
                               mpf('1e-8'), mpf(hi) ** 2, to_f32),
    'exp64':   lambda n=10: fit('exp64', exp_tail, lambda r: r * r / exp(r) + TINY, range(n),
                               -HALF_LN2, HALF_LN2 * mpf('1.00001'), to_f64),
    'log64':   lambda n=7: fit('log64', atanh_tail, lambda z: z * S(z) / (2 * atanh(S(z))),
                               range(n), EPS, LOG_END, to_f64),
    'sin64':   lambda n=6: fit('sin64', sin_tail, lambda s: s * S(s) / sin(S(s)), range(n),
                               EPS, QUARTER ** 2, to_f64),
    'cos64':   lambda n=6: fit('cos64', cos_tail, lambda s: s * s / cos(S(s)) + TINY, range(n),
                               EPS, QUARTER ** 2, to_f64),
    'tanh64':  lambda n=11: fit('tanh64', tanh_tail, lambda s: s * S(s) / tanh(S(s)), range(n),
                               EPS, mpf('0.6') ** 2, to_f64),
    'erf64':   lambda n=12: fit('erf64', erf_tail, lambda s: S(s) / erf(S(s)), range(n),
                               EPS, mpf(1), to_f64),
    'erfc64':  lambda n=13: fit('erfc64', lambda v: erfc(turn(v)) * exp(turn(v) ** 2),
                               lambda v: exp(-turn(v) ** 2) / erf(turn(v)), range(n),
                               -mpf(1) / 3, mpf(1) / 2, to_f64),
}

if __name__ == '__main__':
    if len(sys.argv) > 1 and sys.argv[1] not in FITS: sys.exit(__doc__)
    if len(sys.argv) > 1:
        FITS[sys.argv[1]](*[int(a) if a.isdigit() else a for a in sys.argv[2:]])
    else:
        for f in FITS.values():
            f()
