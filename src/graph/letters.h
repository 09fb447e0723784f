// Letters as ICU knows them, which TensorFlow asks, too: those of the Unicode version that the library was made for.
#ifndef MILLRACE_SRC_GRAPH_LETTERS_H_
#define MILLRACE_SRC_GRAPH_LETTERS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// Of text in UTF-8, whatever language this machine speaks. What is no character becomes U+FFFD; a zero byte ends the text, as in TensorFlow.
// Requires less than 2^31 bytes.
std::string LowerCase(std::string_view text);
std::string UpperCase(std::string_view text);

// ICU's number of the script that a code point is written in; -1 of what is no code point.
int32_t ScriptOf(int32_t code);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_LETTERS_H_
