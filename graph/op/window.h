// Windows that move over the spatial axes of a value [N, C, D..]: what convolutions and pools have in common.
//
//     |<- before ->|<------------ input ------------>|<- after ->|
//     [ k   k   k ]      kernel elements, `dilation` apart
//        `stride` ->  [ k   k   k ]        `out` places
//
// Sizes of the input may be symbolic; those of windows are numbers.
#ifndef TK_GRAPH_OP_WINDOW_H
#define TK_GRAPH_OP_WINDOW_H

#include "graph/op/op.h"

enum { MAX_SPATIAL = 6 };

typedef struct OpWindow {
    int     n;                                       // spatial axes
    int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
    Ix      kernel_ix[MAX_SPATIAL];
    Ix      before[MAX_SPATIAL], after[MAX_SPATIAL];
    Ix      out[MAX_SPATIAL];
} OpWindow;

// Attributes kernel_shape, strides, dilations of a node for n axes. kernel: sizes, of a convolution's weights, which
// kernel_shape must agree with if it is there; NULL: kernel_shape must be there.
bool op_window_shape(Op *op, int n, const Ix *kernel, OpWindow *w);
// And where they go over x: pads, auto_pad, ceil_mode.
bool op_window(Op *op, Node *x, const Ix *kernel, OpWindow *w);
// `2 n` pads, or zeros.
bool op_pads(Op *op, int n, int64_t *pads);
// The window's extent in the input.
static inline int64_t op_window_span(const OpWindow *w, int i) { return (w->kernel[i] - 1) * w->dilation[i] + 1; }
// x[.., D.., ] as windows x[.., O.., K..], the spatial axes from `first` on.
Node *op_windows(Op *op, Node *x, int first, const OpWindow *w, GNum fill);
// The transposed: x[.., D..] as [.., O.., K..] with at [o, k] the element that puts its k-th weight to o; 0 if none does.
Node *op_spread(Op *op, Node *x, int first, const OpWindow *w);
// x with axis `axis` of that size, which it must have: a symbolic one becomes a number when weights say which.
Node *op_sized(Op *op, Node *x, int axis, Ix size);
// A bias of one number for each channel, added to y [N, M, ..]; NULL: y.
Node *op_bias(Op *op, Node *y, Node *bias);

// Convolution: windows [N, (group,) C, O.., K..] with weights [(group,) M, C, K..]; result [N, group * M, O..] of `elem`.
// The whole of it from x [N, group * C, D..] and weights [group * M, C, K..].
Node *op_conv(Op *op, Node *x, Node *weights, Elem elem, Elem acc);

#endif
