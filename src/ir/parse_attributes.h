#pragma once

#include <map>
#include <string>

#include "gspmd/ir/module.h"
#include "ir/lexer.h"

namespace gspmd {

Dims read_dims(Lexer& lexer, std::string_view what);  // {0,1}

// Attributes whose text is more than a list, a number or a string: readers and printers of the
// table.
void read_slice(Lexer& lexer, Attributes& attrs);  // {[0:2], [1:7:2]}
std::string print_slice(const Attributes& attrs);
void read_padding(Lexer& lexer, Attributes& attrs);  // 0_1x2_0_3
std::string print_padding(const Attributes& attrs);
void read_direction(Lexer& lexer, Attributes& attrs);  // LT
std::string print_direction(const Attributes& attrs);
void read_compare_type(Lexer& lexer, Attributes& attrs);  // TOTALORDER
std::string print_compare_type(const Attributes& attrs);
void read_compare_order(Lexer& lexer, Attributes& attrs);  // TOTAL: the type TOTALORDER
std::string print_compare_order(const Attributes& attrs);  // never printed: the type says it
void read_channel_id(Lexer& lexer, Attributes& attrs);
std::string print_channel_id(const Attributes& attrs);
void read_replica_groups(Lexer& lexer, Attributes& attrs);  // {{0,1},{2,3}}, [2,2]<=[4]
std::string print_replica_groups(const Attributes& attrs);
void read_pairs(Lexer& lexer, Attributes& attrs);  // {{0,1},{1,0}}
std::string print_pairs(const Attributes& attrs);
void read_fusion_kind(Lexer& lexer, Attributes& attrs);  // kLoop
std::string print_fusion_kind(const Attributes& attrs);

// sharding={...} of a value of this shape: one element per tuple leaf, each with its leaf's rank.
// One sharding on a tuple holds for every leaf.
Sharding read_sharding(Lexer& lexer, const Shape& shape);
Metadata read_metadata(Lexer& lexer);                  // {op_name="f" source_line=3}
std::string print_metadata(const Metadata& metadata);  // empty when there is none
std::map<std::string, std::string> read_frontend_attributes(Lexer& lexer);  // {a="b",c={"d":1}}
std::string print_frontend_attributes(const std::map<std::string, std::string>& attributes);
std::vector<Alias> read_aliases(Lexer& lexer);  // { {0}: (0, {}, may-alias) }
std::string print_aliases(const std::vector<Alias>& aliases);

}  // namespace gspmd
