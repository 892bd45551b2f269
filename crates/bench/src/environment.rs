//! Describes the machine, as far as the system reports it.

use std::fs;

use ellwand_core::record::{Cache, Environment};

pub use crate::block::allowed_cores;
use crate::cpu::{Cpu, clock_quality, slot_cost_ns};
use crate::sample::MAX_PARTS;

/// Describes this machine. The ceilings stay empty: [`crate::machine`] measures them.
pub fn detect() -> Environment {
    let clock = clock_quality();
    Environment {
        clock_cost_ns: Some(clock.cost_ns),
        clock_step_ns: Some(clock.step_ns),
        slot_cost_ns: Some(slot_cost_ns(&Cpu::default(), MAX_PARTS)),
        ..facts()
    }
}

/// Everything that needs no measurement. Clock and slot costs are missing, because measuring them takes longer than
/// starting a worker. The fingerprint equals that of [`detect`].
pub fn facts() -> Environment {
    Environment {
        os: format!("{} {}", std::env::consts::OS, text("/proc/sys/kernel/osrelease").unwrap_or_default())
            .trim()
            .to_string(),
        architecture: std::env::consts::ARCH.to_string(),
        cpu: cpu_name(),
        cpu_features: features(),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_bytes: meminfo("MemTotal:"),
        caches: caches(),
        load: load(),
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        huge_pages: huge_pages(),
        virtualised: cpuinfo("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        clock_cost_ns: None,
        clock_step_ns: None,
        slot_cost_ns: None,
        compiler: env!("ELLWAND_RUSTC").to_string(),
        devices: Vec::new(),
        ceilings: Vec::new(),
    }
}

/// Load average over one minute.
pub fn load() -> Option<f64> {
    text("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

/// Memory available without swapping, in bytes.
pub fn available_memory() -> Option<u64> {
    meminfo("MemAvailable:")
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn cpuinfo(key: &str) -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    info.lines().find(|line| line.starts_with(key))?.split_once(':').map(|(_, value)| value.trim().to_string())
}

fn cpu_name() -> String {
    let name = cpuinfo("model name").unwrap_or_else(|| "unknown processor".into());
    match (cpuinfo("cpu family"), cpuinfo("model\t")) {
        (Some(family), Some(model)) => format!("{name} (family {family} model {model})"),
        _ => name,
    }
}

/// The instruction set extensions that kernels select by, if the CPU has them.
fn features() -> Vec<String> {
    const OF_INTEREST: [&str; 14] = [
        "sse4_2",
        "avx",
        "avx2",
        "fma",
        "avx512f",
        "avx512dq",
        "avx512bw",
        "avx512vl",
        "avx512vbmi",
        "avx512_vnni",
        "avx512_bf16",
        "amx_tile",
        "asimd",
        "sve",
    ];
    let flags = cpuinfo("flags").or_else(|| cpuinfo("Features")).unwrap_or_default();
    let present: Vec<&str> = flags.split_whitespace().collect();
    OF_INTEREST.iter().filter(|feature| present.contains(feature)).map(ToString::to_string).collect()
}

fn meminfo(key: &str) -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Data and unified caches of the first CPU core.
pub(crate) fn caches() -> Vec<Cache> {
    let mut caches: Vec<Cache> = (0..10)
        .filter_map(|index| {
            let read = |file: &str| text(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}"));
            if read("type")? == "Instruction" {
                return None;
            }
            Some(Cache {
                level: format!("L{}", read("level")?),
                bytes: size(&read("size")?)?,
                shared_by: read("shared_cpu_list").map_or(1, |list| listed(&list)),
            })
        })
        .collect();
    caches.sort_by_key(|cache| cache.bytes);
    caches
}

/// The setting of transparent huge pages, such as `madvise`.
pub fn huge_pages() -> Option<String> {
    text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| bracketed(&text))
}

/// Size of the second-level cache of a core in bytes; 512 KiB if unknown.
pub fn second_level_cache() -> u64 {
    caches().iter().find(|cache| cache.level == "L2").map_or(512 << 10, |cache| cache.bytes)
}

/// Parses a size such as `32K` into bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().ok().map(|number| number * unit)
}

/// Counts the processors in a list such as `0-3,8`.
fn listed(list: &str) -> u32 {
    list.split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if last >= first => last - first + 1,
                _ => 1,
            },
            None => 1,
        })
        .sum()
}

/// The selected word of a list: `madvise` in `always [madvise] never`.
fn bracketed(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_name_the_same_machine_without_measuring_anything() {
        let (facts, all) = (facts(), detect());
        assert_eq!(facts.fingerprint(), all.fingerprint());
        assert_eq!((facts.clock_cost_ns, facts.clock_step_ns, facts.slot_cost_ns), (None, None, None));
        assert!(all.clock_cost_ns.is_some() && all.slot_cost_ns.is_some());
    }

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(size("32K"), Some(32 << 10));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(listed("0-1"), 2);
        assert_eq!(listed("0-3,8"), 5);
        assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
    }

    #[test]
    fn this_machine_has_a_processor_and_a_clock() {
        let here = detect();
        assert!(here.cores >= 1 && !here.architecture.is_empty());
        assert!(here.clock_cost_ns.unwrap() > 0.0 && here.clock_step_ns.unwrap() > 0.0);
        assert!(here.compiler.starts_with("rustc"));
        assert_eq!(
            here.fingerprint(),
            detect().fingerprint(),
            "load and time are no part of what identifies a machine"
        );
    }
}
