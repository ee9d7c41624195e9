// SPDX-License-Identifier: BSD-3-Clause
// The first line of an error if names are long, and if the user's line is unknown.
#include <memory>

#include "sweep/hostile.hpp"

namespace reel::tests {
namespace {
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }
bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
Tensor pair() { return tensor({1.0f, 2.0f}); }
}  // namespace

TEST_CASE("a first line of at most 200 characters still says what was got") {
  const std::string name(300, 'n'), digits = "1" + std::string(300, '0');
  const Variable integers(name + "\n", tensor({1}));
  const auto long_scope = [&](auto f) {
    const CallerScope scope({name.c_str(), 7}, name);
    f();
  };
  const std::pair<std::string, std::string> messages[] = {
      {message_of([&] { full_like(tensor({1}), 1e300); }), ", got 1e+300"},
      {message_of([&] { call_op(name, {1.0}); }), ", got \"nnn"},
      {message_of([&] { io::load_npy(name); }), ", got "},
      {message_of([&] { fail<Error>({}, "f", "x", digits, "2"); }), ", got 2"},
      {message_of([&] { fail<Error>({}, name, name, name, digits); }), ", got 1000"},
      {message_of([&] { optim::SGD({integers}); }), ", got int32"},
      {message_of([&] { long_scope([] { sum(pair(), 1); }); }), ", got 1"}};
  for (const auto& [message, got] : messages) {
    INFO(message);
    CHECK(first_line(message).size() <= 200);
    CHECK(contains(first_line(message), "expected "));
    CHECK(contains(first_line(message), got));
  }
  CHECK(contains(messages[3].first.substr(200), digits));  // the full text is on a later line
}

TEST_CASE("where C++ hands on no line, an error names none") {
  const std::string messages[] = {message_of([] { return static_cast<bool>(pair()); }),
                                  message_of([] { return static_cast<bool>(Tensor()); }),
                                  message_of([] { return fmt::format("{:q}", pair()); }),
                                  message_of([] { std::make_unique<nn::Linear>(0, 1); }),
                                  message_of([] { std::vector<nn::Linear>().emplace_back(0, 1); }),
                                  message_of([] {
                                    std::vector<std::unique_ptr<GradientTape>> tapes;
                                    for (int i = 0; i < 65; ++i)
                                      tapes.push_back(std::make_unique<GradientTape>());
                                  })};
  const char* const beginnings[] = {"bool: tensor: ", "bool: x: ",    "to_string: format: ",
                                    "Linear: in: ",   "Linear: in: ", "GradientTape: tapes: "};
  for (std::size_t i = 0; i < std::size(messages); ++i) {
    INFO(messages[i]);
    CHECK(messages[i].find(beginnings[i]) == 0);
    CHECK(!contains(messages[i], "\n  at "));
  }
}

TEST_CASE("errors name the outermost layer, and the op in it") {
  const auto mine = [](Operand x) {
    const CallerScope scope(x.caller(), "Mine");
    return nn::Linear(3, 3)(matmul(x, ones({2, 3})));
  };
  const std::string message = message_of([&] { mine(ones({4, 3})); });
  CHECK(contains(first_line(message), "Mine: y of matmul: expected "));
  CHECK(contains(first_line(message_of([&] { matmul(pair(), ones({3})); })), ": matmul: y: "));
  register_op("named_product",
              [](const OpCall& call) { return Tensors{matmul(call.input(0), call.input(1))}; });
  CHECK(contains(first_line(message_of([&] {
                   call_op("named_product", {pair(), ones({3})});
                 })),
                 ": named_product: y of matmul: expected "));
}
}  // namespace reel::tests
