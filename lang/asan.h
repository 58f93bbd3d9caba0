// Is this a build with the address sanitizer? TK_ASAN is defined, whichever compiler it is.
#ifndef TK_ASAN_H
#define TK_ASAN_H

#if defined(__SANITIZE_ADDRESS__)
#define TK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TK_ASAN 1
#endif
#endif

#endif
