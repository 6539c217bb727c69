// One op while it is written.
#include "stablehlo/print/writer.h"
#include "stablehlo/text/type.h"

namespace gspmd::stablehlo {

std::string OpWriter::operands() {
  std::string text;
  for (size_t i = 0; i < node_.operands().size(); ++i) text += (i ? ", " : "") + operand(i);
  return text;
}

std::string OpWriter::operand_types() {
  std::string text;
  for (const Node* operand : node_.operands())
    text += (text.empty() ? "" : ", ") + type_text(operand->shape);
  return text;
}

std::string OpWriter::result_types() {
  if (!node_.shape.is_tuple) return type_text(node_.shape);
  if (node_.shape.elements.size() == 1) return type_text(node_.shape.elements[0]);
  std::string text;
  for (const Shape& element : node_.shape.elements)
    text += (text.empty() ? "" : ", ") + type_text(element);
  return "(" + text + ")";
}

std::string OpWriter::function_type() {
  return fmt::format("({}) -> {}", operand_types(), result_types());
}

std::string OpWriter::region(size_t i) {
  if (i == 0) {
    operands();
    writer_.reserve(node_);
  }
  return writer_.region(*node_.called.at(i), {});
}

std::string OpWriter::dictionary(Fields own, std::span<const std::string_view> said) const {
  for (auto& field : writer_.discardable(node_, said)) own.push_back(std::move(field));
  return own.empty() ? "" : " {" + fields_text(std::move(own)) + "}";
}

void OpWriter::custom(const std::string& before, const std::string& type, Fields own) {
  writer_.line(node_, before + dictionary(std::move(own)) + " : " + type);
}

void OpWriter::generic(const std::string& name, Fields properties, const std::string& regions) {
  const std::string names = operands();
  std::string text = fmt::format("\"{}\"({})", name, names);
  if (!properties.empty()) text += " <{" + fields_text(std::move(properties)) + "}>";
  if (!regions.empty()) text += " (" + regions + ")";
  writer_.line(node_, text + dictionary() + " : " + function_type());
}

}  // namespace gspmd::stablehlo
