#pragma once

#include <string>

namespace gspmd {

// Computations that single instructions of the tests call.
inline std::string hlo_prelude() {
  return R"(HloModule m

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}

%less2 (x: f32[], y: f32[]) -> pred[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = pred[] compare(%x, %y), direction=LT
}

%less4 (x: f32[], y: f32[], i: s32[], j: s32[]) -> pred[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  %i = s32[] parameter(2)
  %j = s32[] parameter(3)
  ROOT %z = pred[] compare(%x, %y), direction=LT
}

%argmax (x: f32[], i: s32[], y: f32[], j: s32[]) -> (f32[], s32[]) {
  %x = f32[] parameter(0)
  %i = s32[] parameter(1)
  %y = f32[] parameter(2)
  %j = s32[] parameter(3)
  %p = pred[] compare(%x, %y), direction=GE
  %v = f32[] select(%p, %x, %y)
  %k = s32[] select(%p, %i, %j)
  ROOT %t = (f32[], s32[]) tuple(%v, %k)
}

%step (x: f32[], c: f32[]) -> (f32[], f32[]) {
  %x = f32[] parameter(0)
  %c = f32[] parameter(1)
  %s = f32[] add(%x, %c)
  ROOT %t = (f32[], f32[]) tuple(%s, %s)
}

%square (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %y = f32[] multiply(%x, %x)
}

%neg (x: f32[4]) -> f32[4] {
  %x = f32[4] parameter(0)
  ROOT %y = f32[4] negate(%x)
}

%same (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4] parameter(0)
}

%below (t: (s32[], f32[4])) -> pred[] {
  %t = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] constant(10)
  ROOT %p = pred[] compare(%i, %n), direction=LT
}

%next (t: (s32[], f32[4])) -> (s32[], f32[4]) {
  ROOT %t = (s32[], f32[4]) parameter(0)
}

)";
}

// "%r = f32[4] add(f32[4] %a, f32[4] %b), k=v" -> "%r = f32[4] add(%a, %b), k=v".
inline std::string without_operand_types(const std::string& line) {
  // The operands stand in the first parentheses outside of braces that follow a word directly.
  int depth = 0;
  size_t open = 0;
  for (char before = ' '; open < line.size(); before = line[open++]) {
    if (line[open] == '(' && depth == 0 && before >= 'a' && before <= 'z') break;
    if (line[open] == '{' || line[open] == '(') ++depth;
    if (line[open] == '}' || line[open] == ')') --depth;
  }
  if (open == line.size()) return line;
  std::string result = line.substr(0, open + 1);
  depth = 1;
  size_t at = open + 1, start = at;
  for (; at < line.size() && depth > 0; ++at) {
    const char c = line[at];
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (depth == 0 || (depth == 1 && c == ',')) {
      const std::string operand = line.substr(start, at - start);
      const size_t name = operand.rfind('%');
      if (name != std::string::npos && start > open + 1) result += ' ';
      result += name == std::string::npos ? operand : operand.substr(name);
      result += c;
      start = at + 1;
    }
  }
  return result + line.substr(at);
}

}  // namespace gspmd
