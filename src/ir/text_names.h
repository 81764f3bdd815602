// ir/text_names.h -- the names that the text form gives to nodes, axes and indices.
#pragma once
#include "ir/term.h"

namespace luminal {

/// "%p" for each node: its own name where that can be read back and is unique, else its number.
IdVector<NodeId, std::string> node_names(const Function& function);
/// What stands behind `%name = ` for each node, and behind `%name: ` for inputs.
IdVector<NodeId, std::string> node_texts(const Function& function);
/// A name for each axis of the node's expressions: its own where that can be read back, else i0,
/// i1, ...
std::vector<std::string> axis_names(const Function& function, const Node& node);
/// The expression with axes by these names.
std::string expression_text(Expr e, const Shape& space, const std::vector<std::string>& names);
/// Can the word be read as a name after % or @, or as the name of a result?
bool is_plain_name(std::string_view name);
/// Can the word be an axis name? (Not i0, h1, ..., and no word of the grammar.)
bool is_axis_name(std::string_view name);
/// 0.5, 1, -inf, nan: floats as short as they are read back.
std::string number_text(double value);
std::string base64(const std::vector<std::byte>& data);
bool from_base64(std::string_view text,
                 std::vector<std::byte>& data); // appends; false where the text is none

} // namespace luminal
