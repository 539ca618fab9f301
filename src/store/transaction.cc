#include "store/transaction.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

namespace tessera::store {
namespace {

Status check_key(const std::string& key, const char* role) {
  if (key.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("transaction: the key of a {} is empty", role)};
  }
  if (key.size() > kKeyBytesMax) {
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("transaction: the key of a {} has {} bytes, allowed are {}", role,
                             key.size(), kKeyBytesMax)};
  }
  return {};
}

Status check_change(const std::string& key, const char* role, std::set<std::string_view>& changed) {
  TESSERA_RETURN_IF_ERROR(check_key(key, role));
  if (changed.insert(key).second) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("transaction: key '{}' is changed twice, allowed is one put or delete", key)};
}

Status check_count(std::size_t found, std::size_t allowed, const char* what) {
  if (found <= allowed) return {};
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("transaction: {} {}, allowed are {}; divide it", found, what, allowed)};
}

}  // namespace

Comparison modified_at(std::string key, Revision revision) {
  return {.key = std::move(key), .with = CompareWith::kModified, .revision = revision};
}

Comparison created_at(std::string key, Revision revision) {
  return {.key = std::move(key), .with = CompareWith::kCreated, .revision = revision};
}

Comparison absent(std::string key) { return created_at(std::move(key), 0); }

Comparison has_value(std::string key, std::string value) {
  return {.key = std::move(key), .with = CompareWith::kValue, .value = std::move(value)};
}

Status check_transaction(const Transaction& transaction) {
  const std::size_t changes = transaction.puts.size() + transaction.deletes.size();
  TESSERA_RETURN_IF_ERROR(
      check_count(transaction.comparisons.size(), kComparisonsMax, "comparisons"));
  TESSERA_RETURN_IF_ERROR(check_count(changes, kChangesMax, "puts and deletes"));
  std::size_t bytes = 0;
  std::set<std::string_view> changed;
  for (const Comparison& comparison : transaction.comparisons) {
    TESSERA_RETURN_IF_ERROR(check_key(comparison.key, "comparison"));
    bytes += comparison.key.size() + comparison.value.size();
  }
  for (const Put& put : transaction.puts) {
    TESSERA_RETURN_IF_ERROR(check_change(put.key, "put", changed));
    bytes += put.key.size() + put.value.size();
  }
  for (const std::string& key : transaction.deletes) {
    TESSERA_RETURN_IF_ERROR(check_change(key, "delete", changed));
    bytes += key.size();
  }
  return check_count(bytes, kTransactionBytesMax, "bytes of keys and values");
}

}  // namespace tessera::store
