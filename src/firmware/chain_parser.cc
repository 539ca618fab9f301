#include "firmware/chain_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/nearest.h"
#include "firmware/chain_body.h"
#include "firmware/declarations.h"
#include "firmware/parse_context.h"

namespace tessera::firmware {

namespace {

constexpr std::size_t kChainsMax = 1 << 17;       // unrolled
constexpr std::int64_t kStatementsMax = 1 << 20;  // executed
constexpr std::size_t kBytesOfTurn = 64;          // that count as a statement
constexpr int kLoopsMax = 8;                      // inside each other

class StatementParser {
 public:
  explicit StatementParser(ParseContext& context) : context_(context), lexer_(context.lexer) {}

  // To the end of the text, or behind the `end` of a loop.
  Status block(int loops) {
    while (true) {
      TESSERA_RETURN_IF_ERROR(lexer_.skip_empty_lines());
      const Place place = lexer_.peek().place;
      if (lexer_.peek().kind == TokenKind::kEndOfText) {
        if (loops == 0) return {};
        return lexer_.error(place, "the text ends inside a loop; close it with 'end'");
      }
      TESSERA_TRY(const std::string word, lexer_.expect_name("a statement"));
      if (word == "end" && loops > 0) return lexer_.expect_end_of_line("behind 'end'");
      TESSERA_RETURN_IF_ERROR(statement(word, place, loops));
    }
  }

 private:
  Status statement(const std::string& word, const Place& place, int loops) {
    ++statements_;
    TESSERA_RETURN_IF_ERROR(check_length(place));
    if (word == "chain") return parse_chain(context_, place);
    if (word == "task") return task(place);
    if (word == "repeat" || word == "steps") return loop(word, place, loops);
    static constexpr std::string_view kDeclarations[] = {"set",    "file",  "scalar", "vector",
                                                         "matrix", "queue", "dram"};
    if (std::ranges::find(kDeclarations, word) != std::end(kDeclarations)) {
      return parse_declaration(context_, word, place);
    }
    std::vector<std::string> names(std::begin(kDeclarations), std::end(kDeclarations));
    names.insert(names.end(), {"chain", "task", "repeat", "steps"});
    const std::string near = nearest_name(word, names);
    return lexer_.error(place,
                        fmt::format("'{}' is no statement;{} allowed: {}", word,
                                    near.empty() ? "" : fmt::format(" did you mean '{}'?", near),
                                    fmt::join(names, ", ")));
  }

  Status check_length(const Place& place) const {
    if (statements_ <= kStatementsMax && context_.program.chains.size() <= kChainsMax) return {};
    return lexer_.error(
        place, fmt::format("the loops unroll into more than {} chains or {} statements", kChainsMax,
                           kStatementsMax));
  }

  // A descriptor written out, in the chains' order.
  Status task(const Place& place) {
    TESSERA_TRY(TaskText text, parse_task(lexer_));
    if (text.has_id || text.has_dependencies || !text.stream.empty()) {
      return lexer_.error(place,
                          "a task among chains has no number, no dependencies and no words: it "
                          "gets them here");
    }
    Chain chain;
    chain.name = "task" + context_.loop_counters;
    chain.place = place;
    chain.in_time_loop = context_.in_time_loop;
    chain.task = std::move(text);
    context_.program.chains.push_back(std::move(chain));
    return {};
  }

  // `repeat NAME COUNT` and the loop over time, `steps NAME COUNT`: unrolled
  // here. Streaming takes the time loop's body once.
  Status loop(const std::string& word, const Place& place, int loops) {
    const bool time = word == "steps";
    if (loops == kLoopsMax) {
      return lexer_.error(place, fmt::format("more than {} loops inside each other", kLoopsMax));
    }
    if (time && (loops > 0 || context_.program.has_time_loop)) {
      return lexer_.error(place, "one time loop a text, and not inside another loop");
    }
    TESSERA_TRY(const std::string name, lexer_.expect_name("a scalar register that counts"));
    TESSERA_TRY(std::int64_t count, count_of(time));
    TESSERA_RETURN_IF_ERROR(lexer_.expect_end_of_line("of the loop's head"));
    if (time) {
      context_.program.has_time_loop = true;
      context_.in_time_loop = true;
      if (context_.options.streaming) count = 1;
    }
    const Lexer::Position body = lexer_.position();
    const std::string outer = context_.loop_counters;
    for (std::int64_t i = 0; i < count; ++i) {
      lexer_.seek(body);
      context_.scalars[name] = i;
      context_.loop_counters = outer + fmt::format("[{}]", i);
      TESSERA_RETURN_IF_ERROR(block(loops + 1));
      // A turn takes its time also where nothing but comments stands in it.
      statements_ += 1 + static_cast<std::int64_t>((lexer_.position().at - body.at) / kBytesOfTurn);
      TESSERA_RETURN_IF_ERROR(check_length(place));
    }
    context_.loop_counters = outer;
    if (time) context_.in_time_loop = false;
    return {};
  }

  // How often a loop turns: a number, or for a stream's time loop a message's scalar.
  Result<std::int64_t> count_of(bool time) {
    const auto found = context_.message_scalars.find(lexer_.peek().text);
    if (found == context_.message_scalars.end()) {
      return parse_bounded(context_, "the count", 1, kExtentMax);
    }
    const Place place = lexer_.peek().place;
    if (!time) {
      return lexer_.error(place, fmt::format("'{}' is a message's scalar; only the time loop, "
                                             "'steps', counts by it",
                                             found->first));
    }
    if (!context_.options.streaming || context_.options.steps_queue == nullptr) {
      return lexer_.error(place, fmt::format("'{}' is known when the message comes; run the text "
                                             "with --stream and --framing messages, or give the "
                                             "time loop a number",
                                             found->first));
    }
    *context_.options.steps_queue = context_.program.symbols[found->second].name;
    TESSERA_RETURN_IF_ERROR(lexer_.advance());
    return std::int64_t{1};
  }

  ParseContext& context_;
  Lexer& lexer_;
  std::int64_t statements_ = 0;
};

}  // namespace

Result<ChainProgram> parse_chains(Lexer& lexer, const ChipConfig& chip,
                                  const AssembleOptions& options) {
  ParseContext context{
      .lexer = lexer, .chip = chip, .options = options, .scalars = {}, .names = {}, .program = {}};
  context.scalars["native"] = native_vector(chip);
  TESSERA_RETURN_IF_ERROR(StatementParser(context).block(0));
  if (options.streaming && !context.program.has_time_loop) {
    return lexer.error({1, 1},
                       "streaming runs the time loop's body for every vector that arrives; "
                       "this text has none: write 'steps t COUNT' ... 'end'");
  }
  return std::move(context.program);
}

}  // namespace tessera::firmware
