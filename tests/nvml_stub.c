/* Plays libnvidia-ml.so.1 by environment variables; the tests build it in a folder of their own.
 *
 * STUB_FAIL         CALL=CODE,CALL=CODE,...: these calls answer the error code
 * STUB_FAIL_GPU     the same, only when asked of a whole GPU and not of a slice of one
 * STUB_LOST_AFTER   after so many calls about a device every one answers GPU_IS_LOST
 * STUB_GPU_n        UUID/NAME/TOTAL/USED/FREE/RESERVED of GPU n, in the driver's order
 * STUB_MIG_n        the same of slice n, all of them of GPU 0
 * STUB_PROCESSES    PID:BYTES,...
 * STUB_SM           MHz,MHz,...: one a question, the last one for ever
 * STUB_REASONS      bits of the throttle reasons
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { SLICES = 100 };
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process;

static int calls, clock_questions;

void stub_reset(void) { calls = clock_questions = 0; }

static int listed(const char *variable, const char *call) {
    const char *at = getenv(variable), *end;
    size_t length = strlen(call);
    while (at && *at) {
        end = strchr(at, '=');
        if (end && (size_t)(end - at) == length && !strncmp(at, call, length)) return atoi(end + 1);
        at = strchr(at, ',');
        if (at) at++;
    }
    return OK;
}

static int refused(const char *call, void *device) {
    const char *lost = getenv("STUB_LOST_AFTER");
    int code;
    if (device && lost && ++calls > atoi(lost)) return LOST;
    if ((code = listed("STUB_FAIL", call))) return code;
    return device && (size_t)device <= SLICES ? listed("STUB_FAIL_GPU", call) : OK;
}

static const char *row_of(void *device) {
    char name[32];
    size_t number = (size_t)device;
    if (number > SLICES) snprintf(name, sizeof name, "STUB_MIG_%zu", number - SLICES - 1);
    else snprintf(name, sizeof name, "STUB_GPU_%zu", number - 1);
    return getenv(name);
}

static void field_of(void *device, int place, char *out, size_t size) {
    const char *at = row_of(device);
    for (; at && place; place--) { at = strchr(at, '/'); if (at) at++; }
    snprintf(out, size, "%.*s", at ? (int)strcspn(at, "/") : 0, at ? at : "");
}

static u64 number_of(void *device, int place) {
    char word[64];
    field_of(device, place, word, sizeof word);
    return strtoull(word, NULL, 10);
}

#define ASK(call, device) do { int code = refused(call, device); if (code) return code; } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; ASK("init", NULL); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 9: return "Driver Not Loaded";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    ASK("driver", NULL);
    snprintf(out, size, "570.124.06");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    ASK("count", NULL);
    for (*count = 0; row_of((void *)(size_t)(*count + 1)); ++*count) { }
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    ASK("handle", (void *)(size_t)(index + 1));
    *device = (void *)(size_t)(index + 1);
    return row_of(*device) ? OK : BAD_ARGUMENT;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char own[96];
    ASK("uuid_handle", NULL);
    for (size_t base = 0; base <= SLICES; base += SLICES)
        for (size_t place = 1; row_of((void *)(base + place)); place++) {
            field_of((void *)(base + place), 0, own, sizeof own);
            if (!strcmp(own, uuid)) { *device = (void *)(base + place); return OK; }
        }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned size) {
    ASK("uuid", device);
    field_of(device, 0, out, size);
    return OK;
}

int nvmlDeviceGetName(void *device, char *out, unsigned size) {
    ASK("name", device);
    field_of(device, 1, out, size);
    return OK;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) {
    ASK("mig_mode", device);
    if (!getenv("STUB_MIG_0")) return NOT_SUPPORTED;
    *now = *later = (size_t)device == 1;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    ASK("mig_count", device);
    *count = 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice) {
    ASK("mig_handle", device);
    *slice = (void *)(size_t)(SLICES + 1 + index);
    return row_of(*slice) ? OK : NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **device) {
    ASK("mig_parent", slice);
    *device = (void *)1;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *out) {
    ASK("memory", device);
    out->total = number_of(device, 2);
    out->used = number_of(device, 3) + number_of(device, 5);
    out->free = number_of(device, 4);
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *out) {
    ASK("memory", device);
    ASK("memory_v2", device);
    out->total = number_of(device, 2);
    out->used = number_of(device, 3);
    out->free = number_of(device, 4);
    out->reserved = number_of(device, 5);
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *out) {
    const char *at = getenv("STUB_PROCESSES");
    unsigned room = *count;
    ASK("processes", device);
    *count = 0;
    while (at && *at) {
        char *rest;
        unsigned pid = strtoul(at, &rest, 10);
        u64 used = *rest == ':' ? strtoull(rest + 1, &rest, 10) : ~0ull;
        if (out && *count < room) out[*count] = (process){pid, used, ~0u, ~0u};
        ++*count;
        at = *rest == ',' ? rest + 1 : NULL;
    }
    return *count > room ? TOO_SMALL : OK;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) {
    const char *at = getenv("STUB_SM");
    ASK("clock", device);
    *mhz = 2619;
    if (kind != 1 || !at) return OK;
    for (int place = clock_questions++; place && strchr(at, ','); place--) at = strchr(at, ',') + 1;
    *mhz = strtoul(at, NULL, 10);
    return OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    (void)sensor;
    ASK("temperature", device);
    *celsius = 71;
    return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    ASK("power", device);
    *milliwatts = 690500;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, u64 *reasons) {
    const char *bits = getenv("STUB_REASONS");
    ASK("reasons", device);
    *reasons = bits ? strtoull(bits, NULL, 0) : 0;
    return OK;
}
