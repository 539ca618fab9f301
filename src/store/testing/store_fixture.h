// The two stores for tests that both must pass. One etcd serves all tests of a program; each test has
// keys of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "store/in_process_store.h"
#include "store/local_etcd.h"
#include "store/store.h"

namespace tessera::store::testing {

using namespace std::chrono_literals;

// Within which everything that must happen happens, on a machine under load too.
inline constexpr std::chrono::milliseconds kLimit = 30s;

// Why there is no etcd to test with, if so.
std::optional<std::string> why_no_etcd();

// etcd in a folder that goes with the object. Null where it is not installed.
class TestEtcd {
 public:
  static std::unique_ptr<TestEtcd> start(int members);
  ~TestEtcd();
  LocalEtcd& etcd() { return *etcd_; }
  std::unique_ptr<Store> connect() const;

 private:
  std::string folder_;
  std::unique_ptr<LocalEtcd> etcd_;
};

struct InProcessMaker {
  static std::unique_ptr<Store> make() { return std::make_unique<InProcessStore>(); }
};

struct EtcdMaker {
  static std::unique_ptr<Store> make();  // null: no etcd
};

}  // namespace tessera::store::testing
