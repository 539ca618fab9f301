// What other processes of a cluster may send: heads of messages, records, results of runs, tenants' files, batches and
// statistics of cards that run one network together.
#include <cstring>
#include <string>

#include "card/peer_batch.h"
#include "cluster/address.h"
#include "cluster/fields.h"
#include "cluster/message.h"
#include "cluster/records.h"
#include "cluster/request_quota.h"
#include "cluster/run_details.h"
#include "cluster/tenants.h"

namespace {

using namespace tessera::cluster;

// What is taken is written as it came.
void check_same(std::span<const std::byte> bytes, const std::vector<std::byte>& written) {
  if (written.size() != bytes.size() ||
      std::memcmp(written.data(), bytes.data(), bytes.size()) != 0) {
    __builtin_trap();
  }
}

// What is taken is written as it was understood, and then read as the same.
template <typename Parse>
void check(const Parse& parse, const std::string& text) {
  const auto once = parse(text);
  if (!once.ok()) return;
  const std::string written = encode(*once);
  const auto again = parse(written);
  if (!again.ok() || encode(*again) != written) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 9) {
    case 0:
      check(parse_node, text);
      break;
    case 1:
      check(parse_pool, text);
      break;
    case 2:
      check(parse_alloc, text);
      break;
    case 3:
      check(parse_cluster, text);
      break;
    case 4: {
      (void)Tenants::parse(text);
      (void)parse_error_text(text);
      const auto object = parse_object(text, "quota");
      if (object.ok()) {
        const auto quota = quota_from_json(*object);
        if (quota.ok() && quota_from_json(to_json(*quota)).value() != *quota) __builtin_trap();
      }
      (void)parse_cluster_address("cluster:" + text.substr(0, text.find("token_file")));
      break;
    }
    case 5: {
      const auto run = parse_details(bytes);
      if (run.ok()) check_same(bytes, encode_details(*run));
      break;
    }
    case 6: {
      const auto batch = tessera::card::parse_batch(bytes);
      if (batch.ok()) check_same(bytes, tessera::card::encode_batch(*batch));
      break;
    }
    case 7: {
      const auto statistics = tessera::card::parse_statistics(bytes);
      if (statistics.ok()) check_same(bytes, tessera::card::encode_statistics(*statistics));
      break;
    }
    default: {
      const auto header = parse_header(bytes, 0, MessageLimits{});
      if (!header.ok()) break;
      const auto written = encode_header(*header);
      if (written.size() != bytes.size() ||
          std::memcmp(written.data(), bytes.data(), bytes.size()) != 0) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
