//! The implementations of `kde-stream`. An iteration decodes a recording bin by bin, each bin without knowledge of the next. So
//! iterations are alike although bins are not. Readings hold the latencies of the single bins.

use std::time::{Duration, Instant};

use ellwand_core::{
    Better, Case, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Reading, Tensor, Tensors,
    view::Columns,
};

use super::arrays::Arrays;
use super::data::Spikes;
use super::model::ClusterlessDecoder;
use super::options::{Method, Options, Precision};
use super::rows::Decoding;
use super::{Arrival, Stream, Workspace};
use ellwand_simd::isa::Isa;

const NAME: &str = "kde-stream";
const P50: &str = "bin-p50";
const P99: &str = "bin-p99";
const SLOWEST: &str = "slowest-bin";

/// Passes over the recording that measure the latency of each bin end after this time ..
const LATENCIES: Duration = Duration::from_millis(200);
/// .. and this many passes.
const PASSES: usize = 7;

/// How a bin is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By the f64 reference.
    Exact,
    /// By the kernels of `kde-predict`, called for one bin.
    Batch,
    /// By the streaming decoder.
    Stream,
}

pub(super) fn implementations() -> Vec<Implementation> {
    let row = |name: &str, about: &str, way: Way| {
        Implementation::cpu(NAME, name, about, move |case: &Case, inputs, _| {
            Ok(Box::new(Job::new(way, Isa::of(case)?, inputs)?))
        })
    };
    vec![
        row("reference", "f64, one formula after the other", Way::Exact),
        row("batch", "the fused tiles of kde-predict, called for one bin", Way::Batch),
        row("simd", "position kernels by recurrence along an even grid, in vector lanes on one thread", Way::Stream),
    ]
}

/// Latencies that are reported with the time.
pub(super) fn columns() -> Columns {
    Columns { workloads: vec![NAME.into()], readings: [P50, P99, SLOWEST].map(String::from).into() }
}

/// A recording that arrives bin by bin.
struct Job {
    way: Way,
    isa: Isa,
    model: ClusterlessDecoder,
    edges: Vec<f64>,
    bins: Vec<Bin>,
    workspace: Workspace,
    /// The streaming decoder, which owns its model.
    stream: Option<Stream>,
    /// Results `[N, B]`, and the rows of one bin.
    out: Vec<f32>,
    rows: Vec<f32>,
    done: Result<(), InputError>,
}

/// The spikes of one bin: (electrode, mark).
struct Bin {
    spikes: Vec<(usize, Vec<f64>)>,
    /// The same spikes by electrode, with times in the middle of the bin.
    times: Vec<Vec<f64>>,
    features: Vec<Vec<f64>>,
}

impl Job {
    fn new(way: Way, isa: Isa, inputs: &Tensors) -> Result<Job, PrepareError> {
        let arrays = Arrays::read(inputs, true, false)?;
        let method = if way == Way::Exact { Method::Reference } else { Method::Simd(isa) };
        let model =
            ClusterlessDecoder::fit(arrays.track(), &arrays.grid, &arrays.encoding(), &arrays.bandwidth, method)?;
        let electrodes = arrays.decoding_spikes();
        let decoding = arrays.decoding(&electrodes);
        decoding.check(&model)?;
        let edges = decoding.time_edges.to_vec();
        let lists = || vec![Vec::new(); electrodes.len()];
        let mut bins: Vec<Bin> =
            (1..edges.len()).map(|_| Bin { spikes: Vec::new(), times: lists(), features: lists() }).collect();
        for (number, (spikes, pairs)) in electrodes.iter().zip(decoding.pairs()).enumerate() {
            for (spike, row) in pairs {
                let mark = &spikes.features[spike * spikes.n_features..][..spikes.n_features];
                bins[row].spikes.push((number, mark.to_vec()));
                bins[row].times[number].push(spikes.times[spike]);
                bins[row].features[number].extend_from_slice(mark);
            }
        }
        let width = model.bins();
        let stream = (way == Way::Stream).then(|| model.clone().into_stream(isa));
        Ok(Job {
            way,
            isa,
            edges,
            bins,
            workspace: Workspace::default(),
            stream,
            out: vec![f32::NAN; decoding.time_edges.len() * width],
            rows: vec![0.0; 2 * width],
            done: Ok(()),
            model,
        })
    }

    /// Decodes bin `at`. For the last bin, also computes the row of the last edge, which never has a spike.
    fn decode(&mut self, at: usize) -> Result<(), InputError> {
        let width = self.model.bins();
        let last = at + 1 == self.bins.len();
        let bin = &self.bins[at];
        let (out, end) = self.out[at * width..].split_at_mut(width);
        if let Some(stream) = &mut self.stream {
            let spikes: Vec<Arrival<'_>> =
                bin.spikes.iter().map(|(electrode, mark)| Arrival { electrode: *electrode, mark }).collect();
            // First, so that the stream's count covers this bin's spikes.
            if last {
                stream.bin(&[], &mut end[..width])?;
            }
            return stream.bin(&spikes, out);
        }
        let spike_lists = bin.times.iter().zip(&bin.features).zip(self.model.n_features());
        let electrodes: Vec<Spikes<'_>> =
            spike_lists.map(|((times, features), n_features)| Spikes { times, features, n_features }).collect();
        let decoding = Decoding { time_edges: &self.edges[at..at + 2], electrodes: &electrodes };
        if self.way == Way::Exact {
            let exact = self.model.predict_exactly(&decoding)?;
            self.rows.iter_mut().zip(exact).for_each(|(row, exact)| *row = exact as f32);
        } else {
            let options = Options::new(Method::Simd(self.isa));
            self.model.predict_into(&decoding, &options, &mut self.workspace, &mut self.rows)?;
        }
        out.copy_from_slice(&self.rows[..width]);
        if last {
            end[..width].copy_from_slice(&self.rows[width..]);
        }
        Ok(())
    }

    /// The latency of each bin in ascending order, in seconds: the shortest of several passes, which other programs did
    /// not lengthen. Also the operations of one pass.
    fn latencies(&mut self) -> Result<(Vec<f64>, f64), InputError> {
        let mut shortest = vec![f64::INFINITY; self.bins.len()];
        let mut pairs = 0;
        let begun = Instant::now();
        for pass in 0..PASSES {
            for (at, shortest) in shortest.iter_mut().enumerate() {
                let start = Instant::now();
                self.decode(at)?;
                *shortest = shortest.min(start.elapsed().as_secs_f64());
                if pass == 0 {
                    pairs += self.pairs(at);
                }
            }
            if begun.elapsed() > LATENCIES {
                break;
            }
        }
        shortest.sort_by(f64::total_cmp);
        Ok((shortest, 2.0 * pairs as f64))
    }

    /// Number of (spike, position bin) pairs summed when decoding bin `at`, the last one decoded.
    fn pairs(&self, at: usize) -> u64 {
        match &self.stream {
            Some(stream) => stream.pairs(self.bins[at].spikes.iter().map(|(electrode, _)| *electrode)),
            None => self.workspace.pairs(Precision::F32),
        }
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        self.done = (0..self.bins.len()).try_for_each(|at| self.decode(at));
    }

    fn poison(&mut self, poison: Poison) {
        self.done = Ok(());
        poison.fill(&mut self.out);
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        let out = Tensor::new(&[self.edges.len(), self.model.bins()], &self.out[..])?;
        Ok(Tensors::new().with("log_likelihood", out))
    }

    fn readings(&mut self) -> Vec<Reading> {
        if self.way == Way::Exact {
            return Vec::new();
        }
        let Ok((latencies, operations)) = self.latencies() else { return Vec::new() };
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share).round() as usize];
        let of = |id: &str, title: &str, seconds: f64, which: &str| {
            let about =
                format!("time of {which} of the recording's time bins, each the shortest of up to {PASSES} passes");
            Reading::measured(id, title, "s", Better::Lower, seconds, &about)
        };
        vec![
            of(P50, "bin p50", at(0.5), "the median"),
            of(P99, "bin p99", at(0.99), "the 99th percentile"),
            of(SLOWEST, "slowest bin", at(1.0), "the slowest"),
            Reading::operations(operations),
        ]
    }

    fn what_ran(&self) -> String {
        let spikes: usize = self.bins.iter().map(|bin| bin.spikes.len()).sum();
        let most = self.bins.iter().map(|bin| bin.spikes.len()).max().unwrap_or(0);
        let mean = spikes as f64 / self.bins.len() as f64;
        let load = format!("{mean:.2} spikes a bin, at most {most}");
        match self.way {
            Way::Exact => format!("f64; {load}"),
            Way::Batch => format!("{}; {load}", self.isa.name()),
            Way::Stream => {
                let fast = self.stream.as_ref().map_or(0, Stream::recurring);
                let all = self.model.mean_rates().len();
                format!("{}, {fast} of {all} electrodes by recurrence; {load}", self.isa.name())
            }
        }
    }
}
