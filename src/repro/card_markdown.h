// The tables of a card of cores as its manual has them (docs/card.md), from those of card_tables.h: a line of text
// before each, the table in Markdown after it. scripts/paste_tables.py puts them where the manual has tables with the
// same first line.
#pragma once

#include <string>
#include <vector>

#include "repro/experiment_result.h"

namespace tessera::repro {

// `tables` are those of card_tables(); what the networks do not have is left out.
std::string card_markdown(const std::vector<std::string>& networks,
                          const std::vector<FigureTable>& tables);

}  // namespace tessera::repro
