// PTX versions and the CUDA releases whose drivers take them; a launch in words.

#include "lang/c_text.h"
#include "runtime/internal.h"

#include <string.h>

// clang-format off
static const struct { int cuda, ptx; const char *release; } releases[] = {      // first CUDA release that takes the PTX version
    {11000, 70, "11.0"}, {11010, 71, "11.1"}, {11020, 72, "11.2"}, {11030, 73, "11.3"}, {11040, 74, "11.4"}, {11050, 75, "11.5"},
    {11060, 76, "11.6"}, {11070, 77, "11.7"}, {11080, 78, "11.8"}, {12000, 80, "12.0"}, {12010, 81, "12.1"}, {12020, 82, "12.2"},
    {12030, 83, "12.3"}, {12040, 84, "12.4"}, {12050, 85, "12.5"}, {12070, 86, "12.7"}, {12080, 87, "12.8"}, {12090, 88, "12.9"},
    {13000, 90, "13.0"}, {13010, 91, "13.1"},
};
// clang-format on
enum { RELEASES = sizeof releases / sizeof *releases };

int ptx_version_of_driver(int cuda_version) {
    int ptx = 0;
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].cuda <= cuda_version) ptx = releases[i].ptx;
    return cuda_version > releases[RELEASES - 1].cuda ? 0 : ptx;       // newer than this table: takes whatever we emit
}

const char *cuda_release_of_ptx(int ptx_version) {
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].ptx >= ptx_version) return releases[i].release;
    return NULL;
}

int ptx_text_version(const char *ptx, size_t n) {
    const char *p = ptx, *end = ptx + n;
    while (p < end) {                                                   // the directive stands before all code
        while (p < end && c_isspace((unsigned char)*p)) p++;
        if (end - p > 9 && memcmp(p, ".version", 8) == 0) {
            int major = 0, minor = 0;
            for (p += 8; p < end && (*p == ' ' || *p == '\t'); p++) {}
            for (; p < end && c_isdigit((unsigned char)*p) && major < 100; p++) major = major * 10 + (*p - '0');
            if (p < end && *p == '.') p++;
            if (p < end && c_isdigit((unsigned char)*p)) minor = *p - '0';
            return major * 10 + minor;
        }
        if (end - p < 2 || p[0] != '/' || (p[1] != '/' && p[1] != '*')) return 0;
        bool line = p[1] == '/';
        for (p += 2; p < end && !(line ? *p == '\n' : p[0] == '/' && p[-1] == '*'); p++) {}
        if (p < end) p++;
    }
    return 0;
}

void launch_text(const DeviceLaunch *l, Buf *out) {
    buf_printf(out, "`%s` (grid %u", l->kernel->name, l->grid[0]);
    if (l->grid[1] != 1 || l->grid[2] != 1) buf_printf(out, " x %u x %u", l->grid[1], l->grid[2]);
    buf_printf(out, ", block %u", l->block[0]);
    if (l->block[1] != 1 || l->block[2] != 1) buf_printf(out, " x %u x %u", l->block[1], l->block[2]);
    if (l->cluster[0] > 1) buf_printf(out, ", cluster %u", l->cluster[0]);
    buf_printf(out, ", %u bytes of dynamic shared memory)", l->smem);
}
