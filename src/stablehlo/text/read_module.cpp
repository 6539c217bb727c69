#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sdy.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

class ModuleReader {
 public:
  ModuleReader(Syntax& syntax, Reading reading)
      : syntax_(syntax), cursor_(syntax.cursor), reader_(syntax), reading_(reading) {}

  void read() {
    find_aliases();
    while (!cursor_.at_end()) read_top();
    if (syntax_.functions.empty())
      cursor_.fail(cursor_.position(), "the module has no function; StableHLO text has func.func");
  }

 private:
  // "#x = ..." and "!x = ...", each on a line of its own, before or behind their uses.
  void find_aliases() {
    const std::string_view text = cursor_.text();
    size_t line = cursor_.position();
    while (line < text.size()) {
      size_t at = line;
      while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
      if (at < text.size() && (text[at] == '#' || text[at] == '!')) add_alias(at);
      const void* const end = std::memchr(text.data() + line, '\n', text.size() - line);
      if (end == nullptr) break;
      line = static_cast<size_t>(static_cast<const char*>(end) - text.data()) + 1;
    }
  }

  void add_alias(size_t at) {
    Cursor cursor = cursor_.from(at + 1);
    if (cursor.adjacent() == ' ') return;
    size_t end = at + 1;
    const std::string_view text = cursor.text();
    while (end < text.size() &&
           (is_letter(text[end]) || is_digit(text[end]) || text[end] == '-' || text[end] == '$'))
      ++end;
    if (end == at + 1) return;
    cursor.seek(end);
    if (!cursor.accept("=")) return;
    const std::string_view name = text.substr(at + 1, end - at - 1);
    if (text[at] == '#')
      syntax_.attributes_table.add_alias(name, cursor.position());
    else
      syntax_.types.add_alias(name, cursor.position());
  }

  void read_top() {
    const size_t at = cursor_.position();
    const char c = cursor_.peek();
    if (c == '#' || c == '!') return pass_alias();
    if (cursor_.accept("{-#")) {
      const size_t end = cursor_.text().find("#-}", cursor_.position());
      if (end == std::string_view::npos) cursor_.fail(at, "the resources have no end, #-}}");
      cursor_.seek(end + 3);
      return;
    }
    const std::string_view word = cursor_.peek_word();
    if (word == "module" || word == "builtin.module") {
      if (seen_module_) cursor_.fail(at, "a second module; split them by a line // -----");
      seen_module_ = true;
      cursor_.word("module");
      return read_module();
    }
    if (c == '"' && cursor_.sees("\"builtin.module\"")) return read_generic_module();
    read_symbol();
  }

  void pass_alias() {
    const bool is_type = cursor_.peek() == '!';
    cursor_.accept(is_type ? "!" : "#");
    cursor_.suffix_id("an alias");
    cursor_.expect("=", "behind the name of an alias");
    if (is_type) {
      syntax_.types.read(cursor_);
    } else if (cursor_.sees_word("loc")) {
      reader_.read_location();
    } else {
      syntax_.attributes_table.read(cursor_);
    }
  }

  void read_module() {
    if (cursor_.peek() == '@') syntax_.name = cursor_.symbol("the module's name");
    if (cursor_.accept_word("attributes"))
      syntax_.attributes_table.read_dictionary(cursor_, syntax_.attributes);
    cursor_.expect("{", "before the functions of a module");
    while (!cursor_.accept("}")) {
      if (cursor_.at_end())
        cursor_.fail(cursor_.position(), "a \"}}\" is missing at the end of the module");
      read_symbol();
    }
    reader_.read_location();
  }

  void read_generic_module() {
    cursor_.quoted("a module");
    cursor_.expect("(", "behind the name of an op");
    cursor_.expect(")", "behind the operands");
    Dictionary dictionary;
    if (cursor_.accept("<")) {
      syntax_.attributes_table.read_dictionary(cursor_, dictionary);
      cursor_.expect(">", "behind the properties");
    }
    cursor_.expect("(", "before the region of a module");
    cursor_.expect("{", "before the region of a module");
    if (cursor_.accept("^")) {
      cursor_.suffix_id("the name of a block");
      cursor_.expect(":", "behind the name of a block");
    }
    while (!cursor_.accept("}")) {
      if (cursor_.at_end())
        cursor_.fail(cursor_.position(), "a \"}}\" is missing at the end of the module");
      read_symbol();
    }
    cursor_.expect(")", "behind the region of a module");
    if (cursor_.peek() == '{') syntax_.attributes_table.read_dictionary(cursor_, dictionary);
    cursor_.expect(":", "before the type of an op");
    syntax_.types.read(cursor_);
    reader_.read_location();
    for (NamedAttribute& named : dictionary) {
      if (named.name == "sym_name")
        syntax_.name = named.value.text;
      else
        syntax_.attributes.push_back(std::move(named));
    }
  }

  void read_symbol() {
    const size_t at = cursor_.position();
    if (cursor_.peek() == '"') return read_generic_symbol();
    const std::string_view word = cursor_.word("func.func or sdy.mesh");
    if (word == "func.func" || word == "func") return read_function(at);
    if (word == "sdy.mesh") {
      Mesh mesh;
      mesh.position = at;
      mesh.name = cursor_.symbol("a mesh's name");
      cursor_.expect("=", "behind a mesh's name");
      const Attribute body = syntax_.attributes_table.read_body(cursor_, "sdy.mesh");
      mesh.text = attribute_text(syntax_.attributes_table, cursor_, body);
      Dictionary ignored;
      if (cursor_.peek() == '{') syntax_.attributes_table.read_dictionary(cursor_, ignored);
      reader_.read_location();
      return add_mesh(std::move(mesh));
    }
    if (word == "module" || word == "builtin.module")
      cursor_.fail(at, "a module inside a module is not supported; give each a file");
    refuse_vhlo(word, at);
    cursor_.fail(at, "\"{}\" is nothing that a module holds; func.func and sdy.mesh are", word);
  }

  // The form in which programs are kept for later versions.
  void refuse_vhlo(std::string_view op, size_t at) const {
    if (op.starts_with("vhlo."))
      cursor_.fail(at, "\"{}\" is VHLO; give StableHLO: stablehlo-opt --vhlo-legalize-to-stablehlo",
                   op);
  }

  void add_mesh(Mesh mesh) {
    for (const Mesh& other : syntax_.meshes)
      if (other.name == mesh.name)
        cursor_.fail(mesh.position, "the mesh @{} is given twice", mesh.name);
    try {
      parse_sdy_mesh(mesh.text);
    } catch (const UserError& error) {
      cursor_.fail(mesh.position, "{}", error.what());
    }
    syntax_.meshes.push_back(std::move(mesh));
  }

  Function& add_function(std::string name, size_t position) {
    auto function = std::make_unique<Function>();
    function->name = std::move(name);
    function->position = position;
    if (!syntax_.by_name.emplace(function->name, function.get()).second)
      cursor_.fail(position, "the function @{} is defined twice", function->name);
    return *syntax_.functions.emplace_back(std::move(function));
  }

  void read_function(size_t position) {
    std::string_view visibility;
    for (const std::string_view word : {"public", "private", "nested"})
      if (cursor_.accept_word(word)) visibility = word;
    Function& function = add_function(cursor_.symbol("a function's name"), position);
    function.visibility = visibility;
    reader_.read_arguments(function.body.arguments, true);
    if (cursor_.accept("->")) read_results(function);
    if (cursor_.accept_word("attributes"))
      syntax_.attributes_table.read_dictionary(cursor_, function.attributes);
    if (cursor_.peek() == '{') {
      function.has_body = true;
      function.body.position = cursor_.position();
      cursor_.expect("{", "before the body of a function");
      if (reading_ == Reading::main_later && function.name == "main") leave_body(function);
      if (function.unread)
        cursor_.expect("}", "behind the body of a function");
      else
        reader_.read_ops(function.body.ops);
    }
    function.location = reader_.read_location();
  }

  // Passes the ops of a function up to the line of its closing brace, which is indented as the
  // function is; where there is no such line it leaves none.
  void leave_body(Function& function) {
    const std::string_view text = cursor_.text();
    const auto indentation = [&](size_t line) {
      size_t at = line;
      while (at < text.size() && text[at] == ' ') ++at;
      return at - line;
    };
    const size_t start = text.rfind('\n', function.position) + 1;  // 0 where it is the first line
    const size_t indented = indentation(start);
    if (start + indented != function.position) return;
    UnreadBody body;
    body.begin = cursor_.position();
    for (size_t line = text.find('\n', body.begin); line != text.npos;
         line = text.find('\n', line)) {
      ++line;
      ++body.lines;
      const size_t blanks = indentation(line);
      if (blanks > indented || line + blanks >= text.size() || text[line + blanks] != '}') continue;
      body.end = line + blanks;
      break;
    }
    if (body.end == 0) return;
    for (size_t at = text.find('@', body.begin); at < body.end; at = text.find('@', at)) {
      const std::string_view before = text.substr(0, text.find_last_not_of(' ', at - 1) + 1);
      if (before.ends_with("custom_call") || before.ends_with("call_target_name =")) {
        ++at;
        continue;
      }
      Cursor name = cursor_.sub(++at, body.end);
      const char c = name.adjacent();
      if (c == '"') body.mentions.push_back(name.raw_quoted("a name"));
      if (is_letter(c) || is_digit(c)) body.mentions.push_back(name.suffix_id("a name"));
    }
    cursor_.seek(body.end);
    function.unread = std::move(body);
  }

  void read_results(Function& function) {
    if (!cursor_.accept("(")) {
      function.result_types.push_back(syntax_.types.read(cursor_));
      function.result_attributes.emplace_back();
      return;
    }
    while (!cursor_.accept(")")) {
      if (!function.result_types.empty()) cursor_.expect(",", "between the types of results");
      function.result_types.push_back(syntax_.types.read(cursor_));
      function.result_attributes.emplace_back();
      if (cursor_.peek() == '{')
        syntax_.attributes_table.read_dictionary(cursor_, function.result_attributes.back());
    }
  }

  // "func.func"() <{function_type = .., sym_name = ".."}> ({^bb0(..): ..}) : () -> ()
  void read_generic_symbol() {
    const size_t at = cursor_.position();
    const std::string name = cursor_.quoted("the name of an op");
    cursor_.expect("(", "behind the name of an op");
    cursor_.expect(")", "behind the operands");
    Dictionary dictionary;
    List<Region> regions;
    if (cursor_.accept("<")) {
      syntax_.attributes_table.read_dictionary(cursor_, dictionary);
      cursor_.expect(">", "behind the properties");
    }
    if (cursor_.accept("(")) {
      reader_.read_region(regions.emplace_back());
      cursor_.expect(")", "behind the regions");
    }
    if (cursor_.peek() == '{') syntax_.attributes_table.read_dictionary(cursor_, dictionary);
    cursor_.expect(":", "before the type of an op");
    syntax_.types.read(cursor_);
    const std::string_view location = reader_.read_location();
    const auto take = [&](std::string_view key) -> const Attribute* {
      for (const NamedAttribute& named : dictionary)
        if (named.name == key) return &named.value;
      return nullptr;
    };
    refuse_vhlo(name, at);
    const Attribute* const symbol = take("sym_name");
    if (symbol == nullptr) cursor_.fail(at, "{}: sym_name is missing", name);
    if (name == "sdy.mesh") {
      const Attribute* const mesh = take("mesh");
      if (mesh == nullptr) cursor_.fail(at, "sdy.mesh: mesh is missing");
      return add_mesh({symbol->text, attribute_text(syntax_.attributes_table, cursor_, *mesh), at});
    }
    if (name != "func.func") cursor_.fail(at, "\"{}\" is nothing that a module holds", name);
    Function& function = add_function(symbol->text, at);
    function.location = location;
    const Attribute* const type = take("function_type");
    if (type == nullptr || type->type == nullptr || !type->type->is_function)
      cursor_.fail(at, "func.func: function_type is missing");
    if (!regions.empty() && !(regions[0].ops.empty() && regions[0].arguments.empty())) {
      function.body = std::move(regions[0]);
      function.has_body = true;
    } else {
      for (const Type* input : type->type->inputs)
        function.body.arguments.emplace_back().type = input;
    }
    function.result_types = type->type->results;
    function.result_attributes.resize(function.result_types.size());
    take_attributes(function, dictionary);
  }

  void take_attributes(Function& function, Dictionary& dictionary) {
    for (NamedAttribute& named : dictionary) {
      if (named.name == "arg_attrs" || named.name == "res_attrs") {
        std::vector<Attribute>& list = named.value.list;
        const bool of_results = named.name == "res_attrs";
        const size_t count =
            of_results ? function.result_attributes.size() : function.body.arguments.size();
        if (list.size() != count)
          cursor_.fail(named.position, "{}: {} dictionaries for {} values", named.name, list.size(),
                       count);
        for (size_t i = 0; i < count; ++i)
          (of_results ? function.result_attributes[i] : function.body.arguments[i].attributes) =
              std::move(list[i].entries);
      } else if (named.name == "sym_visibility") {
        function.visibility = named.value.text == "private" ? "private" : "public";
      } else if (named.name != "sym_name" && named.name != "function_type") {
        function.attributes.push_back(std::move(named));
      }
    }
  }

  Syntax& syntax_;
  Cursor& cursor_;
  OpReader reader_;
  Reading reading_;
  bool seen_module_ = false;
};

}  // namespace

std::unique_ptr<Syntax> read_syntax(std::string_view text, std::string_view file, size_t begin,
                                    size_t end, Reading reading) {
  auto syntax = std::make_unique<Syntax>(text, file, begin, end);
  ModuleReader(*syntax, reading).read();
  return syntax;
}

}  // namespace gspmd::stablehlo
