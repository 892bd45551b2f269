// NVML for the rehearsal driver. REHEARSAL_SLOWED=BITS sets the throttle reasons.
#include <cstdlib>

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
    static int card;
    *device = &card;
    return 0;
}
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
    *mhz = 1;
    return kind == 1 ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
    *milliwatts = 1000;
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
    const char* value = std::getenv("REHEARSAL_SLOWED");
    *reasons = value ? std::strtoull(value, nullptr, 0) : 0;
    return 0;
}
}
