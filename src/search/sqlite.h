// search/sqlite.h -- SQLite behind RAII: a connection, a statement, a transaction. Failures are
// SqlError, caught where the cache decides.
#pragma once
#include "luminal/error.h"
#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace luminal::search {

class SqlError : public Error {
public:
  SqlError(int code, const std::string& text) : Error(text), code_(code) {}
  int code() const { return code_; } ///< SQLite's primary result code
  /// The file is not a database, or not a sound one.
  bool damaged() const;

private:
  int code_;
};

/// One connection of one thread at a time. What a file holds is not trusted: no extensions, no
/// triggers or views of unknown origin, texts up to `longest` bytes.
class SqlConnection {
public:
  static constexpr int longest = 4 << 20;
  enum class Access : uint8_t { read, write, create };
  SqlConnection(const std::string& path, Access access, double busy_seconds);
  ~SqlConnection();
  SqlConnection(const SqlConnection&) = delete;
  SqlConnection& operator=(const SqlConnection&) = delete;

  void execute(const char* sql); ///< any number of statements, rows are dropped
  int64_t integer(const char* sql);
  bool read_only() const;
  int64_t changes() const;
  sqlite3* handle() const { return handle_; }

private:
  sqlite3* handle_ = nullptr;
};

class SqlStatement {
public:
  SqlStatement(SqlConnection& connection, const char* sql);
  ~SqlStatement();
  SqlStatement(const SqlStatement&) = delete;
  SqlStatement& operator=(const SqlStatement&) = delete;

  /// Parameters in order; texts must live until the last step.
  SqlStatement& bind(std::string_view text);
  SqlStatement& bind(int64_t value);
  SqlStatement& bind(double value);
  bool step(); ///< true: there is a row

  /// Columns of the present row, by exact type: false where the column holds another type.
  bool text(int column, std::string& to) const;
  bool integer(int column, int64_t& to) const;
  bool real(int column, double& to) const;

private:
  SqlConnection& connection_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// Rolled back at the end unless it was committed. immediate: takes the write lock at once.
class SqlTransaction {
public:
  explicit SqlTransaction(SqlConnection& connection, bool immediate = true);
  ~SqlTransaction();
  SqlTransaction(const SqlTransaction&) = delete;
  SqlTransaction& operator=(const SqlTransaction&) = delete;
  void commit();

private:
  SqlConnection& connection_;
  bool open_ = true;
};

} // namespace luminal::search
