// search/sqlite.cpp -- the few calls of SQLite that the program makes.
#include "search/sqlite.h"
#include <cstring>
#include <fmt/format.h>
#include <sqlite3.h>

namespace luminal::search {
namespace {

[[noreturn]] void fail(sqlite3* handle, int code) {
  const std::string text = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  throw SqlError(code & 0xff, text);
}

} // namespace

bool SqlError::damaged() const { return code_ == SQLITE_CORRUPT || code_ == SQLITE_NOTADB; }

SqlConnection::SqlConnection(const std::string& path, Access access, double busy_seconds) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
  flags |= access == Access::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (access == Access::create) flags |= SQLITE_OPEN_CREATE;
  if (const int code = sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr); code != SQLITE_OK) {
    std::string text = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    if (const int system = handle_ ? sqlite3_system_errno(handle_) : 0; system != 0)
      text += fmt::format(" ({})", std::strerror(system));
    const SqlError error(code & 0xff, text);
    sqlite3_close(handle_);
    throw error;
  }
  sqlite3_busy_timeout(handle_, int(busy_seconds * 1000));
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, longest);
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

SqlConnection::~SqlConnection() { sqlite3_close(handle_); }

void SqlConnection::execute(const char* sql) {
  if (const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr); code != SQLITE_OK)
    fail(handle_, code);
}

int64_t SqlConnection::integer(const char* sql) {
  SqlStatement statement(*this, sql);
  int64_t value = 0;
  if (!statement.step() || !statement.integer(0, value))
    throw SqlError(SQLITE_CORRUPT, fmt::format("{} gives no number", sql));
  return value;
}

bool SqlConnection::read_only() const { return sqlite3_db_readonly(handle_, "main") != 0; }
int64_t SqlConnection::changes() const { return sqlite3_changes(handle_); }

SqlStatement::SqlStatement(SqlConnection& connection, const char* sql) : connection_(connection) {
  if (const int code = sqlite3_prepare_v2(connection.handle(), sql, -1, &statement_, nullptr);
      code != SQLITE_OK)
    fail(connection.handle(), code);
}
SqlStatement::~SqlStatement() { sqlite3_finalize(statement_); }

SqlStatement& SqlStatement::bind(std::string_view text) {
  const int code = sqlite3_bind_text64(statement_, ++bound_, text.data() ? text.data() : "", text.size(),
                                       SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) fail(connection_.handle(), code);
  return *this;
}
SqlStatement& SqlStatement::bind(int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_, ++bound_, value); code != SQLITE_OK)
    fail(connection_.handle(), code);
  return *this;
}
SqlStatement& SqlStatement::bind(double value) {
  if (const int code = sqlite3_bind_double(statement_, ++bound_, value); code != SQLITE_OK)
    fail(connection_.handle(), code);
  return *this;
}

bool SqlStatement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail(connection_.handle(), code);
  return false;
}

bool SqlStatement::text(int column, std::string& to) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) return false;
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  to.assign(data, size_t(sqlite3_column_bytes(statement_, column)));
  return true;
}
bool SqlStatement::integer(int column, int64_t& to) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return false;
  to = sqlite3_column_int64(statement_, column);
  return true;
}
bool SqlStatement::real(int column, double& to) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_FLOAT) return false;
  to = sqlite3_column_double(statement_, column);
  return true;
}

SqlTransaction::SqlTransaction(SqlConnection& connection, bool immediate) : connection_(connection) {
  connection_.execute(immediate ? "BEGIN IMMEDIATE" : "BEGIN");
}
SqlTransaction::~SqlTransaction() {
  // SQLite may have rolled back by itself after a failure; then there is nothing left to undo.
  if (open_ && sqlite3_get_autocommit(connection_.handle()) == 0)
    sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}
void SqlTransaction::commit() {
  connection_.execute("COMMIT");
  open_ = false;
}

} // namespace luminal::search
