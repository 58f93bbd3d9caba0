// Memory of the host that the GPU copies from by itself, on a stream of its own: while one thread's is on its way,
// others fill theirs.
//
// Ordinary memory goes through a buffer of the driver's, one copy at a time, at a quarter of what the bus can do. The
// memory is the caller's, pinned: of huge pages that are there already, 32 MB take 1 ms; the driver's own
// (cuMemAllocHost) 10.
#include "runtime/cuda_internal.h"

#include <stdlib.h>

struct DeviceStage { void *room; CuStream stream; };

bool cuda_pin(Device *d, void *room, uint64_t bytes, Buf *err) {
    Cuda *c = cuda_use(d);
    return cuda_ok_late(c, c->cu.host_register(room, bytes, 0), err, "pin memory of the host", NULL);
}

void cuda_unpin(Device *d, void *room) { cuda_use(d)->cu.host_unregister(room); }

void cuda_stage_free(Device *d, DeviceStage *s) {
    if (!s) return;
    cuda_use(d)->cu.stream_destroy(s->stream);
    heap_free(s);
}

DeviceStage *cuda_stage_make(Device *d, void *room, Buf *err) {
    Cuda *c = cuda_use(d);
    DeviceStage *s = heap_alloc(sizeof *s);
    s->room = room;
    if (cuda_ok_late(c, c->cu.stream_create(&s->stream, CU_STREAM_ALONE), err, "make a stream", NULL)) return s;
    heap_free(s);
    return NULL;
}

void *cuda_stage_room(Device *d, DeviceStage *s, Buf *err) {
    Cuda *c = cuda_use(d);
    return cuda_ok_late(c, c->cu.stream_sync(s->stream), err, "copy to the GPU", NULL) ? s->room : NULL;
}

bool cuda_stage_send(Device *d, DeviceStage *s, uint64_t to, uint64_t bytes, Buf *err) {
    Cuda *c = cuda_use(d);
    return cuda_ok_late(c, c->cu.write_async(to, s->room, bytes, s->stream), err, "copy to the GPU", NULL);
}

bool cuda_stage_fetch(Device *d, DeviceStage *s, uint64_t from, uint64_t bytes, Buf *err) {
    Cuda *c = cuda_use(d);
    return cuda_ok_late(c, c->cu.read_async(s->room, from, bytes, s->stream), err, "copy from the GPU", NULL)
        && cuda_ok_late(c, c->cu.stream_sync(s->stream), err, "copy from the GPU", NULL);
}
