/* A driver of CUDA that computes nothing: its devices are memory of the host, of which there are MEMORY bytes. It has what is
   needed to find a device, to hold memory on it and to copy. What it says is set by the environment, what it is asked is
   written to LOG. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long set(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value ? atol(value) : otherwise;
}

static int said(const char *what, int code) {
    const char *path = getenv("DRIVER_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s\n", what);
        fclose(log);
    }
    return code;
}

int cuInit(unsigned flags) { return (int)set("DRIVER_INIT", 0); }
int cuDriverGetVersion(int *version) { *version = (int)set("DRIVER_VERSION", 13000); return 0; }
#ifndef LACKS_A_FUNCTION
int cuDeviceGetCount(int *count) { *count = (int)set("DRIVER_DEVICES", 1); return 0; }
#endif
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
/* 38 is the size of the second-level cache. */
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 38 ? 1 << 20 : 9; return 0; }
int cuDeviceGetName(char *name, int bytes, int device) { snprintf(name, bytes, "Stub %d", device); return 0; }
int cuDeviceGetPCIBusId(char *text, int bytes, int device) { return 1; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = set("DRIVER_MEMORY", 1L << 30); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &said; return (int)set("DRIVER_RETAIN", 0); }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = &said; return 0; }
int cuStreamSynchronize(void *stream) { return said("wait", 0); }
int cuEventCreate(void **event, unsigned flags) { *event = &said; return 0; }
int cuEventRecord(void *event, void *stream) { return said("event", 0); }
int cuEventElapsedTime(float *ms, void *from, void *to) { *ms = 1; return 0; }
int cuEventElapsedTime_v2(float *ms, void *from, void *to) { *ms = 1; return 0; }
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) { *at = malloc(bytes); return *at ? 0 : 2; }
int cuMemFreeHost(void *at) { free(at); return 0; }
int cuMemHostGetDevicePointer_v2(unsigned long long *at, void *host, unsigned flags) { *at = (unsigned long long)host; return 0; }

static size_t held;

int cuMemAlloc_v2(unsigned long long *at, size_t bytes) {
    if (held + bytes > (size_t)set("DRIVER_MEMORY", 1L << 30)) return 2;
    size_t *start = malloc(bytes + 64);
    if (!start) return 2;
    *start = bytes;
    held += bytes;
    *at = (unsigned long long)start + 64;
    return 0;
}
int cuMemFree_v2(unsigned long long at) {
    size_t *start = (size_t *)(at - 64);
    held -= *start;
    free(start);
    return said("free", 0);
}
int cuMemGetInfo_v2(size_t *unused, size_t *all) {
    *all = set("DRIVER_MEMORY", 1L << 30);
    *unused = *all - held;
    return 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) { memcpy((void *)to, from, bytes); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) { memcpy(to, (void *)from, bytes); return 0; }
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
    memcpy((void *)to, from, bytes);
    return said("copy", 0);
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
    memcpy(to, (void *)from, bytes);
    return said("copy", 0);
}
int cuMemsetD8Async(unsigned long long at, unsigned char byte, size_t bytes, void *stream) {
    char what[64];
    memset((void *)at, byte, bytes);
    snprintf(what, sizeof what, "fill %zu", bytes);
    return said(what, 0);
}

int cuGetErrorName(int code, const char **name) {
    *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 46 ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
          : code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuGetErrorString(int code, const char **words) {
    *words = code == 46 ? "CUDA-capable device(s) is/are busy or unavailable" : "in words";
    return 0;
}
