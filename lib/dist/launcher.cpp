// SPDX-License-Identifier: BSD-3-Clause
// Which MPI has started this process, and its library.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "lib/body/text.hpp"
#include "lib/dist/state.hpp"

namespace reel::dist::detail {
namespace {
const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? value : nullptr;
}
struct Launcher {
  const char* mpi;       // as in the names of libraries; null: there is no launcher
  const char* evidence;  // the variable that says so
  const char* ranks;     // how many it has started, if it says
};
Launcher launcher() {
  if (const char* const ranks = variable("OMPI_COMM_WORLD_SIZE"))
    return {"openmpi", "OMPI_COMM_WORLD_SIZE", ranks};
  if (variable("PMIX_RANK")) return {"openmpi", "PMIX_RANK", variable("SLURM_STEP_NUM_TASKS")};
  if (const char* const ranks = variable("PMI_SIZE")) return {"mpich", "PMI_SIZE", ranks};
  if (variable("PMI_RANK")) return {"mpich", "PMI_RANK", variable("SLURM_STEP_NUM_TASKS")};
  return {nullptr, nullptr, nullptr};
}

/// Beside this library, if it is there; else where the dynamic loader searches.
std::string path_of(const std::string& file) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&open_mpi), &self) && self.dli_fname) {
    const std::string own = self.dli_fname;
    const std::string beside = own.substr(0, own.rfind('/') + 1) + file;
    if (::access(beside.c_str(), F_OK) == 0) return beside;
  }
  return file;
}
}  // namespace

bool has_launcher() {
  if (launcher().mpi) return true;
  // srun without --mpi starts processes that do not know each other.
  const char *const tasks = variable("SLURM_STEP_NUM_TASKS"), *const step =
                                                                  variable("SLURM_STEP_ID");
  if (tasks && step && variable("SLURM_PROCID") && std::atoi(tasks) > 1)
    fail<DistError>({}, "World", "launcher", "srun --mpi=pmix or --mpi=pmi2",
                    Text(tasks) + " tasks of srun that no MPI joins",
                    "`srun --mpi=list` names what Slurm has.");
  return false;
}

void open_mpi(EngineTable& table, Caller caller) {
  const Launcher found = launcher();
  if (!found.mpi)
    fail<DistError>(caller, "World", "options.engine", "a process that mpirun or srun has started",
                    "one without a launcher of MPI", "mpirun -n 2 program");
  const std::string named = "libreel_mpi_" + std::string(found.mpi) + ".so";
  const char* const other = variable("REEL_MPI_LIBRARY");
  const std::string path = other ? std::string(other) : path_of(named);
  // Components of Open MPI look for its symbols among the global ones.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (!library)
    fail<DistError>(caller, "World", "launcher", named + ", as " + found.evidence + " is set",
                    "none",
                    std::string(::dlerror()) +
                        ". Build reel with the headers of this MPI, or use the launcher of the "
                        "other one.");
  const auto open = reinterpret_cast<OpenEngine>(::dlsym(library, open_engine_name));
  if (!open) fail<DistError>(caller, "World", "launcher", "an engine of reel", path, ::dlerror());
  if (const char* const why = open(table))
    fail<DistError>(caller, "World", "engine", "a running MPI", std::string(why));
  if (found.ranks && std::atoi(found.ranks) != table.ranks)
    fail<DistError>(caller, "World", "launcher",
                    Text(found.ranks) + " ranks, as " + found.evidence + " says",
                    to_text(table.ranks) + " of " + Text(std::string_view(table.name)),
                    "The program was started by the launcher of another MPI: use the mpirun of "
                    "the MPI that " +
                        path + " is linked with.");
}
}  // namespace reel::dist::detail
