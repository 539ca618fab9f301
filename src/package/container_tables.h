// Tables of the schema (container.fbs) and what they stand for: what packages, programs and what is prepared
// for several cores have in common. What comes from a file is checked.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "container_generated.h"
#include "isa/program.h"

namespace tessera::package {

// ---- out ----

std::vector<std::unique_ptr<fb::TensorSlotT>> to_fb(const std::vector<isa::TensorSlot>& slots);
// Node, inputs and outputs.
std::unique_ptr<fb::HostStepT> to_fb(const isa::HostStep& step);
std::vector<std::unique_ptr<fb::HintT>> to_fb(const std::vector<isa::LayerHint>& hints);
std::vector<std::uint8_t> to_fb(const isa::Sha256& digest);
// Without a digest.
std::unique_ptr<fb::ConstantT> constant_entry(const std::string& name, Format format,
                                              const Shape& dims, const isa::SectionPart& place);
// In the section of another file.
std::unique_ptr<fb::ConstantT> elsewhere(const std::string& name, Format format, const Shape& dims,
                                         const isa::SectionPart& place);
std::vector<std::unique_ptr<fb::WeightPartT>> to_fb(const std::vector<isa::RegionPart>& parts);

// ---- back; the errors name the file and the place in it ----

Error bad(const std::string& name, const std::string& what);
Result<Format> format_of(std::uint8_t value, const std::string& what);
// Bytes of a dense tensor, checked against overflow.
Result<std::int64_t> dense_bytes(const Shape& dims, Format format, const std::string& what);
Result<std::vector<isa::TensorSlot>> slots_of(
    const std::vector<std::unique_ptr<fb::TensorSlotT>>& list, const std::string& name);
// As to_fb() of a host step.
Result<isa::HostStep> host_step_of(const fb::HostStepT& entry, const std::string& name);
std::vector<isa::LayerHint> hints_of(const std::vector<std::unique_ptr<fb::HintT>>& list);
// A constant that is read alone, of a section of `section_bytes`.
Result<isa::SectionPart> part_of(const fb::ConstantT& entry, std::uint64_t section_bytes,
                                 const std::string& name);
// Ranges of the weights that are elsewhere, in such a section; `between`: bytes of the others.
Result<std::vector<isa::RegionPart>> weight_parts_of(
    const std::vector<std::unique_ptr<fb::WeightPartT>>& list, std::uint64_t between,
    std::uint64_t section_bytes, const std::string& name);
// How many dependencies were dropped; the linker adds to it.
Result<std::int64_t> count_of(std::int64_t dropped, const std::string& name);

// The root of `payload`, which is a table of the schema. It shows the payload's bytes.
template <typename Table>
Result<const Table*> root_of(std::span<const std::byte> payload, const std::string& name) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(payload.data());
  flatbuffers::Verifier verifier(data, payload.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<Table>(nullptr)) {
    return bad(name, "the payload is not a valid FlatBuffers table");
  }
  return flatbuffers::GetRoot<Table>(data);
}

template <typename Table, typename Object>
Result<Object> unpack(std::span<const std::byte> payload, const std::string& name) {
  TESSERA_TRY(const Table* root, root_of<Table>(payload, name));
  Object object;
  root->UnPackTo(&object);
  return object;
}

}  // namespace tessera::package
