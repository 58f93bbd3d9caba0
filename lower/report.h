// The report's lines by their places in the source, for who draws them: report.c makes them, report_html.c draws.
#ifndef TK_LOWER_REPORT_H
#define TK_LOWER_REPORT_H

#include "lower/lower.h"

typedef struct ReportLine { Pos at; size_t from; } ReportLine;     // at 0: of no line; its text goes up to the next one's
typedef VEC(ReportLine) ReportLines;

// Text of the head before the first line, of the lines without their places, and behind the last one what the launch assumes
// and has to do. lines NULL: with places, as --emit=report prints it.
void report_collect(Fn *f, const int64_t *dims, Buf *out, ReportLines *lines);

#endif
