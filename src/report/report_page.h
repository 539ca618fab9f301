// The report's page (report_page.html), with "/*DATA*/null" where the data goes.
#pragma once

#include <string_view>

namespace tessera {

extern const std::string_view kReportPage;

}  // namespace tessera
