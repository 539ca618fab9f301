#include "cluster/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/fields.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kCoresMax = 1024, kCardsMax = 64;
constexpr std::int64_t kMemoryMax = std::int64_t{1} << 50;

bool is_hexadecimal(const std::string& text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// "0", "1" by core.
std::string mask_text(const std::vector<bool>& mask) {
  std::string text;
  for (const bool bit : mask) text += bit ? '1' : '0';
  return text;
}

void check_version(Fields& fields) { (void)fields.integer("version", kVersion, kVersion); }

CardRecord card_of(Fields& fields) {
  CardRecord card;
  card.arch = fields.text("arch");
  card.fingerprint = fields.text("fingerprint");
  if (card.fingerprint.size() != 16 || !is_hexadecimal(card.fingerprint)) {
    fields.refuse("'fingerprint' has not 16 hexadecimal digits");
  }
  card.groups = static_cast<int>(fields.integer("groups", 1, kCoresMax));
  card.cores_per_group = static_cast<int>(fields.integer("cores_per_group", 1, kCoresMax));
  card.memory_bytes = fields.integer("memory_bytes", 0, kMemoryMax);
  card.is_whole = fields.flag("is_whole", false);
  if (card.cores() > kCoresMax) fields.refuse(fmt::format("a card has over {} cores", kCoresMax));
  return card;
}

template <typename Record>
Result<Record> finished(const Fields& fields, Record record) {
  if (const Status status = fields.status(); !status.ok()) return status.error();
  return record;
}

}  // namespace

const char* on_control_loss_name(OnControlLoss value) {
  return value == OnControlLoss::kKeep ? "keep" : "fence";
}

Result<OnControlLoss> on_control_loss_from_name(const std::string& name) {
  if (name == "fence") return OnControlLoss::kFence;
  if (name == "keep") return OnControlLoss::kKeep;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' on control loss; allowed are fence, keep", name)};
}

std::vector<AllocPart> parts_of(const AllocRecord& record) {
  std::vector<AllocPart> parts;
  if (!record.node.empty()) {
    parts.push_back({record.node, record.incarnation, "", record.card, record.cores});
  }
  parts.insert(parts.end(), record.more.begin(), record.more.end());
  return parts;
}

std::vector<AllocPart> parts_on(const AllocRecord& record, const std::string& node) {
  std::vector<AllocPart> parts = parts_of(record);
  std::erase_if(parts, [&](const AllocPart& part) { return part.node != node; });
  return parts;
}

std::vector<std::string> nodes_of(const AllocRecord& record) {
  std::vector<std::string> nodes;
  for (const AllocPart& part : parts_of(record)) {
    if (std::ranges::count(nodes, part.node) == 0) nodes.push_back(part.node);
  }
  return nodes;
}

std::string node_key(const std::string& id) { return kNodesPrefix + id; }
std::string pool_key(const std::string& node, int card) {
  return fmt::format("{}{}/{}", kPoolPrefix, node, card);
}
std::string alloc_key(const std::string& tenant, const std::string& id) {
  return fmt::format("{}{}/{}", kAllocPrefix, tenant, id);
}

std::string encode(const ClusterRecord& record) {
  return dump({{"version", kVersion}, {"id", record.id}, {"secret", record.secret}});
}

std::string encode(const NodeRecord& record) {
  json cards = json::array();
  for (const CardRecord& card : record.cards) {
    cards.push_back({{"arch", card.arch},
                     {"fingerprint", card.fingerprint},
                     {"groups", card.groups},
                     {"cores_per_group", card.cores_per_group},
                     {"memory_bytes", card.memory_bytes}});
    // As it always was where cores are taken one by one.
    if (card.is_whole) cards.back()["is_whole"] = true;
  }
  return dump({{"version", kVersion},
               {"id", record.id},
               {"incarnation", record.incarnation},
               {"endpoint", record.endpoint},
               {"machine", record.machine},
               {"shared_memory", record.shared_memory},
               {"ucx", record.ucx},
               {"on_control_loss", on_control_loss_name(record.on_control_loss)},
               {"cards", cards}});
}

std::string encode(const PoolRecord& record) {
  return dump({{"version", kVersion},
               {"node", record.node},
               {"card", record.card},
               {"free", mask_text(record.free)},
               {"generation", record.generation},
               {"draining", record.draining},
               {"keeps", record.keeps},
               {"fingerprint", record.fingerprint}});
}

json to_json(const AllocRecord& record) {
  json document = {{"version", kVersion},
                   {"id", record.id},
                   {"tenant", record.tenant},
                   {"node", record.node},
                   {"incarnation", record.incarnation},
                   {"card", record.card},
                   {"cores", record.cores},
                   {"cores_wanted", record.cores_wanted},
                   {"arch", record.arch},
                   {"memory_bytes", record.memory_bytes},
                   {"weight", record.weight},
                   {"epoch", record.epoch},
                   {"kept", record.kept},
                   {"ticket", record.ticket}};
  // As it always was where there is one card.
  if (record.cards_wanted > 1) document["cards_wanted"] = record.cards_wanted;
  if (record.broken) document["broken"] = true;
  if (record.more.empty()) return document;
  json more = json::array();
  for (const AllocPart& part : record.more) {
    more.push_back({{"node", part.node},
                    {"incarnation", part.incarnation},
                    {"endpoint", part.endpoint},
                    {"card", part.card},
                    {"cores", part.cores}});
  }
  document["more"] = std::move(more);
  return document;
}

std::string encode(const AllocRecord& record) { return dump(to_json(record)); }

Result<ClusterRecord> parse_cluster(const std::string& text) {
  TESSERA_TRY(const json document, parse_object(text, "record of the cluster"));
  Fields fields(document, "record of the cluster");
  check_version(fields);
  ClusterRecord record;
  record.id = fields.name("id");
  record.secret = fields.name("secret");
  return finished(fields, std::move(record));
}

Result<NodeRecord> parse_node(const std::string& text) {
  TESSERA_TRY(const json document, parse_object(text, "record of a node"));
  Fields fields(document, "record of a node");
  check_version(fields);
  NodeRecord record;
  record.id = fields.name("id");
  record.incarnation = fields.name("incarnation");
  record.endpoint = fields.text("endpoint");
  record.machine = fields.text("machine", "");
  record.shared_memory = fields.text("shared_memory", "");
  record.ucx = fields.text("ucx", "");
  const auto loss = on_control_loss_from_name(fields.text("on_control_loss"));
  if (loss.ok()) {
    record.on_control_loss = *loss;
  } else {
    fields.refuse(loss.error().message);
  }
  const json* const cards = fields.array("cards");
  if (cards != nullptr && std::ssize(*cards) > kCardsMax) {
    fields.refuse(fmt::format("{} cards, allowed up to {}", cards->size(), kCardsMax));
  }
  TESSERA_RETURN_IF_ERROR(fields.status());
  for (const json& card : *cards) {
    Fields of_card(card, "card in the record of a node");
    record.cards.push_back(card_of(of_card));
    TESSERA_RETURN_IF_ERROR(of_card.status());
  }
  return record;
}

Result<PoolRecord> parse_pool(const std::string& text) {
  TESSERA_TRY(const json document, parse_object(text, "record of a card's cores"));
  Fields fields(document, "record of a card's cores");
  check_version(fields);
  PoolRecord record;
  record.node = fields.name("node");
  record.card = static_cast<int>(fields.integer("card", 0, kCardsMax - 1));
  const std::string mask = fields.text("free");
  if (std::ssize(mask) > kCoresMax || mask.find_first_not_of("01") != std::string::npos) {
    fields.refuse(fmt::format("'free' is no row of up to {} digits 0 and 1", kCoresMax));
  } else {
    for (const char c : mask) record.free.push_back(c == '1');
  }
  record.generation = fields.integer("generation", 0, kNumberMax);
  record.draining = fields.flag("draining", false);
  record.keeps = fields.flag("keeps", false);
  record.fingerprint = fields.text("fingerprint", "");
  return finished(fields, std::move(record));
}

Result<AllocRecord> alloc_from_json(const json& document) {
  Fields fields(document, "record of an allocation");
  check_version(fields);
  AllocRecord record;
  record.id = fields.name("id");
  record.tenant = fields.name("tenant");
  record.node = fields.text("node");
  if (!record.node.empty()) record.node = fields.name("node");
  record.incarnation = fields.text("incarnation");
  record.card = static_cast<int>(fields.integer("card", 0, kCardsMax - 1));
  for (const std::int64_t core : fields.integers("cores", 0, kCoresMax - 1)) {
    record.cores.push_back(static_cast<int>(core));
  }
  record.cores_wanted = static_cast<int>(fields.integer("cores_wanted", 1, kCoresMax));
  record.arch = fields.text("arch");
  record.memory_bytes = fields.integer("memory_bytes", 0, kMemoryMax);
  record.weight = fields.integer("weight", 1, 16);
  record.epoch = fields.integer("epoch", 1, kNumberMax);
  record.kept = fields.flag("kept", false);
  record.ticket = fields.name("ticket");
  record.cards_wanted = static_cast<int>(fields.integer("cards_wanted", 1, kCardsMax, 1));
  record.broken = fields.flag("broken", false);
  if (!fields.has("more")) return finished(fields, std::move(record));
  const json* const more = fields.array("more");
  if (more != nullptr && (more->empty() || std::ssize(*more) >= kCardsMax)) {
    fields.refuse(fmt::format("'more' has {} cards, allowed 1 to {}", more->size(), kCardsMax - 1));
  }
  TESSERA_RETURN_IF_ERROR(fields.status());
  for (const json& one : *more) {
    Fields of_part(one, "card in the record of an allocation");
    AllocPart part;
    part.node = of_part.name("node");
    part.incarnation = of_part.text("incarnation");
    part.endpoint = of_part.text("endpoint");
    part.card = static_cast<int>(of_part.integer("card", 0, kCardsMax - 1));
    for (const std::int64_t core : of_part.integers("cores", 0, kCoresMax - 1)) {
      part.cores.push_back(static_cast<int>(core));
    }
    TESSERA_RETURN_IF_ERROR(of_part.status());
    record.more.push_back(std::move(part));
  }
  return finished(fields, std::move(record));
}

Result<AllocRecord> parse_alloc(const std::string& text) {
  TESSERA_TRY(const json document, parse_object(text, "record of an allocation"));
  return alloc_from_json(document);
}

}  // namespace tessera::cluster
