#include "firmware/task_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "arch/nearest.h"
#include "base/check.h"
#include "firmware/register_fields.h"

namespace tessera::firmware {
namespace {

using isa::EngineKind;

enum ConfigKind : std::size_t { kProduct, kPlanar, kTransfer, kCopy, kKernel, kMessage };

// A word of the chain that sets registers: constants first, then what stands behind the word.
struct Spelling {
  std::size_t kind;
  const char* word;
  const char* suffix;    // a second word that belongs to it ("" for none)
  const char* argument;  // register that takes the value behind it ("" for none)
  const char* set_path;  // register that it sets ("" for none)
  std::uint64_t set_value;
};
constexpr Spelling kSpellings[] = {
    {kProduct, "product", "", "", "", 0},
    {kProduct, "transpose", "", "", "transpose", 1},
    {kProduct, "add", "bias", "", "product.has_bias", 1},
    {kProduct, "activate", "", "product.activation.function", "", 0},
    {kProduct, "normalise", "", "local_response.size", "", 0},
    {kProduct, "correlate", "", "", "correlate", 1},
    {kPlanar, "compute", "", "elementwise.function", "elementwise.binary", 1},
    {kPlanar, "activate", "", "elementwise.activation.function", "", 0},
    {kPlanar, "pool", "", "pool.function", "mode", 0},
    {kPlanar, "reduce", "", "reduce.function", "mode", 2},
    {kPlanar, "transpose", "", "", "mode", 3},
    {kPlanar, "gain_bias", "", "", "mode", 4},
    {kCopy, "fill", "", "fill_bits", "fill", 1},
    {kMessage, "queue", "", "queue", "", 0},
};

// Where the n-th `read buffer` of a configuration goes, and what else it sets.
struct Read {
  std::size_t kind;
  int position;
  const char* prefix;
  const char* set_path;
  std::uint64_t set_value;
};
constexpr Read kReads[] = {{kProduct, 0, "moving", "", 0},
                           {kProduct, 1, "stationary", "dynamic", 1},
                           {kPlanar, 0, "inputs0", "", 0},
                           {kPlanar, 1, "inputs1", "input_count", 2},
                           {kPlanar, 2, "inputs2", "input_count", 3},
                           {kTransfer, 0, "buffer", "", 0},
                           {kMessage, 0, "buffer", "", 0}};

const Read* read_of(std::size_t kind, int position) {
  for (const Read& read : kReads) {
    if (read.kind == kind && read.position == position) return &read;
  }
  return nullptr;
}

// The register group of a DRAM address; "" where the configuration has none there.
std::string dram_prefix(std::size_t kind, bool write) {
  if (kind == kTransfer || kind == kMessage) return "address";
  if (kind == kCopy) return write ? "destination" : "source";
  return kind == kKernel && !write ? "source" : "";
}

const char* write_prefix(std::size_t kind) {
  if (kind == kProduct || kind == kPlanar) return "output";
  return kind == kTransfer || kind == kMessage ? "buffer" : "";
}

// ---- writing ----

class ChainWriter {
 public:
  ChainWriter(EngineKind engine, const isa::TaskConfig& config)
      : engine_(engine),
        kind_(config.index()),
        fields_(RegisterFields::of(kind_)),
        wanted_(registers_of(config)),
        made_(fields_.defaults()) {}

  std::string run() {
    switch (kind_) {
      case kProduct:
        write_product();
        break;
      case kPlanar:
        write_planar();
        break;
      case kTransfer:
        write_transfer();
        break;
      case kMessage:
        write_message();
        break;
      case kCopy:
        if (value("fill") != 0) {
          operation("fill", "");
        } else {
          dram(false, "source");
        }
        dram(true, "destination");
        break;
      default:
        dram(false, "source");
        made("kernel_offset");
        out_ += fmt::format("  write kernel {}\n", value("kernel_offset"));
        break;
    }
    write_rest();
    return std::move(out_);
  }

 private:
  const RegisterField& field(const std::string& path) const {
    const RegisterField* found = fields_.find(path);
    TESSERA_CHECK(found != nullptr, "no register '{}'", path);
    return *found;
  }
  std::uint64_t value(const std::string& path) const { return field_bits(field(path), wanted_); }
  std::string text(const std::string& path) const { return field_text(field(path), value(path)); }
  // The line just written says this register.
  void made(const std::string& path) { set_field_bits(field(path), value(path), made_); }
  void sets(const std::string& path, std::uint64_t bits) {
    if (!path.empty()) set_field_bits(field(path), bits, made_);
  }

  void write_product() {
    read(0);
    if (value("dynamic") != 0) read(1);
    operation(value("transpose") != 0 ? "transpose" : "product", "");
    if (value("product.has_bias") != 0) operation("add", "bias");
    if (value("product.activation.function") != 0) operation("activate", "");
    if (value("local_response.size") != 0) operation("normalise", "");
    if (value("correlate") != 0) operation("correlate", "");
    write();
  }

  void write_planar() {
    read(0);
    const auto inputs = value("input_count");
    if (inputs == 2 || inputs == 3) read(1);
    if (inputs == 3) read(2);
    static constexpr const char* kModes[] = {"pool", "", "reduce", "transpose", "gain_bias"};
    const auto mode = value("mode");
    if (mode < std::size(kModes) && mode != 1) operation(kModes[mode], "");
    if (value("elementwise.binary") != 0) operation("compute", "");
    if (value("elementwise.activation.function") != 0) operation("activate", "");
    write();
  }

  void write_message() {
    operation("queue", "");
    if (value("kind") == 0) return write_transfer();
    dram(false, "address");
    made("kind");
    made("kernel_offset");
    out_ += fmt::format("  write kernel {}\n", value("kernel_offset"));
  }

  void write_transfer() {
    if (engine_ == EngineKind::kLoad || engine_ == EngineKind::kMessageIn) {
      dram(false, "address");
      write();
    } else {
      read(0);
      dram(true, "address");
    }
  }

  void read(int position) {
    const Read* read = read_of(kind_, position);
    TESSERA_CHECK(read != nullptr, "read {} of configuration {}", position, kind_);
    out_ += "  read buffer " + surface(read->prefix);
    sets(read->set_path, read->set_value);
  }
  void write() { out_ += "  write buffer " + surface(write_prefix(kind_)); }

  std::string surface(const std::string& prefix) {
    const auto of = [&](const char* name) {
      made(prefix + "." + name);
      return text(prefix + "." + name);
    };
    std::string line = of("offset") + " " + of("format") + " [" + of("images") + ", ";
    line += of("channels") + ", " + of("rows") + ", " + of("columns") + "] pitch [";
    line += of("block_pitch") + ", " + of("row_pitch") + ", " + of("column_pitch") + "] ring ";
    line += of("ring_rows");
    for (const char* axis : {"channels", "images", "rows"}) {
      const std::string path = prefix + ".broadcast_" + axis;
      if (value(path) == 0) continue;
      line += std::string(" broadcast ") + axis;
      made(path);
    }
    return line + "\n";
  }

  void dram(bool write, const std::string& prefix) {
    out_ += fmt::format("  {} dram {} + {}\n", write ? "write" : "read", text(prefix + ".base"),
                        text(prefix + ".offset"));
    made(prefix + ".base");
    made(prefix + ".offset");
  }

  void operation(const std::string& word, const std::string& suffix) {
    for (const Spelling& spelling : kSpellings) {
      if (spelling.kind != kind_ || word != spelling.word || suffix != spelling.suffix) continue;
      out_ += "  " + word + (suffix.empty() ? "" : " " + suffix);
      sets(spelling.set_path, spelling.set_value);
      const std::string argument = spelling.argument;
      if (!argument.empty()) {
        out_ += " " + text(argument);
        made(argument);
      }
      out_ += "\n";
      return;
    }
    TESSERA_CHECK(false, "no operation '{}'", word);
  }

  void write_rest() {
    for (const RegisterField& field : fields_.fields()) {
      const std::uint64_t bits = field_bits(field, wanted_);
      if (bits == field_bits(field, made_)) continue;
      out_ += fmt::format("  {} = {}\n", field.path, field_text(field, bits));
    }
  }

  const EngineKind engine_;
  const std::size_t kind_;
  const RegisterFields& fields_;
  const std::vector<std::uint32_t> wanted_;
  std::vector<std::uint32_t> made_;
  std::string out_;
};

// ---- reading ----

Result<std::uint64_t> parse_value(Lexer& lexer, const RegisterField& field);

Result<std::uint64_t> parse_named(Lexer& lexer, const RegisterField& field) {
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::string name, lexer.expect_name("a name"));
  const auto found = std::find(field.names.begin(), field.names.end(), name);
  if (found == field.names.end()) {
    const std::string near = nearest_name(name, field.names);
    return lexer.error(place,
                       fmt::format("'{}' is no value of {};{} allowed: {}", name, field.path,
                                   near.empty() ? "" : fmt::format(" did you mean '{}'?", near),
                                   fmt::join(field.names, ", ")));
  }
  return static_cast<std::uint64_t>(found - field.names.begin());
}

Result<std::uint64_t> parse_value(Lexer& lexer, const RegisterField& field) {
  const Token& token = lexer.peek();
  const Place place = token.place;
  if (field.kind == FieldKind::kNamed && token.kind == TokenKind::kName) {
    return parse_named(lexer, field);
  }
  if (field.kind == FieldKind::kFlag) {
    TESSERA_TRY(const bool yes, lexer.accept_name("true"));
    if (yes) return std::uint64_t{1};
    TESSERA_TRY(const bool no, lexer.accept_name("false"));
    if (no) return std::uint64_t{0};
    return lexer.unexpected("true or false");
  }
  // An integer is the bits of a float; a number with a point or exponent its value.
  if (field.kind == FieldKind::kFloat && token.kind != TokenKind::kInteger) {
    TESSERA_TRY(const double value, lexer.expect_real("a number"));
    return std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(value))};
  }
  if (field.kind == FieldKind::kSigned) {
    TESSERA_TRY(const std::int64_t value, lexer.expect_integer(field.path.c_str()));
    if (field.bits == 32 && (value < INT32_MIN || value > INT32_MAX)) {
      return lexer.error(place, fmt::format("{} is {}, it has 32 bits", field.path, value));
    }
    return static_cast<std::uint64_t>(value);
  }
  TESSERA_TRY(const std::uint64_t value, lexer.expect_unsigned(field.path.c_str()));
  const std::uint64_t most = field.bits == 64  ? UINT64_MAX
                             : field.bits == 8 ? UINT8_MAX
                                               : UINT32_MAX;
  if (value > most) {
    return lexer.error(place, fmt::format("{} is {}, allowed 0..{}", field.path, value, most));
  }
  return value;
}

}  // namespace

std::string chain_text(EngineKind engine, const isa::TaskConfig& config) {
  return ChainWriter(engine, config).run();
}

TaskChainParser::TaskChainParser(std::size_t config_kind)
    : kind_(config_kind), registers_(RegisterFields::of(config_kind).defaults()) {}

void TaskChainParser::set(const std::string& path, std::uint64_t bits) {
  const RegisterField* field = RegisterFields::of(kind_).find(path);
  TESSERA_CHECK(field != nullptr, "no register '{}'", path);
  set_field_bits(*field, bits, registers_);
}

Status TaskChainParser::line(Lexer& lexer, const std::string& word, const Place& place) {
  if (lexer.peek().is("=")) {
    TESSERA_RETURN_IF_ERROR(assignment(lexer, word, place));
  } else if (word == "read" || word == "write") {
    TESSERA_RETURN_IF_ERROR(read_or_write(lexer, word == "write", place));
  } else {
    TESSERA_RETURN_IF_ERROR(operation(lexer, word, place));
  }
  return lexer.expect_end_of_line("here");
}

Status TaskChainParser::read_or_write(Lexer& lexer, bool write, const Place& place) {
  const char* const verb = write ? "writes" : "reads";
  TESSERA_TRY(const std::string memory, lexer.expect_name("buffer, dram or kernel"));
  if (memory == "buffer") {
    if (write) {
      if (*write_prefix(kind_) != '\0') return surface(lexer, write_prefix(kind_));
    } else if (const Read* read = read_of(kind_, buffer_reads_); read != nullptr) {
      ++buffer_reads_;
      if (*read->set_path != '\0') set(read->set_path, read->set_value);
      return surface(lexer, read->prefix);
    }
    return lexer.error(
        place, fmt::format("a {} task {} no {}surface of the state buffer", kConfigNames[kind_],
                           verb, buffer_reads_ > 0 && !write ? "further " : ""));
  }
  if (memory == "dram") {
    const std::string prefix = dram_prefix(kind_, write);
    if (prefix.empty()) {
      return lexer.error(place, fmt::format("a {} task {} nothing in DRAM; use a load, store or "
                                            "kernel task in between",
                                            kConfigNames[kind_], verb));
    }
    return dram(lexer, prefix);
  }
  if (memory == "kernel" && write && (kind_ == kKernel || kind_ == kMessage)) {
    if (kind_ == kMessage) set("kind", 1);
    TESSERA_TRY(const std::uint64_t bits,
                parse_value(lexer, *RegisterFields::of(kind_).find("kernel_offset")));
    set("kernel_offset", bits);
    return {};
  }
  return lexer.error(place,
                     fmt::format("a {} task {} no memory '{}'; allowed: buffer, dram, kernel",
                                 kConfigNames[kind_], verb, memory));
}

Status TaskChainParser::surface(Lexer& lexer, const std::string& prefix) {
  const RegisterFields& fields = RegisterFields::of(kind_);
  const auto take = [&](const char* name) -> Status {
    const std::string path = prefix + "." + name;
    TESSERA_TRY(const std::uint64_t bits, parse_value(lexer, *fields.find(path)));
    set(path, bits);
    return {};
  };
  const auto list = [&](std::initializer_list<const char*> names) -> Status {
    TESSERA_RETURN_IF_ERROR(lexer.expect("[", "in a surface"));
    bool first = true;
    for (const char* name : names) {
      if (!first) TESSERA_RETURN_IF_ERROR(lexer.expect(",", "in a surface"));
      first = false;
      TESSERA_RETURN_IF_ERROR(take(name));
    }
    return lexer.expect("]", "in a surface");
  };
  TESSERA_RETURN_IF_ERROR(take("offset"));
  TESSERA_RETURN_IF_ERROR(take("format"));
  TESSERA_RETURN_IF_ERROR(list({"images", "channels", "rows", "columns"}));
  TESSERA_TRY(const bool pitch, lexer.accept_name("pitch"));
  if (!pitch) return lexer.unexpected("'pitch [block, row, column]'");
  TESSERA_RETURN_IF_ERROR(list({"block_pitch", "row_pitch", "column_pitch"}));
  TESSERA_TRY(const bool ring, lexer.accept_name("ring"));
  if (!ring) return lexer.unexpected("'ring' and a number of rows");
  TESSERA_RETURN_IF_ERROR(take("ring_rows"));
  while (lexer.peek().is_name("broadcast")) {
    TESSERA_RETURN_IF_ERROR(lexer.advance());
    const Token axis = lexer.peek();
    TESSERA_TRY(const std::string name, lexer.expect_name("channels, images or rows"));
    if (name != "channels" && name != "images" && name != "rows") {
      return lexer.error(axis.place, fmt::format("'{}' does not broadcast; allowed: channels, "
                                                 "images, rows",
                                                 name));
    }
    set(prefix + ".broadcast_" + name, 1);
  }
  return {};
}

Status TaskChainParser::dram(Lexer& lexer, const std::string& prefix) {
  const RegisterFields& fields = RegisterFields::of(kind_);
  TESSERA_TRY(const std::uint64_t base, parse_value(lexer, *fields.find(prefix + ".base")));
  set(prefix + ".base", base);
  TESSERA_RETURN_IF_ERROR(lexer.expect("+", "and an offset in bytes"));
  TESSERA_TRY(const std::uint64_t offset, parse_value(lexer, *fields.find(prefix + ".offset")));
  set(prefix + ".offset", offset);
  return {};
}

Status TaskChainParser::operation(Lexer& lexer, const std::string& word, const Place& place) {
  const RegisterFields& fields = RegisterFields::of(kind_);
  std::vector<std::string> known;
  for (const Spelling& spelling : kSpellings) {
    if (spelling.kind != kind_) continue;
    known.emplace_back(spelling.word);
    if (word != spelling.word) continue;
    if (*spelling.suffix != '\0') {
      TESSERA_TRY(const bool there, lexer.accept_name(spelling.suffix));
      if (!there) return lexer.unexpected(fmt::format("'{}'", spelling.suffix));
    }
    if (*spelling.set_path != '\0') set(spelling.set_path, spelling.set_value);
    if (*spelling.argument != '\0') {
      TESSERA_TRY(const std::uint64_t bits, parse_value(lexer, *fields.find(spelling.argument)));
      set(spelling.argument, bits);
    }
    return {};
  }
  return lexer.error(place, fmt::format("'{}' is no line of a {} task; allowed: read, write, {}{}"
                                        "NAME = VALUE, after, words, end",
                                        word, kConfigNames[kind_], fmt::join(known, ", "),
                                        known.empty() ? "" : ", "));
}

Status TaskChainParser::assignment(Lexer& lexer, const std::string& path, const Place& place) {
  const RegisterFields& fields = RegisterFields::of(kind_);
  const RegisterField* field = fields.find(path);
  if (field == nullptr) {
    std::vector<std::string> names;
    for (const RegisterField& known : fields.fields()) names.push_back(known.path);
    const std::string near = nearest_name(path, names);
    return lexer.error(place,
                       fmt::format("a {} task has no register '{}'{}", kConfigNames[kind_], path,
                                   near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect("=", "behind the register"));
  TESSERA_TRY(const std::uint64_t bits, parse_value(lexer, *field));
  set(path, bits);
  return {};
}

}  // namespace tessera::firmware
