#!/usr/bin/env python3
# tools/math_coefficients.py -- the polynomials of src/codegen/math*.cpp, computed and judged.
"""The polynomials of src/codegen/math*.cpp, computed and judged.

  tools/math_coefficients.py             each polynomial: largest error of the committed
  coefficients beside fresh ones
  tools/math_coefficients.py --print exp_f64      the coefficients that this script computes
  tools/math_coefficients.py --check     exit code 1 where committed ones are worse than fresh ones
  and not exact enough

A polynomial p approximates f on an interval; its error is w (p - f), relative to the function that
is made of it. The fit is weighted least squares on Chebyshev nodes in 300 bits. Coefficients are
rounded one after the other, from the lowest; what is left is fitted again, so that the later ones
make up for the rounding of the earlier ones. Errors are given as powers of two; those of rounding
the arithmetic itself come on top. Exact enough is half a unit in the last place of 1. Needs mpmath
(Debian, Ubuntu: python3-mpmath). """
import argparse
import pathlib
import re
import struct
import sys

try:
    import mpmath
    from mpmath import mp, mpf
except ImportError:
    print("math_coefficients: mpmath is not installed (python3-mpmath)", file=sys.stderr)
    sys.exit(77)

mp.prec = 300
root = pathlib.Path(__file__).resolve().parent.parent
half_ln2, ln2 = mp.log(2) / 2, mp.log(2)
low, high = mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(2) - 1
quarter = mp.pi / 4
two_over_root_pi = 2 / mp.sqrt(mp.pi)


def taylor(closed, series):
    """A function whose closed form cancels near zero: there `series` is taken."""
    return lambda t: series(t) if abs(t) < mpf(2) ** -60 else closed(t)


def normal_tail(x):  # log2 of the upper tail of the normal distribution
    return mp.log(mp.erfc(x / mp.sqrt(2)) / 2) / ln2


def erf_of(f):  # as a function of z = x^2
    return lambda z: f(mp.sqrt(z))


# name: f, weight w, interval. What p becomes part of stands beside the coefficients in math.cpp and
# math_trig.cpp.
exp2_p = taylor(lambda t: (mpf(2) ** t - 1) / t, lambda t: ln2 + t * ln2**2 / 2)
exp_p = taylor(lambda t: mp.expm1(t) / t, lambda t: 1 + t / 2)
expm1_p = taylor(lambda t: (mp.expm1(t) - t) / t**2, lambda t: mpf(1) / 2 + t / 6)
log_p = taylor(lambda t: (mp.log1p(t) - t) / t**2, lambda t: -mpf(1) / 2 + t / 3)
log2_p = taylor(lambda t: (mp.log1p(t) - t) / t**2 / ln2, lambda t: (-mpf(1) / 2 + t / 3) / ln2)
atanh_p = taylor(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, lambda z: mpf(2) / 3 + 2 * z / 5)
erf_p = taylor(erf_of(lambda x: mp.erf(x) / x - 1), lambda z: two_over_root_pi * (1 - z / 3) - 1)
sin_p = taylor(erf_of(lambda r: (mp.sin(r) / r - 1) / r**2), lambda z: -mpf(1) / 6 + z / 120)
cos_p = taylor(erf_of(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4), lambda z: mpf(1) / 24 - z / 720)
one = lambda t: mpf(1)
exp2_w = lambda t: abs(t) / mpf(2) ** t
exp_w = lambda t: abs(t) / mp.exp(t)
expm1_w = lambda t: abs(t / exp_p(t))
log_w = lambda t: abs(t) / abs(1 + t * log_p(t))
erf_w = taylor(erf_of(lambda x: x / mp.erf(x)), lambda z: 1 / two_over_root_pi)
top = mpf(475) / 512
functions = {
    "exp2_f32": (exp2_p, exp2_w, -mpf(1) / 2, mpf(1) / 2),
    "exp2_short_f32": (exp2_p, exp2_w, -mpf(1) / 2, mpf(1) / 2),
    "exp2_f64": (exp2_p, exp2_w, -mpf(1) / 2, mpf(1) / 2),
    "exp_f32": (exp_p, exp_w, -half_ln2, half_ln2),
    "exp_f64": (exp_p, exp_w, -half_ln2, half_ln2),
    "expm1_f32": (expm1_p, expm1_w, -half_ln2, half_ln2),
    "expm1_f64": (expm1_p, expm1_w, -half_ln2, half_ln2),
    "log_f32": (log_p, log_w, low, high),
    "log2_f32": (log2_p, lambda t: log_w(t) * ln2, low, high),
    "atanh_f64": (atanh_p, lambda z: z / (2 + z * atanh_p(z)), mpf(0),
                  ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2),
    "erf_f64": (erf_p, erf_w, mpf(0), mpf(1)),
    "erfcx_f64": (lambda u: (lambda x: mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x))(3 * (1 + u) / (1 - u)),
                  lambda u: (lambda x: 1 / (mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)))(3 * (1 + u) / (1 - u)),
                  -mpf(1) / 2, mpf("3.2") / mpf("9.2")),
    "erf_small_f32": (erf_p, erf_w, mpf(0), top**2),
    "erf_large_f32": (lambda x: (mp.log(mp.erfc(x)) + x) / x, lambda x: x * mp.erfc(x) / mp.erf(x), top,
                      mpf(4)),
    "normal_tail_f32": (lambda x: (normal_tail(x) + 1) / x,
                        lambda x: x * x * mp.erfc(x / mp.sqrt(2)) / 2 * ln2,
                        mpf(2) ** -20, mpf("14.2")),
    "sin_f32": (sin_p, taylor(erf_of(lambda r: r**3 / mp.sin(r)), lambda z: z), mpf(0), quarter**2),
    "cos_f32": (cos_p, lambda z: z * z / mp.cos(mp.sqrt(z)), mpf(0), quarter**2),
    "sin_f64": (sin_p, taylor(erf_of(lambda r: r**3 / mp.sin(r)), lambda z: z), mpf(0), quarter**2),
    "cos_f64": (cos_p, lambda z: z * z / mp.cos(mp.sqrt(z)), mpf(0), quarter**2),
}

# Of the error of gelu, which counts beside 1 where the tail is subtracted from it.
allowed = {"normal_tail_f32": mpf(2) ** -22}


def committed():
    """name -> coefficients, from the lowest, as they stand in the sources."""
    found = {}
    for path in sorted((root / "src" / "codegen").glob("math*.cpp")):
        for name, body in re.findall(r"constexpr double (\w+)\[\] = \{([^}]*)\}", path.read_text()):
            found[name] = [float(word.strip().rstrip("f")) for word in body.split(",")]
    return found


def rounded(value, name):
    if name.endswith("_f64"):
        return float(value)
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def fit(name, count):
    """`count` coefficients, from the lowest."""
    f, weight, start, end = functions[name]
    nodes = [(start + end) / 2 + (end - start) / 2 * mp.cos(mp.pi * (2 * i + 1) / (8 * count))
             for i in range(4 * count)]
    weights = [weight(t) for t in nodes]
    rest = [f(t) for t in nodes]
    out = []
    for k in range(count):
        rows = mp.matrix([[w * t**j for j in range(k, count)] for t, w in zip(nodes, weights)])
        solution, _ = mp.qr_solve(rows, mp.matrix([w * r for w, r in zip(weights, rest)]))
        out.append(rounded(solution[0], name))
        rest = [r - mpf(out[-1]) * t**k for r, t in zip(rest, nodes)]
    return out


def error(name, coefficients):
    """The largest |w (p - f)| on a grid that is dense at the ends of the interval."""
    f, weight, start, end = functions[name]
    worst = mpf(0)
    for i in range(401):
        t = (start + end) / 2 - (end - start) / 2 * mp.cos(mp.pi * i / 400)
        p = mp.polyval([mpf(c) for c in reversed(coefficients)], t)
        worst = max(worst, abs(weight(t) * (p - f(t))))
    return worst


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--print", metavar="NAME", choices=sorted(functions))
    arguments.add_argument("--check", action="store_true")
    arguments = arguments.parse_args()
    known = committed()
    if arguments.print:
        print(", ".join(repr(c) for c in fit(arguments.print, len(known[arguments.print]))))
        return 0
    unknown = sorted(set(known) ^ set(functions))
    bad = len(unknown)
    for name in unknown:
        print(f"{name}: {'not in this script' if name in known else 'not in src/codegen'}")
    print(f"{'polynomial':16} {'terms':>5} {'committed':>10} {'fresh':>10}")
    for name in (name for name in functions if name in known):
        here, fresh = error(name, known[name]), error(name, fit(name, len(known[name])))
        enough = allowed.get(name, mpf(2) ** (-53 if name.endswith("_f64") else -24))
        worse = here > fresh * mpf("1.2") and here > enough
        bad += worse
        logarithms = [f"2^{mpmath.nstr(mp.log(x, 2), 4)}" for x in (here, fresh)]
        print(f"{name:16} {len(known[name]):5} {logarithms[0]:>10} "
              f"{logarithms[1]:>10}{'  worse' if worse else ''}")
    return 1 if arguments.check and bad else 0


if __name__ == "__main__":
    sys.exit(main())
