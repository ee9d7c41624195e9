# SPDX-License-Identifier: BSD-3-Clause
"""The tool tried on a small library of its own, in which it is known what every fault does."""
import pathlib
import shutil

import build
import report

ROOT = pathlib.Path(__file__).parent / "smoke"

# function, change, how its ending begins; None for what must not be made
EXPECTED = [
    ("smoke::larger(int, int)", "a > b -> a <= b", "caught"),
    ("smoke::larger(int, int)", "a > b -> a >= b", "passes 1 of 1"),  # equal numbers are one number
    ("smoke::sum_to(int)", "i <= n -> i < n", "caught"),
    ("smoke::sum_to(int)", "sum += i; -> (nothing)", "caught"),
    ("smoke::sum_to(int)", "sum += i -> sum -= i", "caught"),
    ("smoke::count_down(int)", "--n; -> (nothing)", "caught by test_smoke: a \"count\": too slow"),
    ("smoke::count_down(int)", "n > 0 -> false", "caught"),
    ("smoke::is_even(int)", "n == 0 -> false", "passes 1 of 1"),  # 0 is even by the other way too
    ("smoke::is_even(int)", "n % 2 == 0 -> true", "caught"),
    ("smoke::difference(int, int)", "subtract(result, b); -> (nothing)", "caught"),
    ("smoke::difference(int, int)", "subtract(result, b) -> subtract(b, result)", "caught"),
    ("smoke::subtract(int &, int)", "from -= amount -> from += amount", "caught"),
    ("smoke::last_digit(int)", "9 -> 9 + 1", "caught"),
    ("smoke::last_digit(int)", "n - n / 10 * 10 -> (n / 10 * 10) - n", "caught"),
    ("smoke::half(T)", "2 -> 2 + 1", "caught"),
    ("smoke::square(int)", "x * x -> x + x", "caught"),  # and the static_assert holds
    ("smoke::never_called(int)", "n + 7 -> n - 7", "not reached"),
    ("smoke::greeting(const std::string &)", "\"hello, \" + name -> \"hello, \" - name", None),
]


def check(folder, mutate):
    """How many expectations hold, and texts about those that do not."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy = build.Build(ROOT, folder / "tree", [])
    sites = mutate.read_sites(copy, lambda name: True, folder)
    options = mutate.read_arguments(["--every", "--fresh"])
    endings, failing = mutate.run(options, copy, folder, mutate.pick(options, sites))
    found = {(site.function, report.change_of(site)): ending for site, ending in endings}
    problems = [f"{case.name} fails without a fault: {ending}" for case, ending in failing]
    for function, change, expected in EXPECTED:
        ending = found.get((function, change))
        right = ending is None if expected is None else (ending or "").startswith(expected)
        if not right:
            problems.append(f"{function}: {change}: expected {expected}, got {ending}")
    return len(EXPECTED) - len(problems), problems
