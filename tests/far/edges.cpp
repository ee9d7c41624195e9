// SPDX-License-Identifier: BSD-3-Clause
// Devices: those that are missing, events of two devices, layouts on the host, kernels that
// observers hear of, numbers beside tensors of another device than the DeviceScope's.
#include <string>
#include <vector>

#include <reel/reel.hpp>
#include <reel/share.hpp>

#include "lib/body/access.hpp"
#include "lib/flow/observer.hpp"
#include "lib/table/backend.hpp"
#include "support/far_device.hpp"
#include "support/refused.hpp"

using namespace reel;
using namespace reel::tests;

namespace {
const bool added = (add_far_devices(), true);
const Device far = cuda(0), farther = cuda(1);

/// "begin exp", "end exp": the kernels that are put on a queue.
struct KernelLog : Observer {
  std::vector<std::string> events;
  void kernel_begins(const DeviceCall& call) override {
    events.push_back("begin " + std::string(call.op.name));
  }
  void kernel_ends(const DeviceCall& call) override {
    events.push_back("end " + std::string(call.op.name));
  }
};
}  // namespace

TEST_CASE("synchronize() refuses a device that is missing") {
  check_refused<DeviceError>([] { synchronize(cuda(7)); }, "synchronize: device: ");
  check_refused<DeviceError>([] { synchronize(cuda(-1)); }, "got cuda:-1");
  synchronize(cpu());
  synchronize(farther);
}

TEST_CASE("an Event that is assigned brings its device along") {
  Event here(cpu());
  const Event there(far);
  CHECK(there.milliseconds_since(there) == 0);
  here = Event(far);
  CHECK(here.device() == far);
  CHECK_NOTHROW(here.milliseconds_since(there));
  CHECK_THROWS_AS(here.milliseconds_since(Event(cpu())), DeviceError);
}

TEST_CASE("observers hear of the kernels of a device, and of none of the CPU") {
  const Tensor x = ones({3}), there = x.to(far);
  KernelLog kernels;
  const ObserverScope scope(kernels);
  exp(x);
  sum(x);
  CHECK(kernels.events.empty());
  exp(there);
  CHECK(kernels.events == std::vector<std::string>{"begin exp", "end exp"});
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

TEST_CASE("an error names the devices of both Variables") {
  const Variable v("v", ones({2})), w("w", ones({2}).to(far));
  optim::SGD sgd({v, w});
  check_refused<DeviceError>(
      [&] {
        sgd.step({ones({2}), ones({2}).to(far)});
      },
      "expected a Variable on cpu like the first, got one on cuda:0");
}
