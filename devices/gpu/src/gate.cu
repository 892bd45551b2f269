// Holds a stream back until the host has queued the work to be timed, so that the device finds the launches waiting and
// the time includes no gaps between them. Not portable: it reads the device's clock.

// The host writes the ticket to the first word to open the gate; the kernel writes it to the second if the gate timed
// out.
extern "C" __global__ void gate(volatile u32* words, u32 ticket, u64 limit_ns) {
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        // After the limit the stream continues: a host that waits for the device must never wait forever.
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (static_cast<i32>(words[0] - ticket) < 0 && now - start < limit_ns);
    if (static_cast<i32>(words[0] - ticket) < 0) words[1] = ticket;
}
