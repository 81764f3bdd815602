// cli/serve_page.h -- the page of the server.
#pragma once

namespace luminal::cli {
const char* serve_page(); ///< HTML
} // namespace luminal::cli
