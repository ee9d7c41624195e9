// SPDX-License-Identifier: BSD-3-Clause
// all_reduce() beside MPI's own call, in turn, on the ranks that mpirun has started.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

using namespace reel;

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}
}  // namespace

int main() {
  const dist::World world;
  if (world.engine() == "single") return std::puts("start it with mpirun"), 1;
  struct Row {
    const char* name;
    std::int64_t floats;
    int times;
  };
  for (const auto& [name, floats, times] :
       {Row{"4 KB", 1 << 10, 3000}, Row{"1 MB", 1 << 18, 300}, Row{"64 MB", 1 << 24, 15}}) {
    const Tensor x = random::normal({floats});
    const auto values = x.values<float>();
    std::vector<float> sum(static_cast<std::size_t>(floats));
    std::vector<double> ours, theirs;
    for (int k = 0; k < times; ++k) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = now();
      MPI_Allreduce(&*values.begin(), sum.data(), static_cast<int>(floats), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      theirs.push_back(now() - start);
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = now();
      const Tensor all = dist::all_reduce(x, world);
      ours.push_back(now() - begin);
    }
    const double own = median(ours), mpi = median(theirs);
    if (world.rank() == 0)
      std::printf("%s, %lld ranks: all_reduce of %s: %.1f us, MPI's call %.1f us, ratio %.2f\n",
                  std::string(world.engine()).c_str(), static_cast<long long>(world.size()), name,
                  1e6 * own, 1e6 * mpi, own / mpi);
  }
}
