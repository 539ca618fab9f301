// The name of a processor in a cluster, as an application gives it:
//
//   cluster:HOST:PORT[,HOST:PORT...][?KEY=VALUE&...]
//
//   cores=4         that it gets for itself                 1
//   cards=2         over so many cards as a whole, of one or more machines    1; then cores= is of all together
//   arch=cloud16    of the card                             the network's or device's architecture
//   memory=BYTES    of each group in which it has a core    a core's part
//   weight=2        of its channels, 1 to 16                1
//   name=a          of the allocation                       made up
//   node=n1         that it is to be on                     any
//   alloc=a         an allocation that there is, instead of a new one; cores= then says how many it has
//   tenant=t        where the cluster asks for no tokens    default
//   token_file=F    the tenant's token, in a file           the cluster asks for none
//   in_flight=2     runs on their way at once, of a Runtime 2
//   patience=20     seconds that it is waited for a master or another node
//   medium=tcp      how tensors go to the node: tcp, shm, ucx; auto: shm on its machine, else tcp    auto
//   tls_authority=F, tls_certificate=F, tls_key=F    PEM files of this machine; all of them for TLS, or none
//   without_tls=1   beyond this machine without TLS, if that is meant
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/messenger.h"

namespace tessera::cluster {

enum class NodeMedium : std::uint8_t { kAuto, kTcp, kSharedMemory, kUcx };

struct ClusterAddress {
  std::vector<std::string> masters;  // HOST:PORT
  int cores = 1;                     // 0: all of its cards
  bool has_cores = false;  // it says so; of an allocation that there is: which has as many
  int cards = 1;
  bool has_processor = false;  // it says something of a processor: cores to alloc, above
  std::string arch, name, node, alloc, tenant;
  std::int64_t memory_bytes = 0, weight = 1;
  std::string token;
  int in_flight = 2;
  std::chrono::milliseconds patience{20000};
  NodeMedium medium = NodeMedium::kAuto;
  MessengerOptions messenger = {};
};

// HOST:PORT each, of one or more lists with commas between.
Result<std::vector<std::string>> parse_masters(const std::vector<std::string>& lists);
bool is_cluster_address(const std::string& text);
// Reads the token's file, too. kInvalidArgument: what is wrong, and what is allowed.
Result<ClusterAddress> parse_cluster_address(const std::string& text);
// A file's token: its text without the line's end.
Result<std::string> read_token(const std::string& path);

}  // namespace tessera::cluster
