// SPDX-License-Identifier: BSD-3-Clause
// Usage: loader SUBJECT PLACE END MODULE. Calls `make_subject` of a module that uses the library,
// then unloads the module. The program itself has no copy of the library. The exit status is 0 if
// there was no error.
#include <dlfcn.h>

#include <cstdio>
#include <string_view>
#include <thread>

namespace {
bool unload(const char* module, const char* subject, const char* place) {
  void* const library = dlopen(module, RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::fprintf(stderr, "%s\n", dlerror()), false;
  const auto make_subject =
      reinterpret_cast<bool (*)(const char*, const char*)>(dlsym(library, "make_subject"));
  return make_subject && make_subject(subject, place) && dlclose(library) == 0;
}
}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  bool done = false;
  const auto run = [&] { done = unload(arguments[4], arguments[1], arguments[2]); };
  if (std::string_view(arguments[3]) == "dlclose")
    run();
  else
    std::thread(run).join();
  return !done;
}
