#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library refuses, with its own message, code that would do nothing or lose Variables, types that do not fit, and
compilers' modes in which it cannot work. A message about the members of a model is in the first lines of the output.
`using namespace reel` does not take names that programs often use."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

START = """#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>
#include <reel/reel.hpp>
using namespace reel;
struct Body {};
struct Op {};
struct Cell {};
struct Source {};
struct Function {};
struct Users { Body body; Op op; Cell cell; Source source; Function function; };
struct Bare { Variable w{"w", ones({2})}; };
struct Named { Variable w{"w", ones({2})}; REEL_FIELDS(w) };
template <class T> struct Holder { T held; REEL_FIELDS(held) };
template <class T> struct Older { T held; void fields(auto&& field) { field("held", held); } };
Tensor x = ones({2}), y = ones({});
Variable w{"w", ones({2})};
VariableSlice slice = w(0);
double k = 2;
auto scaled = [](Tensor t) { return t * k; };
auto scales = [factor = k](Tensor t) { return t * factor; };
class Private { Variable w{"w", ones({2})}; REEL_FIELDS(w) };
struct Row { nn::Linear layers[2]{{2, 2}, {2, 2}}; REEL_FIELDS(layers) };
struct Layer { virtual ~Layer() = default; virtual Tensor operator()(Operand) const = 0; };
struct Overloaded {
  Tensor operator()(Tensor t) const { return t; }
  Tensor operator()(Tensor t, Tensor) const { return t; }
};
auto owns = [] { return [p = std::make_unique<double>(2)](Tensor t) { return t * *p; }; };
std::vector<double> doubles;
"""
FORGETS = "a struct in this model does not list its members"
HIDES = "a struct in this model lists its members in its private part"
POINTER = "a raw pointer in a model does not say who owns its object"
ARRAY = "a C array has no list of members"
VARIANT = "a std::variant has no list of members"
FUNCTION = "a std::function hides the Variables of the function in it"
LAMBDA = "a lambda hides the Variables that it captures"
ABSTRACT = "a pointer to a base class hides the members of the derived class"
FIELDS = (FORGETS, HIDES, POINTER, ARRAY, VARIANT, FUNCTION, LAMBDA, ABSTRACT)
DTYPES = "there are dtypes for bool, std::uint8_t, std::int8_t to std::int64_t, float, double, Float16 and BFloat16"
HOLDS = "save() and load() cannot keep a field of this type"
GENERIC = "f is a generic lambda, has several operator(), or is no function"
CAPTURES = "cannot take a Generator or an nn::Sequential, alone or in a struct: let the function capture it"
OTHER = "its result does not convert to that of the signature"
# Wrong code, similar code that compiles, and the message of the compiler for the wrong code.
CASES = [
    ("x(0) = y", "x = y", "a Tensor never changes"),
    ("x[0] = y", "x = x[0]", ""),
    ("x(0) = w", "x = w", ""),
    ("x(0) = {}", "x = {}", ""),
    ("x(0) += 1", "x += 1", ""),
    ("(x + x) = y", "(x) = y", ""),
    ("w(0) = y", "w(0).assign(y)", ""),
    ("w(0) = w(1)", "slice = w(1)", ""),
    ("slice += 1", "slice.assign_add(1)", "deleted"),
    ("w += 1", "w.assign_add(1)", "w.assign_add(y)"),
    ("w -= x", "w.assign_sub(x)", "w.assign_sub(y)"),
    ("w *= 2", "w.assign(w * 2)", "w.assign(w * y)"),
    ("w = 3", "w.assign(3)", "w.assign(x)"),
    ("w = x", "w = Buffer(\"b\", x)", "w.assign(x)"),
    ("x(0) = 3", "w(0).assign(3)", "a Tensor never changes"),
    ("w(0) = 3", "w(0).assign(3)", "w(0).assign(x)"),
    ("sum(x, true)", "sum(x, 1)", ""),
    ("softmax(x, 0.5)", "softmax(x, 0)", ""),
    ("log_softmax(x, true)", "log_softmax(x, x.rank() - 1)", ""),
    ("sort(x, true)", "sort(x, -1, {.descending = true})", ""),
    ("argsort(x, 1.0)", "argsort(x, 0LL)", ""),
    ("topk(x, 2, true)", "topk(x, 2, -1)", ""),
    ("topk(x, 2.9)", "topk(x, doubles.size())", ""),
    ("cosine_similarity(x, y, 1e-8)", "cosine_similarity(x, y, -1)", ""),
    ("roll(x, 1.9, 0)", "roll(x, -1, 0)", ""),
    ("swap_axes(x, 0, true)", "swap_axes(x, 0, -1)", ""),
    ("cumsum(x, 0.5)", "cumsum(x, 0, {.reverse = true})", ""),
    ("gather(x, x, false)", "gather(x, x, 0u)", ""),
    ("concat({x, y}, true)", "concat({x, y}, 0)", ""),
    ("split(x, 1.5)", "split(x, 2)", ""),
    ("tril(x, 0.5)", "tril(x, -1)", ""),
    ("diagonal(x, 0, true)", "diagonal(x, 1, 0, 1)", ""),
    ("unbind(x, 0.5)", "unbind(x, 1)", ""),
    ("polygamma(1.5, x)", "polygamma(1, x)", ""),
    ("x.shape(0.5)", "x.shape(0)", ""),
    ("x(range(0, 4, 1.5))", "x(range(0, 4, 2))", ""),
    ("random::integers(0, 9.9, {2})", "random::integers(0, 9, {2})", ""),
    ("cuda(0.5)", "cuda(doubles.size())", ""),
    ("optim::SGD({w}, {.learning_rate = 1}).learning_rate(true)", "optim::SGD({w}, {.learning_rate = 1}).learning_rate(0u)", ""),
    ("random::shuffle(x, true)", "random::shuffle(x, 0)", ""),
    ("seed(0.2)", "seed(-1)", "deleted"),
    ("Generator g(true)", "Generator g(1)", "deleted"),
    ("set_num_threads(1.5)", "set_num_threads(1)", ""),
    ("metrics::top_k_accuracy(x, y, 1.5)", "metrics::top_k_accuracy(x, y, 1)", ""),
    ("optim::step_decay(2.5, .1)", "optim::step_decay(2, .1)", ""),
    ("max(x, 0.0)", "maximum(x, 0.0)", ""),
    ("var(x, {.correction = 1})", "var(x, {0}, keepdims, {.correction = 1})", ""),
    ("sum(x, {.keepdims = true})", "sum(x, {0, -1}, keepdims)", ""),
    ("sum(x, {0, 1, 2, 3, 4, 5, 6, 7, 8})", "sum(x, {0, 1, 2, 3, 4, 5, 6, 7})", "at most 8 axes"),
    ("Operand h = x; h = w", "Operand h = x; Operand g = w", "use of deleted function"),
    ("CallerScope h(Caller::here(), std::string(\"a\"))", "CallerScope h(Caller::here(), \"a\")", "deleted"),
    ("zeros(2, 3)", "zeros({2, 3})", "zeros({2, 3})"),
    ("ones(2)", "ones({2})", "ones({2, 3})"),
    ("tensor(sizeof(int))", "tensor<std::int64_t>(sizeof(int))", ""),
    ("tensor<int>(0.5)", "tensor<float>(0.5)", ""),
    ("parameters(Bare())", "parameters(Named())", FORGETS),
    ("count_parameters(Bare())", "count_parameters(Named())", FORGETS),
    ("named_parameters(Holder<Bare>())", "named_parameters(Holder<Named>())", FORGETS),
    ("summary(Older<Bare>())", "summary(Older<Named>())", FORGETS),
    ("clone(Bare())", "clone(Named())", FORGETS),
    ("clone(std::vector<Bare>())", "clone(std::vector<Named>())", FORGETS),
    ("parameters(std::optional<Bare>())", "parameters(std::optional<Named>())", FORGETS),
    ("parameters(std::make_unique<Bare>())", "parameters(std::make_unique<Named>())", FORGETS),
    ("parameters(std::pair(1, Bare()))", "parameters(std::pair(1, Named()))", FORGETS),
    ("parameters(std::variant<Named>())", "parameters(std::tuple<Named>())", VARIANT),
    ("parameters(nn::Sequential(relu, scales))", "parameters(nn::Sequential(relu, scaled))", LAMBDA),
    ("nn::Sequential{nn::Linear(2, 2), scales}", "nn::Sequential{nn::Linear(2, 2), tanh}", LAMBDA),
    ("parameters(Private())", "parameters(Named())", HIDES),
    ("parameters(Row())", "parameters(std::vector<nn::Linear>())", ARRAY),
    ("parameters(Holder<Named*>())", "parameters(Holder<std::shared_ptr<Named>>())", POINTER),
    ("parameters(Holder<std::variant<int, Named>>())", "parameters(Holder<std::optional<Named>>())", VARIANT),
    ("parameters(Holder<std::function<Tensor(Tensor)>>())", "parameters(Holder<nn::Sequential>())", FUNCTION),
    ("parameters(Holder<std::unique_ptr<Layer>>())", "parameters(Holder<std::unique_ptr<Named>>())", ABSTRACT),
    ("parameters(Holder<std::unique_ptr<optim::Optimizer>>())", "parameters(Holder<std::optional<optim::SGD>>())", ABSTRACT),
    ("parameters(Holder<decltype(scales)>{scales})", "parameters(Holder<decltype(scaled)>{scaled})", LAMBDA),
    ("buffers(Older<std::vector<Named*>>())", "buffers(Older<std::vector<Named>>())", POINTER),
    ("io::save(\"f\", 1, Private())", "io::save(\"f\", 1, Named())", HIDES),
    ("io::load(\"f\", Row())", "io::load(\"f\", Named())", ARRAY),
    ("io::load_torch(\"f\", Bare())", "io::load_torch(\"f\", Named())", FORGETS),
    ("io::save_safetensors(\"f\", Bare())", "io::save_safetensors(\"f\", Named())", FORGETS),
    ("assign(Named(), Bare())", "assign(Named(), Named())", FORGETS),
    ("to(Bare(), cpu())", "to(Named(), cpu())", FORGETS),
    ("nn::Sequential{Bare()}", "nn::Sequential{nn::Highway(2)}", "takes a Tensor and returns one"),
    ("nn::Sequential{nn::LSTM(2, 2)}", "nn::Sequential{nn::Linear(2, 2)}", "takes a Tensor and returns one"),
    ("parameters(&w)", "parameters(w)", POINTER),
    ("tensor({{1.0, true}, {std::string(), 2}})", "tensor({{1, 2}, {3.5, 4}})", ""),
    ("x({0, 1})", "x(tensor({0, 1}))", "deleted"),
    ("w({0, 1})", "w({0, all})", "deleted"),
    ("x(0)({0, -1})", "x({0, range(0, 1)})", "deleted"),
    ("tensor<int>({{1, 2.5}})", "tensor<std::int64_t>({3000000000, 3})", ""),
    ("tensor({{{{1.0L}}}})", "tensor({{{{1.0, 2}}}})", ""),
    ("tensor(std::vector<std::string>())", "tensor(std::vector<Float16>())", DTYPES),
    ("tensor<int>(doubles)", "tensor<float>(doubles)", "takes float or double as E"),
    ("trace([](auto t) { return t; })", "trace<Tensor(Tensor)>([](auto t) { return t; })", GENERIC),
    ("trace(Overloaded())", "trace<Tensor(Tensor)>(Overloaded())", GENERIC),
    ("trace(3)", "trace(owns())", GENERIC),
    ("trace([](const nn::Sequential& m, Tensor t) { return m(t); })(nn::Sequential{tanh}, x)",
     "trace([m = nn::Sequential{tanh}](Tensor t) { return m(t); })(x)", CAPTURES),
    ("trace([](Holder<Generator>, Tensor t) { return t; })({Generator(1)}, x)",
     "trace([](Holder<Variable>, Tensor t) { return t; })({w}, x)", CAPTURES),
    ("trace<Tensor(Tensor, Tensor)>(scales)", "trace(scales)", "does not take the arguments of the signature"),
    ("trace<Tensor(Tensor)>([](Tensor t) { return t.size(); })", "trace([](Tensor t) { return t.size(); })", OTHER),
    ("trace(scaled).reads(2.0)", "trace(scaled).reads(k)", "x is a temporary"),
    ("trace(scaled).reads(Named())", "Named n; trace(scaled).reads(n)", "x is a temporary"),
    ("Bare b; trace(scaled).reads(b)", "Holder<Named> h; trace(scaled).reads(h)", "reads() takes Tensors, Variables"),
    ("detail::Function<Tensor(Tensor)> f(owns())", "detail::Function<Tensor(Tensor)> f(scales)", "can only be moved"),
    ("io::save(\"x\", Holder<long double>())", "io::save(\"x\", Holder<double>())", HOLDS),
    ("io::load(\"x\", Holder<std::string_view>())", "io::load(\"x\", Holder<std::string>())", HOLDS),
    ("io::save(\"x\", std::pair(w, \"text\"))", "io::save(\"x\", std::pair(w, Shape()))", HOLDS),
    ("nn::check(Bare(), [] {})", "nn::check(Named(), [] {})", FORGETS),
]

# Flags of the compiler, and the message for them; without a message the program compiles.
MODES = [
    ("-std=c++17", "reel needs C++20"),
    ("-fno-exceptions", "reel needs exceptions"),
    ("-D_GLIBCXX_DEBUG", "reel needs the std::vector and std::string that it was compiled with"),
    ("-D_GLIBCXX_USE_CXX11_ABI=0", "reel needs the std::vector and std::string that it was compiled with"),
    ("-D_GLIBCXX_DEBUG -DREEL_SAME_STL", ""),
    ("-D_GLIBCXX_ASSERTIONS", ""),
    ("-fno-rtti", ""),
]


def compiled(*lines, flags="", text=START):
    command = ["g++", "-std=c++20", *flags.split(), "-fsyntax-only", f"-I{ROOT / 'include'}", "-x", "c++", "-"]
    tests = "".join(f"void test_{i}() {{ {line}; }}\n" for i, line in enumerate(lines))
    return subprocess.run(command, input=text + tests, capture_output=True, text=True)


def problem(case):
    bad, _, words = case
    refused = compiled(bad)
    if not refused.returncode:
        return f"{bad}: compiles"
    said = "".join(refused.stderr.splitlines(True)[: 5 if words in FIELDS else None])
    if words not in said:
        return f"{bad}: the compiler does not say '{words}'\n{said}"
    return None


def mode_problem(mode):
    flags, words = mode
    result = compiled(flags=flags, text="#include <reel/reel.hpp>\n")
    if bool(result.returncode) != bool(words) or words not in result.stderr:
        return f"{flags}: expected '{words or 'no message'}', got\n{result.stderr[:1000]}"
    return None


def main():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        taken = pool.submit(compiled, *(good for _, good, _ in CASES))
        modes = pool.map(mode_problem, MODES)
        problems = [said for said in [*pool.map(problem, CASES), *modes] if said]
    if taken.result().returncode:
        problems.append(taken.result().stderr)
    print("\n".join(problems + [f"{len(CASES)} cases, {len(problems)} wrong"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
