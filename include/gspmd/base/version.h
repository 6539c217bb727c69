#pragma once

// The version of these headers; CMakeLists.txt reads it from here. Versions of one minor number are
// compatible in source.

// --- The parts, and the whole as text.
#define GSPMD_VERSION_MAJOR 0
#define GSPMD_VERSION_MINOR 1
#define GSPMD_VERSION_PATCH 0
#define GSPMD_VERSION_STRING "0.1.0"
// For comparisons: #if GSPMD_VERSION >= 100 (0.1.0 is 100, 1.2.3 is 10203).
#define GSPMD_VERSION \
  (GSPMD_VERSION_MAJOR * 10000 + GSPMD_VERSION_MINOR * 100 + GSPMD_VERSION_PATCH)
