#include "store/etcd_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/deadline.h"
#include "store/etcd/endpoints.h"

namespace tessera::store {
namespace {

using etcd::Clock;
using etcd::Endpoint;
using etcd::Endpoints;
using etcd::Milliseconds;
using etcd::Repeat;

etcdserverpb::Compare::CompareResult relation_of(Relation relation) {
  switch (relation) {
    case Relation::kEqual:
      return etcdserverpb::Compare::EQUAL;
    case Relation::kNotEqual:
      return etcdserverpb::Compare::NOT_EQUAL;
    case Relation::kLess:
      return etcdserverpb::Compare::LESS;
    case Relation::kGreater:
      return etcdserverpb::Compare::GREATER;
  }
  return etcdserverpb::Compare::EQUAL;
}

void add_comparison(etcdserverpb::TxnRequest& request, const Comparison& comparison) {
  etcdserverpb::Compare& compare = *request.add_compare();
  compare.set_key(comparison.key);
  compare.set_result(relation_of(comparison.relation));
  switch (comparison.with) {
    case CompareWith::kModified:
      compare.set_target(etcdserverpb::Compare::MOD);
      compare.set_mod_revision(comparison.revision);
      break;
    case CompareWith::kCreated:
      compare.set_target(etcdserverpb::Compare::CREATE);
      compare.set_create_revision(comparison.revision);
      break;
    case CompareWith::kValue:
      compare.set_target(etcdserverpb::Compare::VALUE);
      compare.set_value(comparison.value);
      break;
  }
}

etcdserverpb::TxnRequest request_of(const Transaction& transaction) {
  etcdserverpb::TxnRequest request;
  for (const Comparison& each : transaction.comparisons) add_comparison(request, each);
  for (const Put& put : transaction.puts) {
    etcdserverpb::PutRequest& made = *request.add_success()->mutable_request_put();
    made.set_key(put.key);
    made.set_value(put.value);
    made.set_lease(put.lease);
  }
  for (const std::string& key : transaction.deletes) {
    request.add_success()->mutable_request_delete_range()->set_key(key);
  }
  // A member answers comparisons alone from what it has; with a read it asks the quorum.
  if (request.success_size() == 0) {
    etcdserverpb::RangeRequest& read = *request.add_success()->mutable_request_range();
    read.set_key(request.compare_size() > 0 ? request.compare(0).key() : std::string(1, '\0'));
    read.set_count_only(true);
  }
  return request;
}

// A call that etcd itself refused.
Error refused(const Endpoints& endpoints, const std::string& what, const grpc::Status& status) {
  ErrorCode code = ErrorCode::kInvalidArgument;
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) code = ErrorCode::kUnavailable;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) code = ErrorCode::kUnsupported;
  return {code, fmt::format("{}: {}: {}", endpoints.describe(), what, status.error_message())};
}

class EtcdStore : public Store {
 public:
  explicit EtcdStore(std::shared_ptr<Endpoints> endpoints) : endpoints_(std::move(endpoints)) {}

  Result<Entries> read_prefix(std::string_view prefix, Milliseconds timeout) override {
    etcdserverpb::RangeRequest request;
    etcd::set_prefix(request, std::string(prefix));
    etcdserverpb::RangeResponse response;
    TESSERA_RETURN_IF_ERROR(range(request, response, prefix, timeout));
    Entries found{.revision = response.header().revision()};
    for (const mvccpb::KeyValue& pair : response.kvs()) {
      found.entries.push_back(etcd::entry_of(pair));
    }
    return found;
  }

  Result<MaybeEntry> read(std::string_view key, Milliseconds timeout) override {
    etcdserverpb::RangeRequest request;
    request.set_key(std::string(key));
    etcdserverpb::RangeResponse response;
    TESSERA_RETURN_IF_ERROR(range(request, response, key, timeout));
    MaybeEntry found{.revision = response.header().revision()};
    if (response.kvs_size() > 0) found.entry = etcd::entry_of(response.kvs(0));
    return found;
  }

  Result<CommitResult> commit(const Transaction& transaction, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check_transaction(transaction));
    const etcdserverpb::TxnRequest request = request_of(transaction);
    etcdserverpb::TxnResponse response;
    TESSERA_TRY(const grpc::Status status,
                endpoints_->call("commit", Repeat::kForbidden, timeout,
                                 [&](Endpoint& endpoint, grpc::ClientContext& context) {
                                   return endpoint.kv->Txn(&context, request, &response);
                                 }));
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      return CommitResult{.outcome = CommitOutcome::kLeaseEnded};
    }
    if (!status.ok()) return refused(*endpoints_, "commit", status);
    return CommitResult{
        .outcome = response.succeeded() ? CommitOutcome::kDone : CommitOutcome::kComparisonFailed,
        .revision = response.header().revision()};
  }

  Result<Lease> grant_lease(Milliseconds ttl, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check_lease_time(ttl));
    etcdserverpb::LeaseGrantRequest request;
    request.set_ttl(std::chrono::ceil<std::chrono::seconds>(ttl).count());
    etcdserverpb::LeaseGrantResponse response;
    // One that was granted and not heard of ends by itself.
    TESSERA_TRY(const grpc::Status status,
                endpoints_->call("grant a lease", Repeat::kAllowed, timeout,
                                 [&](Endpoint& endpoint, grpc::ClientContext& context) {
                                   return endpoint.lease->LeaseGrant(&context, request, &response);
                                 }));
    if (!status.ok()) return refused(*endpoints_, "grant a lease", status);
    return Lease{.id = response.id(), .ttl = std::chrono::seconds(response.ttl())};
  }

  Result<Renewal> renew_lease(LeaseId lease, Milliseconds timeout) override;

  Status revoke_lease(LeaseId lease, Milliseconds timeout) override {
    etcdserverpb::LeaseRevokeRequest request;
    request.set_id(lease);
    etcdserverpb::LeaseRevokeResponse response;
    TESSERA_TRY(const grpc::Status status,
                endpoints_->call("revoke a lease", Repeat::kAllowed, timeout,
                                 [&](Endpoint& endpoint, grpc::ClientContext& context) {
                                   return endpoint.lease->LeaseRevoke(&context, request, &response);
                                 }));
    if (status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND) return {};
    return refused(*endpoints_, "revoke a lease", status);
  }

  Result<std::unique_ptr<Watch>> watch(std::string_view prefix, WatchOptions options,
                                       Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check_watch_start(options.from));
    if (options.from == 0) {
      etcdserverpb::RangeRequest request;
      etcd::set_prefix(request, std::string(prefix));
      request.set_count_only(true);
      etcdserverpb::RangeResponse response;
      TESSERA_RETURN_IF_ERROR(range(request, response, prefix, timeout));
      options.from = response.header().revision() + 1;
    }
    return etcd::start_watch(endpoints_, std::string(prefix), std::move(options));
  }

  Status compact(Revision revision, Milliseconds timeout) override {
    etcdserverpb::CompactionRequest request;
    request.set_revision(revision);
    etcdserverpb::CompactionResponse response;
    TESSERA_TRY(const grpc::Status status,
                endpoints_->call("compact", Repeat::kAllowed, timeout,
                                 [&](Endpoint& endpoint, grpc::ClientContext& context) {
                                   return endpoint.kv->Compact(&context, request, &response);
                                 }));
    const bool was_compacted_before =
        status.error_message() == "etcdserver: mvcc: required revision has been compacted";
    if (status.ok() || was_compacted_before) return {};
    return refused(*endpoints_, "compact", status);
  }

  std::string describe() const override { return endpoints_->describe(); }

 private:
  Status range(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse& response,
               std::string_view key, Milliseconds timeout) {
    const std::string what = fmt::format("read '{}'", key);
    TESSERA_TRY(const grpc::Status status,
                endpoints_->call(what, Repeat::kAllowed, timeout,
                                 [&](Endpoint& endpoint, grpc::ClientContext& context) {
                                   return endpoint.kv->Range(&context, request, &response);
                                 }));
    if (!status.ok()) return refused(*endpoints_, what, status);
    return {};
  }

  std::shared_ptr<Endpoints> endpoints_;  // its watches hold it too, each on its thread
};

// A leader that was stopped and goes on believes for a moment that it still leads, and would answer a
// renewal that reaches nobody. So a read comes first, which a quorum confirms: after it no other leader
// can be elected for an election timeout, and the renewal counts only where it is answered within that
// time (EtcdOptions::attempt_time).
Result<Renewal> EtcdStore::renew_lease(LeaseId lease, Milliseconds timeout) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  const auto attempt = [&](Endpoint& endpoint, grpc::ClientContext& context) {
    grpc::Status asked = endpoints_->ask_quorum(endpoint, context.deadline());
    if (!asked.ok()) return asked;
    const auto stream = endpoint.lease->LeaseKeepAlive(&context);
    const bool is_answered = stream->Write(request) && stream->Read(&response);
    if (is_answered) context.TryCancel();
    const grpc::Status status = stream->Finish();
    if (is_answered) return grpc::Status::OK;
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer") : status;
  };
  TESSERA_TRY(const grpc::Status status,
              endpoints_->call("renew a lease", Repeat::kAllowed, timeout, attempt));
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Renewal{};
  if (!status.ok()) return refused(*endpoints_, "renew a lease", status);
  if (response.ttl() <= 0) return Renewal{};
  return Renewal{.is_alive = true, .ttl = std::chrono::seconds(response.ttl())};
}

}  // namespace

Result<std::unique_ptr<Store>> connect_etcd(const EtcdOptions& options) {
  TESSERA_TRY(std::shared_ptr<Endpoints> endpoints, Endpoints::make(options));
  return std::unique_ptr<Store>(std::make_unique<EtcdStore>(std::move(endpoints)));
}

}  // namespace tessera::store
