// Holds a stream back until the host has queued what is to be timed, so that the device finds the launches waiting and
// the gaps between them are not in the time. Not portable: it reads the device's clock.

extern "C" __global__ void gate(const volatile u32* opened, u32 ticket, u64 limit_ns) {
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        // Past the limit the stream goes on by itself: a host that waits for the device must never wait for ever.
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (static_cast<i32>(*opened - ticket) < 0 && now - start < limit_ns);
}
