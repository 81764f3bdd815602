// formats/csv.cpp -- reading comma-separated values.
#include "formats/csv.h"
#include "formats/parse.h"
#include <algorithm>
#include <charconv>

namespace luminal {
namespace {

using namespace detail;

class CsvReader {
public:
  CsvReader(std::string_view text, std::string_view file, const CsvFormat& format)
      : text_(text), file_(file), format_(format) {}

  Csv read() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3; // the mark of UTF-8 that spreadsheets write
    Csv out;
    bool header = format_.header;
    while (at_ < text_.size()) {
      const int64_t line = line_;
      std::vector<std::string> row = record();
      if (row.size() == 1 && row[0].empty()) continue;
      const size_t wanted = !out.header.empty() ? out.header.size()
                            : out.rows.empty()  ? row.size()
                                                : out.rows[0].size();
      if (row.size() != wanted)
        refuse(file_, fmt::format("line {}: {} fields, the lines before have {}", line, row.size(), wanted));
      if (header) {
        out.header = std::move(row);
        header = false;
        continue;
      }
      out.rows.push_back(std::move(row));
      out.lines.push_back(line);
    }
    if (out.rows.empty()) refuse(file_, "there are no rows");
    return out;
  }

private:
  std::vector<std::string> record() {
    std::vector<std::string> fields;
    for (;;) {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
      if (at_ < text_.size() && text_[at_] == format_.separator) {
        ++at_;
        continue;
      }
      if (text_.substr(at_).starts_with("\r\n")) ++at_;
      if (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {
        ++at_;
        ++line_;
      } else if (at_ < text_.size()) {
        refuse(file_, fmt::format("line {}: text behind a quoted field", line_));
      }
      return fields;
    }
  }
  std::string plain() {
    const size_t end =
        std::min(text_.find_first_of(std::string{format_.separator, '\r', '\n'}, at_), text_.size());
    const std::string field(text_.substr(at_, end - at_));
    at_ = end;
    return field;
  }
  std::string quoted() {
    const int64_t begin = line_;
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        field += text_[at_];
      } else if (text_.substr(at_ + 1).starts_with('"')) {
        field += '"';
        ++at_;
      } else {
        ++at_;
        return field;
      }
    }
    refuse(file_, fmt::format("line {}: a quote does not end", begin));
  }

  std::string_view text_, file_;
  const CsvFormat& format_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

} // namespace

std::optional<size_t> Csv::column(std::string_view name) const {
  if (!header.empty()) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) return {};
    return size_t(found - header.begin());
  }
  size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  if (!whole || rows.empty() || number >= rows[0].size()) return {};
  return number;
}

Result<Csv> parse_csv(std::string_view text, std::string_view file_name, const CsvFormat& format) {
  return guarded(file_name, [&] { return CsvReader(text, file_name, format).read(); });
}

} // namespace luminal
