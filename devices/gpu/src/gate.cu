// Holds a stream back until the host has queued what is to be timed, so that the device finds the launches waiting and
// the gaps between them are not in the time. Not portable: it reads the device's clock.

// The first word is what the host has opened it for; the second becomes the ticket where the host came too late.
extern "C" __global__ void gate(volatile u32* words, u32 ticket, u64 limit_ns) {
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        // Past the limit the stream goes on by itself: a host that waits for the device must never wait for ever.
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (static_cast<i32>(words[0] - ticket) < 0 && now - start < limit_ns);
    if (static_cast<i32>(words[0] - ticket) < 0) words[1] = ticket;
}
