#!/usr/bin/env python3
"""Runs StableHLO modules of every op on `gspmd run` and compares with NumPy, SciPy and mpmath.

run.py GSPMD [--filter REGEX] [--keep DIR] [--full]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import mpmath  # noqa: F401
    import scipy  # noqa: F401
except ImportError as error:
    SYSTEM = "/usr/bin/python3"  # has the distribution's NumPy where another Python comes first
    if os.path.exists(SYSTEM) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM):
        os.execv(SYSTEM, [SYSTEM] + sys.argv)
    print(f"skipped: {error}")
    sys.exit(77)

sys.dont_write_bytecode = True
import cases
from element_types import part_of, steps_apart


def read_result(path, index, value):
    array = np.load(path)[str(index)]
    if array.dtype.kind == "V":
        array = array.view(f"u{array.dtype.itemsize}")
    return array.astype(value.type.bits, copy=False).reshape(value.array.shape)


def difference(case, value, got):
    """What is wrong with a result, or nothing."""
    want = value.array
    if case.rtol is not None:
        x, y = value.type.values(got), value.type.values(want)
        with np.errstate(all="ignore"):
            same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= case.atol + case.rtol * np.abs(y))
        wrong = ~same
        far = "beyond tolerance"
    elif value.type.kind == "complex":
        part = part_of(value.type)
        steps = np.maximum(steps_apart(part, got.real.copy(), want.real.copy()),
                           steps_apart(part, got.imag.copy(), want.imag.copy()))
        if case.atol:
            near = np.abs(got - want) <= case.atol * np.abs(want)
            steps = np.where(near, 0, steps)
        wrong, far = steps > (case.ulps or 0), f"{steps.max() if steps.size else 0:g} ulps"
    elif value.type.kind == "float":
        steps = steps_apart(value.type, got, want)
        wrong, far = steps > (case.ulps or 0), f"{steps.max() if steps.size else 0:g} ulps"
    else:
        wrong, far = got != want, "differs"
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    inputs = [f"{v.type.values(v.array)[at]!r}" for v in case.inputs if v.array.shape == want.shape]
    return (f"{int(wrong.sum())} of {want.size} {far}; at {list(at)} {value.type.values(got)[at]!r}, "
            f"want {value.type.values(want)[at]!r}" + (f", of {', '.join(inputs)}" if inputs else ""))


def run_case(gspmd, case, folder):
    path, results = os.path.join(folder, "case.mlir"), os.path.join(folder, "results.npz")
    if os.path.exists(results):
        os.remove(results)
    problems = []
    for check in (True, False):
        with open(path, "w", encoding="utf-8") as file:
            file.write(case.text(check))
        done = subprocess.run([gspmd, "run", path, "--outputs", results, "--threads", "1"], capture_output=True,
                              text=True, timeout=120, check=False)
        if done.returncode == 0:
            break
        problems.append(f"exit {done.returncode}: {done.stderr.strip()[:300]}")
        if "check" not in done.stderr and "line " not in done.stderr:
            return "; ".join(problems)
    if done.returncode != 0:
        return "; ".join(problems)
    for i, value in enumerate(case.expected):
        found = difference(case, value, read_result(results, i, value))
        if found:
            return f"result {i}: {found}"
    return problems[0] if problems else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gspmd")
    parser.add_argument("--filter", default="")
    parser.add_argument("--keep", help="folder for the modules that fail")
    parser.add_argument("--full", action="store_true", help="every case, not a part of each kind")
    options = parser.parse_args()
    failed = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases.all_cases(options.full):
            if options.filter and not re.search(options.filter, case.name):
                continue
            count += 1
            problem = run_case(options.gspmd, case, folder)
            if problem is None:
                continue
            failed += 1
            print(f"{case.name}: {problem}", flush=True)
            if options.keep:
                os.makedirs(options.keep, exist_ok=True)
                with open(os.path.join(options.keep, case.name + ".mlir"), "w", encoding="utf-8") as file:
                    file.write(case.text())
    print(f"{count - failed} of {count} cases are as expected")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
