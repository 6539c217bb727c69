#pragma once

// The mark of public symbols.

// Marks what a user of the library may call or catch. Everything else is hidden: it stays inside of
// libgspmd and of a shared library that the static one is linked into.
#define GSPMD_API __attribute__((visibility("default")))
