// SPDX-License-Identifier: BSD-3-Clause
// R21: a path leads to the old file or to the new file, whatever call fails and whenever the writer
// ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/system_calls.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
namespace fs = std::filesystem;

std::ptrdiff_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}
bool is_long() { return std::getenv("REEL_TEST_LONG") != nullptr; }

/// What is at the path before a tensor is saved.
enum class Start { nothing, file, link, open_link };

std::string bytes_of(const Tensor& x) {
  const Folder folder;
  io::save_npy(folder.file("x.npy"), x);
  return contents(folder.file("x.npy"));
}
const std::string& old_bytes() {
  static const std::string bytes = bytes_of(tensor({1, 2, 3}));
  return bytes;
}

/// A folder with this state of the path, and with what is in its files.
struct TestFolder {
  Folder folder;
  std::string path = folder.file("x.npy"), target = path;
  std::string old;
  std::ptrdiff_t count = 0;
  explicit TestFolder(Start start) {
    if (start == Start::link || start == Start::open_link) {
      target = folder.file("target.npy");
      fs::create_symlink("target.npy", folder.file("between"));
      fs::create_symlink("between", path);
    }
    if (start == Start::file || start == Start::link) {
      write_file(target, old_bytes());
      REQUIRE(chmod(target.c_str(), 0640) == 0);
      old = contents(target);
    }
    count = folder.count();
  }
};

std::vector<Tensor> values() {
  return {arange(0.0f, 100.0f).reshape({4, 25}), transpose(arange(0, 6).reshape({2, 3})),
          zeros({0, 3}, {.dtype = DType::float64}), tensor({true, false})};
}
constexpr Start starts[] = {Start::nothing, Start::file, Start::link, Start::open_link};
}  // namespace

TEST_CASE("a failure of any system call leaves the old file or the new one, and nothing else") {
  int failures = 0;
  for (const Start start : starts)
    for (const Tensor& x : values()) {
      const std::string wanted = bytes_of(x);
      for (const int error : {EIO, ENOSPC, EACCES, EINTR, EDQUOT})
        for (const std::size_t most_bytes : {0, 60})
          for (int k = 0;; ++k) {
            TestFolder folder(start);
            const std::ptrdiff_t files = open_files();
            system_calls = {.until_failure = k, .error = error, .most_bytes = most_bytes};
            std::string thrown;
            try {
              const Armed armed;
              io::save_npy(folder.path, x);
            } catch (const IoError& failure) {
              thrown = failure.what();
            }
            INFO("call " << k << ", " << system_calls.failed_call << ": " << thrown);
            REQUIRE(open_files() == files);
            const std::string now = contents(folder.target);
            const bool is_new = now == wanted;
            REQUIRE((is_new || now == folder.old));
            const bool made = !fs::exists(folder.target) ? false : folder.old.empty();
            REQUIRE(folder.folder.count() == folder.count + made);
            if (!system_calls.failed) {
              REQUIRE(thrown.empty());
              REQUIRE(is_new);
              break;
            }
            ++failures;
            const std::string& call = system_calls.failed_call;
            if (thrown.empty()) REQUIRE(is_new);
            // For calls that wait, a signal is no failure.
            if (error == EINTR && (call == "write" || call == "fsync" || call == "open" ||
                                   call == "close" || call == "open folder"))
              REQUIRE(thrown.empty());
            // The writer must report a failure. Only fchown, and a close after the file is
            // complete, may fail without an error.
            if (error != EINTR && call != "fchown" && !(call == "close" && is_new))
              REQUIRE(!thrown.empty());
            if (call == "write" || call == "rename" || call == "open" || call == "open folder")
              REQUIRE((thrown.empty() || !is_new));
          }
    }
  CHECK(failures > 1000);
}

TEST_CASE("elements are on the device before the new name is, and the folder is synced after") {
  const Folder folder;
  for (const bool replaces : {false, true}) {
    system_calls = {.most_bytes = 100};
    {
      const Armed armed;
      io::save_npy(folder.file("x.npy"), arange(0.0f, 50.0f));
    }
    std::vector<std::string> order;
    for (const std::string& call : system_calls.made)
      if (call == "write" || call == "fsync" || call == "rename")
        if (order.empty() || order.back() != call) order.push_back(call);
    INFO(replaces);
    CHECK(order == std::vector<std::string>{"write", "fsync", "rename", "fsync"});
    CHECK(system_calls.made.size() > 8);
    CHECK(std::count(system_calls.made.begin(), system_calls.made.end(), "close of nothing") == 0);
  }
}

TEST_CASE("a folder that cannot be synced is no failure, a file that cannot is one") {
  int files = 0, folders = 0;
  const std::string wanted = bytes_of(tensor({4, 5, 6}));
  for (int k = 0;; ++k) {
    TestFolder folder(Start::file);
    system_calls = {.until_failure = k, .error = EINVAL};
    bool threw = false;
    try {
      const Armed armed;
      io::save_npy(folder.path, tensor({4, 5, 6}));
    } catch (const IoError&) {
      threw = true;
    }
    if (!system_calls.failed) break;
    if (system_calls.failed_call != "fsync") continue;
    const bool is_new = contents(folder.path) == wanted;
    CHECK(threw != is_new);
    ++(is_new ? folders : files);
  }
  CHECK(files == 1);
  CHECK(folders == 1);
}

TEST_CASE("a writer that is killed at any system call leaves the old file or the new one",
          "[cpu][fork]") {
  int killed = 0;
  const Tensor x = arange(0.0f, 100.0f);
  const std::string wanted = bytes_of(x);
  for (const Start start : starts)
    for (const bool after : {false, true})
      for (int k = 0;; ++k) {
        TestFolder folder(start);
        const pid_t child = fork();
        if (child == 0) {
          system_calls = {
              .until_failure = k, .kills = true, .kills_after = after, .most_bytes = 200};
          const Armed armed;
          io::save_npy(folder.path, x);
          _exit(0);
        }
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child);
        const std::string now = contents(folder.target);
        INFO("call " << k << (after ? ", after it" : ", before it"));
        REQUIRE((now == wanted || now == folder.old));
        // Files that are left over do not stop the next writer.
        io::save_npy(folder.path, x);
        REQUIRE(contents(folder.target) == wanted);
        if (WIFEXITED(status)) {
          REQUIRE(WEXITSTATUS(status) == 0);
          break;
        }
        ++killed;
      }
  CHECK(killed > 60);
}

TEST_CASE("a writer that is killed at a random moment leaves a whole file", "[cpu][fork]") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  std::mt19937 random(7);
  const Tensor a = full({3000}, 1.0f), b = full({70'000}, 2.0f);
  io::save_npy(path, a);
  const int rounds = is_long() ? 1000 : 40;
  for (int i = 0; i < rounds; ++i) {
    const pid_t child = fork();
    if (child == 0)
      for (;;) {
        io::save_npy(path, b);
        io::save_npy(path, a);
      }
    usleep(static_cast<useconds_t>(random() % 8000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const Tensor x = io::load_npy(path);
    const bool whole = equal(x, a) || equal(x, b);
    REQUIRE(whole);
  }
}

TEST_CASE("readers beside writers of one path never see a torn file", "[threads]") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const auto value = [](int writer) {
    return full({1000 + 777 * writer}, static_cast<float>(writer));
  };
  io::save_npy(path, value(0));
  const int rounds = is_long() ? 1000 : 60;
  std::atomic<int> writing = 4, torn = 0, reads = 0;
  const auto read = [&] {
    const Tensor x = io::load_npy(path);
    const int writer = static_cast<int>((x.size() - 1000) / 777);
    if (!equal(x, value(writer))) ++torn;
    ++reads;
  };
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer)
    threads.emplace_back([&, writer] {
      for (int i = 0; i < rounds; ++i) io::save_npy(path, value(writer));
      --writing;
    });
  for (int reader = 0; reader < 3; ++reader)
    threads.emplace_back([&] {
      do {
        read();
      } while (writing > 0);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(reads >= 3);
  CHECK(folder.count() == 1);
}

TEST_CASE("processes that save to one path get in each other's way as little as threads do",
          "[cpu][fork]") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  std::vector<pid_t> children;
  for (int writer = 0; writer < 3; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 40; ++i) io::save_npy(path, full({1000 + writer}, writer));
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  const Tensor x = io::load_npy(path);
  CHECK(equal(x, full({x.size()}, x.size() - 1000)));
  CHECK(folder.count() == 1);
}

TEST_CASE("a saved file has the permissions that a user expects") {
  const auto mode_of = [](const std::string& path) {
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777u;
  };
  const mode_t before = umask(027);
  const Folder folder;
  io::save_npy(folder.file("new.npy"), tensor(1));
  CHECK(mode_of(folder.file("new.npy")) == 0640);
  for (const mode_t mode : {0600u, 0604u, 0640u, 0644u, 0660u, 0666u, 0755u}) {
    REQUIRE(chmod(folder.file("new.npy").c_str(), mode) == 0);
    io::save_npy(folder.file("new.npy"), tensor(2));
    CHECK(mode_of(folder.file("new.npy")) == mode);
  }
  umask(before);
  const std::string long_name = folder.file((std::string(250, 'n') + ".npy").c_str());
  io::save_npy(long_name, tensor(3));
  CHECK(equal(io::load_npy(long_name), tensor(3)));
}

TEST_CASE("a saved file keeps its owner, and one that may not be written is not replaced",
          "[cpu][fork]") {
  if (geteuid() != 0) SKIP("another owner takes the rights of root");
  const Folder folder;
  REQUIRE(chmod(folder.path.c_str(), 0777) == 0);
  const std::string path = folder.file("x.npy");
  io::save_npy(path, tensor(1));
  REQUIRE(chown(path.c_str(), 4321, 1234) == 0);
  io::save_npy(path, tensor(2));
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK(status.st_uid == 4321);
  CHECK(status.st_gid == 1234);
  for (const auto& [owner, group] : {std::pair(4321, 0), std::pair(0, 1234), std::pair(77, 88)}) {
    const auto uid = static_cast<uid_t>(owner);
    const auto gid = static_cast<gid_t>(group);
    REQUIRE(chown(path.c_str(), uid, gid) == 0);
    REQUIRE(chmod(path.c_str(), 0640) == 0);
    io::save_npy(path, tensor(2));
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK(status.st_uid == uid);
    CHECK(status.st_gid == gid);
    CHECK((status.st_mode & 07777u) == 0640);
  }
  REQUIRE(chown(path.c_str(), 4321, 1234) == 0);
  // As another user, for whom the file is read-only or writable by all users.
  for (const mode_t mode : {0664u, 0666u}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const pid_t child = fork();
    if (child == 0) {
      int result = 0;
      if (setgid(99) != 0 || setuid(99) != 0) _exit(2);
      try {
        io::save_npy(path, tensor(3));
      } catch (const IoError&) {
        result = 1;
      }
      _exit(result);
    }
    int exit = -1;
    REQUIRE(waitpid(child, &exit, 0) == child);
    CHECK(WEXITSTATUS(exit) == (mode == 0664 ? 1 : 0));
    CHECK(io::load_npy(path).item<std::int32_t>() == (mode == 0664 ? 2 : 3));
  }
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777u) == 0666);
}

TEST_CASE("saving follows links, keeps what leads there, and replaces nothing but files") {
  const Folder folder;
  const std::string target = folder.file("target.npy"), link = folder.file("link.npy"),
                    pipe = folder.file("pipe"), loop = folder.file("loop");
  fs::create_symlink("target.npy", link);
  io::save_npy(link, tensor(1));
  CHECK(fs::is_symlink(link));
  CHECK(io::load_npy(target).item<std::int32_t>() == 1);
  io::save_npy(link, tensor(2));
  CHECK(fs::is_symlink(link));
  CHECK(io::load_npy(target).item<std::int32_t>() == 2);
  fs::create_directory(folder.file("inner"));
  fs::create_directory_symlink("inner", folder.file("way"));
  io::save_npy(folder.file("way/x.npy"), tensor(3));
  CHECK(io::load_npy(folder.file("inner/x.npy")).item<std::int32_t>() == 3);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink("loop", loop);
  const auto count = folder.count();
  check_refused<IoError>([&] { io::save_npy(pipe, tensor(1)); }, "regular file");
  check_refused<IoError>([&] { io::load_npy(pipe); }, "regular file");
  check_refused<IoError>([&] { io::save_npy(loop, tensor(1)); }, "save_npy");
  check_refused<IoError>([&] { io::save_npy(folder.path, tensor(1)); }, "regular file");
  check_refused<IoError>([&] { io::save_npy(folder.file("no/x.npy"), tensor(1)); }, "save_npy");
  check_refused<IoError>([&] { io::save_npy(folder.file("no/"), tensor(1)); }, "save_npy");
  check_refused<IoError>([&] { io::save_npy(target + "/x.npy", tensor(1)); }, "save_npy");
  check_refused<IoError>([&] { io::save_npy("", tensor(1)); }, "save_npy");
  check_refused<IoError>([&] { io::save_npy(target + std::string(1, '\0') + "x", tensor(1)); },
                         "byte 0");
  check_refused<Error>([&] { io::save_npy(target, Tensor()); }, "undefined");
  CHECK(fs::is_fifo(pipe));
  CHECK(fs::is_symlink(loop));
  CHECK(folder.count() == count);
}

TEST_CASE("as many links in a chain are followed as the system follows") {
  for (int links = 38; links < 43; ++links) {
    const Folder folder;
    io::save_npy(folder.file("target.npy"), tensor(1));
    const std::string target = folder.file("target.npy");
    std::string path = target;
    for (int i = 0; i < links; ++i) {
      const std::string link = folder.file(("link" + std::to_string(i)).c_str());
      fs::create_symlink(i % 2 ? path : fs::path(path).filename().string(), link);
      path = link;
    }
    INFO(links);
    struct stat status {};
    const bool follows = stat(path.c_str(), &status) == 0;
    CHECK(follows == (links <= 40));
    if (!follows) {
      check_refused<IoError>([&] { io::save_npy(path, tensor(2)); }, "Too many levels");
      check_refused<IoError>([&] { io::load_npy(path); }, "Too many levels");
      continue;
    }
    io::save_npy(path, tensor(2));
    CHECK(fs::is_symlink(path));
    CHECK(io::load_npy(path).item<std::int32_t>() == 2);
    CHECK(io::load_npy(target).item<std::int32_t>() == 2);
  }
}

TEST_CASE("a path without a folder is saved in the working folder") {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  io::save_npy("x.npy", tensor(5));
  const Tensor read = io::load_npy("x.npy");
  fs::current_path(before);
  CHECK(equal(read, tensor(5)));
  CHECK(folder.count() == 1);
}
}  // namespace reel::tests
