#include "store/testing/store_fixture.h"

#include <cstdlib>
#include <filesystem>

#include "store/etcd_store.h"

namespace tessera::store::testing {

std::optional<std::string> why_no_etcd() {
#ifdef __SANITIZE_THREAD__
  return "the thread sanitizer does not see the locks inside gRPC: etcd is not tested with it";
#else
  if (find_etcd().ok()) return std::nullopt;
  return "etcd is not installed: it is not tested";
#endif
}

std::unique_ptr<TestEtcd> TestEtcd::start(int members) {
  if (!find_etcd().ok()) return nullptr;
  auto made = std::make_unique<TestEtcd>();
  made->folder_ = ::testing::TempDir() + "tessera_etcd_XXXXXX";
  if (mkdtemp(made->folder_.data()) == nullptr) {
    ADD_FAILURE() << "cannot make " << made->folder_;
    return nullptr;
  }
  auto etcd = LocalEtcd::start({.members = members, .folder = made->folder_});
  if (!etcd.ok()) {
    ADD_FAILURE() << etcd.error().to_string();
    return nullptr;
  }
  made->etcd_ = std::move(etcd).value();
  return made;
}

TestEtcd::~TestEtcd() {
  etcd_ = nullptr;
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::unique_ptr<Store> TestEtcd::connect() const {
  return connect_etcd({.endpoints = etcd_->endpoints()}).value();
}

std::unique_ptr<Store> EtcdMaker::make() {
  static const std::unique_ptr<TestEtcd> etcd = TestEtcd::start(1);
  return etcd ? etcd->connect() : nullptr;
}

}  // namespace tessera::store::testing
