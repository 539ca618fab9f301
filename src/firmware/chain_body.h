// One chain of a firmware text.
#pragma once

#include "firmware/parse_context.h"

namespace tessera::firmware {

// `chain`, behind the word.
Status parse_chain(ParseContext& context, const Place& place);

}  // namespace tessera::firmware
