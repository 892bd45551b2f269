//! Components on a device: what it did during each recorded iteration, according to its own records.

use std::collections::BTreeMap;

use ellwand_core::device::Activity;
use ellwand_core::record::SpanNode;
use ellwand_core::stats::{median, quantile};

/// The operations of a device as components: a row for the device and one for each kernel or kind of copy inside it.
///
/// `starts` holds the starts of the iterations in nanoseconds since the recording began, in order. An operation belongs
/// to the last iteration that began before the operation's middle: the clocks of host and device agree only to
/// microseconds, and every iteration waits for the device. Operations before the first iteration are omitted, and call
/// times exclude the iterations with the indices `left_out`. The rows belong to no thread of the process.
pub(crate) fn components(device: &str, starts: &[f64], left_out: &[usize], activities: &[Activity]) -> Vec<SpanNode> {
    let mut by_name: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for activity in activities.iter().filter(|activity| !activity.call) {
        let middle = activity.start_ns as f64 + activity.ns as f64 / 2.0;
        let began = starts.partition_point(|start| *start <= middle);
        if let Some(iteration) = began.checked_sub(1) {
            by_name.entry(&activity.name).or_default().push((iteration, activity.ns as f64));
        }
    }
    if by_name.is_empty() {
        return Vec::new();
    }
    let root = vec![format!("on {device}")];
    let mut children: Vec<SpanNode> = by_name
        .into_iter()
        .map(|(name, calls)| {
            let mut total_ns = vec![0.0; starts.len()];
            calls.iter().for_each(|(iteration, ns)| total_ns[*iteration] += ns);
            let path = [&root[..], &[name.to_string()]].concat();
            let kept = calls.iter().filter(|(iteration, _)| left_out.binary_search(iteration).is_err());
            let times: Vec<f64> = kept.map(|(_, ns)| *ns).collect();
            SpanNode {
                path,
                calls: calls.len() as u64,
                self_ns: total_ns.clone(),
                total_ns,
                call_min_ns: quantile(&times, 0.0),
                call_median_ns: median(&times),
                call_p99_ns: quantile(&times, 0.99),
                call_max_ns: quantile(&times, 1.0),
                ..SpanNode::default()
            }
        })
        .collect();
    let sum = |node: &SpanNode| node.total_ns.iter().sum::<f64>();
    children.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    let mut all = vec![0.0; starts.len()];
    for child in &children {
        all.iter_mut().zip(&child.total_ns).for_each(|(all, ns)| *all += ns);
    }
    let calls = children.iter().map(|child| child.calls).sum();
    let nothing = vec![0.0; starts.len()];
    let whole = SpanNode { path: root, calls, total_ns: all, self_ns: nothing, ..SpanNode::default() };
    std::iter::once(whole).chain(children).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &str, start_ns: i64, ns: u64) -> Activity {
        let lane = "stream 13".to_string();
        Activity { name: name.into(), lane, start_ns, ns, corr: 1, call: false, detail: String::new() }
    }

    #[test]
    fn kernels_are_summed_by_name_in_the_iteration_they_ran_in() {
        let starts = [100.0, 200.0];
        let launch = Activity { call: true, ..ran("cuLaunchKernel", 101, 5) };
        let activities = [
            ran("before", 10, 20),
            launch,
            // The device clock is slightly behind.
            ran("short", 98, 10),
            ran("long", 110, 50),
            ran("short", 165, 20),
            ran("long", 210, 70),
        ];
        let nodes = components("cuda:0", &starts, &[], &activities);
        let rows: Vec<_> = nodes.iter().map(|n| (n.path.join("/"), n.calls, &n.total_ns[..], &n.self_ns[..])).collect();
        let expected: [(&str, u64, &[f64], &[f64]); 3] = [
            ("on cuda:0", 4, &[80.0, 70.0], &[0.0, 0.0]),
            ("on cuda:0/long", 2, &[50.0, 70.0], &[50.0, 70.0]),
            ("on cuda:0/short", 2, &[30.0, 0.0], &[30.0, 0.0]),
        ];
        assert_eq!(rows, expected.map(|(path, calls, total, own)| (path.to_string(), calls, total, own)));
        assert_eq!((nodes[2].call_min_ns, nodes[2].call_median_ns), (Some(10.0), Some(15.0)));
        let kept = components("cuda:0", &starts, &[1], &activities);
        assert_eq!((kept[1].calls, kept[1].call_max_ns), (2, Some(50.0)));
        assert!(nodes.iter().all(|node| !node.calling && node.lanes == 0));
    }

    #[test]
    fn a_device_without_records_has_no_rows() {
        assert!(components("cuda:0", &[0.0], &[], &[]).is_empty());
        assert!(components("cuda:0", &[], &[], &[ran("kernel", 5, 5)]).is_empty());
    }
}
