// SPDX-License-Identifier: BSD-3-Clause
// The device of a tensor, copies between devices, and errors for ops of several devices.
#include <fmt/format.h>
#include <reel/nn.hpp>
#include <reel/optim.hpp>
#include <reel/reel.hpp>
#include <reel/share.hpp>

#include "lib/body/access.hpp"
#include "support/far_device.hpp"
#include "support/refused.hpp"

using namespace reel;
using namespace reel::tests;

namespace {
const Device far = far_device(), farther = far_device(1), other = other_device(1);

bool on_host_equal(const Tensor& x, const Tensor& y) {
  return equal(x.to(cpu()).to(DType::float64), y.to(cpu()).to(DType::float64));
}
}  // namespace

TEST_CASE("x.to(device) copies any dtype and layout there and back") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = arange(0, 24).reshape({2, 3, 4}).to(dtype);
    for (const Tensor& part : {x, transpose(x), x(1, all, range(0, 4, 2)), x(0, 0, 0),
                               x(range(0, 0)), x(all, range(2, 0, -1))}) {
      const Tensor there = part.to(far);
      CHECK(there.device() == far);
      CHECK(there.dtype() == dtype);
      CHECK(on_host_equal(there, part));
      for (const Device next : {farther, other}) {
        const Tensor moved = there.to(next);
        CHECK(moved.device() == next);
        CHECK(on_host_equal(moved, part));
        CHECK(on_host_equal(moved.to(far), part));
      }
    }
  }
}

TEST_CASE("tensors of two devices do not mix: the error names both") {
  const Tensor x = ones({2, 2}), there = x.to(far), farthest = x.to(farther);
  check_refused<DeviceError>([&] { x + there; },
                             "add: x: expected a tensor on far:0 like y, got one on cpu");
  check_refused<DeviceError>([&] { there + x; },
                             "add: y: expected a tensor on far:0 like x, got one on cpu");
  check_refused<DeviceError>([&] { matmul(there, farthest); },
                             "expected a tensor on far:0 like x, got one on far:1");
  check_refused<DeviceError>([&] { there + x.to(other); },
                             "expected a tensor on far:0 like x, got one on other:1");
  check_refused<DeviceError>([&] { concat({there, x}, 0); }, "got one on cpu");
  check_refused<DeviceError>([&] { where(x > 0, there, there); }, "on cpu");
  Variable v("v", there);
  check_refused<DeviceError>(
      [&] { v.assign(x); },
      "assign: value: expected a tensor on far:0 like the Variable, got one on cpu");
  check_refused<DeviceError>([&] { v(0).assign_add(x(0)); }, "got one on cpu");
  GradientTape tape;
  tape.watch(there);
  const Tensor y = sum(there * there);
  check_refused<DeviceError>([&] { tape.gradient(y, there, {.upstream = ones({})}); }, "upstream");
}

TEST_CASE("the parts of a Sequential move with their model") {
  struct Model {
    nn::Sequential body{nn::Linear(2, 3), tanh, nn::BatchNorm(3)};
    REEL_FIELDS(body)
  } model;
  const Tensor x = ones({4, 2});
  const TrainScope evaluating(false);
  const Tensor y = model.body(x);
  to(model, far);
  const auto all = detail::all_variables(model, "test");
  REQUIRE(all.size() == 6);
  for (const Variable& w : all) CHECK(w.device() == far);
  CHECK(on_host_equal(model.body(x.to(far)), y));
}

TEST_CASE("a number and a tensor of rank 0 on the CPU go beside tensors of any device") {
  const Tensor x = tensor({1.0f, 2.0f}).to(far), two = tensor(2.0f);
  for (const Tensor& y : {x * 2, 2 * x, x * two, two * x, where(x > 0, 2 * x, two)}) {
    CHECK(y.device() == far);
    CHECK(on_host_equal(y, tensor({2.0f, 4.0f})));
  }
  CHECK(x.to(DType::float64).dtype() == DType::float64);
  CHECK((x * tensor(2)).dtype() == DType::float32);
  CHECK(on_host_equal(x == 2, tensor({false, true})));
  CHECK(on_host_equal(tensor({1, 2}).to(far) < 1.5, tensor({true, false})));

  const Variable scale("scale", tensor(3.0f));  // on the CPU
  GradientTape tape;
  const Tensor slope = tape.gradient(sum(x * scale), scale);
  CHECK(slope.device() == cpu());
  CHECK(slope.item<float>() == 3);
}

TEST_CASE("new tensors are made where the DeviceScope says") {
  const Tensor outside = ones({2});
  {
    const DeviceScope scope(far);
    for (const Tensor& x : {zeros({2}), full({2}, 3), arange(0, 2), eye(2), tensor({1, 2}),
                            tensor(1.5), ones_like(zeros({3})), random::normal({3}),
                            random::permutation(4), from_span(std::vector<float>{1, 2}, {2}),
                            one_hot(tensor({0, 1}), 2), Variable("v", zeros({2})).value()})
      CHECK(x.device() == far);
    CHECK(zeros_like(outside).device() == cpu());
    CHECK((outside * 2).device() == cpu());
    CHECK(Variable("w", outside).device() == cpu());
  }
  CHECK(ones({2}).device() == cpu());
  CHECK(zeros_like(outside.to(far)).device() == far);
}

TEST_CASE("random numbers are those of the CPU") {
  const auto draw = [](Device device) {
    const GeneratorScope generator(Generator(7));
    const DeviceScope scope(device);
    return random::normal({1000}).to(cpu());
  };
  CHECK(equal(draw(cpu()), draw(far)));
}

TEST_CASE("a model moves with its optimizer, and goes on learning the same") {
  const Tensor x = random::normal({16, 3}), target = random::normal({16, 2});
  nn::Linear layer(3, 2), twin = clone(layer);
  optim::Adam adam(parameters(layer)), twin_adam(parameters(twin));
  const auto step = [&](nn::Linear& model, optim::Adam& optimizer, Device device) {
    GradientTape tape;
    const Tensor loss = mean(square(model(x.to(device)) - target.to(device)));
    optimizer.step(tape.gradient(loss, parameters(model)));
    return loss.item<float>();
  };
  const auto both = [&](Device device) {
    const float loss = step(layer, adam, device), expected = step(twin, twin_adam, cpu());
    CHECK(loss == Approx(expected));
    return loss;
  };
  const float first = both(cpu());
  to(layer, far);
  to(adam, far);
  for (const Variable& v : parameters(layer)) CHECK(v.device() == far);
  for (const Variable& v : parameters(adam)) CHECK(v.device() == far);
  float last = first;
  for (int i = 0; i < 20; ++i) last = both(far);
  CHECK(last < first);
  to(layer, cpu());
  to(adam, cpu());
  CHECK(both(cpu()) < last);
  check_refused<DeviceError>([&] { to(layer, far_device(7)); }, "got far:7");
  CHECK(parameters(layer)[0].device() == cpu());
}

TEST_CASE("a model may have a part on each of two kinds of devices") {
  const auto train = [](Device front, Device back, bool traced) {
    const GeneratorScope generator(Generator(3));
    nn::Linear first(4, 8, Activation::tanh), second(8, 2);
    to(first, front);
    to(second, back);
    optim::SGD one(parameters(first)), two(parameters(second));
    const auto step = [&](Tensor x) {
      GradientTape tape({.persistent = true});
      const Tensor loss = mean(square(second(first(x.to(front)).to(back))));
      one.step(tape, loss);
      two.step(tape, loss);
      return loss.to(cpu());
    };
    const auto replayed = trace(step);
    std::vector<float> losses;
    for (int i = 0; i < 8; ++i) {
      const Tensor x = arange(0, 12).reshape({3, 4}).to(float32) / (10.0f + static_cast<float>(i));
      losses.push_back((traced ? replayed(x) : step(x)).item<float>());
    }
    if (traced) CHECK(replayed.explain().find("eagerly") == std::string::npos);
    return losses;
  };
  const std::vector<float> expected = train(cpu(), cpu(), false);
  for (const bool traced : {false, true}) {
    const std::vector<float> found = train(far, other, traced);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));
  }
}

TEST_CASE("a device of a kind that no backend has is missing") {
  check_refused<DeviceError>(
      [] {
        ones({2}).to({static_cast<Device::Kind>(200), 0});
      },
      "expected a device of this machine, got kind 200:0");
}

TEST_CASE("an optimizer keeps rates and moments where its Variables are") {
  const Variable w("w", ones({3}).to(far));
  optim::Adam adam({w});
  optim::SGD sgd({w}, {.learning_rate = 0.5, .momentum = 0.5});
  CHECK(adam.learning_rate().device() == far);
  for (const Variable& v : parameters(adam)) CHECK(v.device() == far);
  for (const Variable& v : parameters(sgd)) CHECK(v.device() == far);
  adam.learning_rate().assign(0.25);
  adam.step({ones({3}).to(far)});
  sgd.step({ones({3}).to(far)});
  CHECK(allclose(w.value().to(cpu()), full({3}, 0.25)));
}

TEST_CASE("row gradients stay on the device of their table") {
  const auto trained = [](Device device) {
    nn::Embedding words(9, 4, {.sparse = true});
    words.table.assign(arange(0, 36).reshape({9, 4}).to(float32) / 10);
    to(words, device);
    optim::Adam adam({words.table}, {.learning_rate = 0.1});
    for (const Tensor& some : {tensor({3, 1, 3}), tensor({-1, 3, 0})}) {
      GradientTape tape;
      const Tensor loss = sum(square(words(some.to(device))));
      const std::vector<RowGradient> gradients = tape.row_gradients(loss, adam.variables());
      CHECK(gradients[0].rows.device() == device);
      CHECK(gradients[0].values.device() == device);
      adam.step(gradients);
    }
    return words.table.value().to(cpu());
  };
  CHECK(equal(trained(far), trained(cpu())));
}

TEST_CASE("one program runs on the CPU and on a device") {
  const Tensor a = random::uniform({256, 256});
  const Tensor there = a.to(far);
  CHECK(there.device() == far);
  CHECK(allclose(matmul(there, there).to(cpu()), matmul(a, a), {.rtol = 1e-4, .atol = 1e-4}));
  {
    const DeviceScope here(far);
    const Variable w("w", random::normal({256, 8}));
    GradientTape tape;
    const Tensor loss = mean(square(matmul(there, w)));
    CHECK(tape.gradient(loss, w).device() == far);
  }
  CHECK_THROWS_AS(a + there, DeviceError);
}

TEST_CASE("a traced function is replayed on the device, one signature for each device") {
  const Variable w("w", tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}).to(far));
  const auto f = [&](const Tensor& x) {
    Tensor y = tanh(matmul(x, w)) * 2 + x(0);
    if (sum(y).item<float>() > 0) y = -y;
    return softmax(y) + y;
  };
  const auto traced = trace(f);
  for (int i = 0; i < 12; ++i) {
    const Tensor x = (random::normal({3, 2}) * (i % 3)).to(far);
    const Tensor y = traced(x);
    CHECK(y.device() == far);
    CHECK(allclose(y.to(cpu()), f(x).to(cpu())));
  }
  const auto doubled = trace([](const Tensor& x) { return exp(x) * 2; });
  for (int i = 0; i < 4; ++i)
    for (const Device device : {cpu(), far, farther})
      CHECK(doubled(ones({4}).to(device)).device() == device);
}

TEST_CASE("a traced function notes the device scope, and Variables that move") {
  const auto made = trace([] { return full({2}, 3) * 2; });
  for (int i = 0; i < 4; ++i)
    for (const Device device : {cpu(), far, farther}) {
      const DeviceScope scope(device);
      CHECK(made().device() == device);
    }
  nn::Linear layer(3, 2);
  const auto traced = trace([&](const Tensor& x) { return layer(x) * 2; });
  for (int round = 0; round < 3; ++round)
    for (const Device device : {cpu(), far}) {
      to(layer, device);
      const Tensor x = ones({4, 3}).to(device);
      for (int i = 0; i < 4; ++i) {
        const Tensor y = traced(x);
        CHECK(y.device() == device);
        CHECK(allclose(y, layer(x) * 2));
      }
    }
}

TEST_CASE("no layout of a device's tensor lets the CPU's fast paths read it") {
  const Tensor x = ones({32, 32}), there = x.to(far);
  for (const Tensor& part :
       {transpose(there), there(all, range(0, 32, 2)), there(0), there(all, 0)}) {
    const Tensor own = ones(part.shape());
    check_refused<DeviceError>([&] { own + part; }, "one on cpu");
    check_refused<DeviceError>([&] { part* own; }, "one on cpu");
    GradientTape tape;
    tape.watch(own);
    check_refused<DeviceError>([&] { own + part; }, "one on cpu");
  }
  check_refused<DeviceError>([&] { matmul(x, transpose(there)); }, "one on cpu");
}

TEST_CASE("an optimizer's Variables are on one device") {
  const Variable v("v", ones({2})), w("w", ones({2}).to(far));
  optim::SGD sgd({v, w});
  check_refused<DeviceError>(
      [&] {
        sgd.step({ones({2}), ones({2}).to(far)});
      },
      "expected a Variable on cpu like the first, got one on far:0");
  CHECK(equal(v, ones({2})));
}

TEST_CASE("a traced step of training is replayed on the device") {
  const auto train = [](Device device, bool replayed) {
    const GeneratorScope generator(Generator(3));
    const DeviceScope scope(device);
    nn::Linear layer(4, 3);
    optim::Adam adam(parameters(layer));
    const auto step = [&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = mean(square(layer(dropout(x, 0.25)) - 1));
      adam.step(tape.gradient(loss, parameters(layer)));
      return loss;
    };
    const auto traced = trace(step);
    std::vector<float> losses;
    for (int i = 0; i < 15; ++i) {
      const Tensor x = random::normal({8, 4});
      losses.push_back((replayed ? traced(x) : step(x)).item<float>());
    }
    return losses;
  };
  const std::vector<float> expected = train(cpu(), false);
  for (const bool replayed : {false, true}) {
    const std::vector<float> found = train(far, replayed);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));
  }
}

TEST_CASE("the devices of a backend are counted, and so is their memory") {
  CHECK(device_memory_use(cpu()).live_bytes == 0);
  CHECK(device_memory_use(far_device(1)).live_bytes == 0);
  CHECK_THROWS_WITH(device_memory_use(far_device(2)), Catch::Contains("This machine has fewer."));
}

TEST_CASE("a gradient is added in place on the device") {
  const Variable w("w", zeros({3}).to(far));
  GradientTape tape;
  const Tensor plain = w + 1.0f, curved = tanh(w), y = plain * curved;
  const Tensor slope = tape.gradient(y, w);  // tanh(0) + (0 + 1) tanh'(0)
  CHECK(slope.device() == far);
  CHECK(on_host_equal(slope, ones({3})));
}

TEST_CASE("a device's transposed matrix keeps its layout on the host") {
  const Tensor x = arange(0, 6).to(DType::float32).reshape({2, 3}).to(far);
  const Tensor y = transpose(x);
  const detail::SharedView view =
      detail::view_on_host("as_eigen", y, DType::float32, Caller::here());
  for (int i = 0; i < 2; ++i) CHECK(view.strides[i] == Access::body(y)->strides[i]);
  CHECK(y.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("numbers beside tensors of the CPU stay there, whatever the DeviceScope says") {
  const Tensor x = tensor<std::int64_t>({1, 2, 3}), y = ones({3});
  const DeviceScope scope(far);
  CHECK(Operand(3).value().device() == cpu());
  CHECK(equal(x < 1.5, tensor({true, false, false}).to(cpu())));  // int64 beside a fraction
  CHECK(equal(2.5 > x, tensor({true, true, false}).to(cpu())));
  CHECK((y * 2).device() == cpu());
  CHECK((y * live(2.0)).device() == cpu());
}
