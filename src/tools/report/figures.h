// The files of an experiment: its tables of figures as comma-separated values, and a page with its plots.
#pragma once

#include <string>

#include "base/result.h"
#include "repro/experiment_result.h"

namespace tessera::tools {

// Comma-separated values; cells with commas or quotes in quotes.
std::string csv_text(const repro::FigureTable& table);
// Self-contained HTML: plots and all tables.
std::string figures_page_text(const std::string& title, const repro::ExperimentResult& result);

// Makes the folder, if it is not there. An error if there is no such folder then, or nothing can be made in it.
Status make_figures_folder(const std::string& folder);
// Makes the folder, and in it TABLE.csv for each table of figures, its documents, and NAME.html. An error names the file.
Status write_figures(const std::string& folder, const std::string& name, const std::string& title,
                     const repro::ExperimentResult& result);

}  // namespace tessera::tools
