#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define GSPMD_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GSPMD_ADDRESS_SANITIZER 1
#endif
#endif

namespace gspmd {

// Whether this is compiled for AddressSanitizer: then what costs time is checked as well.
#ifdef GSPMD_ADDRESS_SANITIZER
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

}  // namespace gspmd
