//! The implementations of `kde-stream`: each call decodes the next time bin, so a sample is the latency of one bin.

use ellwand_core::{Case, DeviceError, Implementation, Poison, PrepareError, Prepared, Tensor, Tensors};

use super::arrays::{Arrays, input_error};
use super::data::Spikes;
use super::error::KdeError;
use super::model::ClusterlessDecoder;
use super::options::{Method, Options};
use super::rows::Decoding;
use super::{Arrival, Stream, Workspace};
use ellwand_simd::isa::Isa;

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
        Implementation::cpu("kde-stream", name, about, move |case: &Case, inputs, _| {
            Ok(Box::new(Job::new(way, Isa::of(case)?, inputs)?))
        })
    };
    vec![
        row("reference", "f64, one formula after the other", Way::Exact),
        row("batch", "the fused tiles of kde-predict, called for one bin", Way::Batch),
        row("simd", "position kernels by recurrence along an even grid, in vector lanes on one thread", Way::Stream),
    ]
}

/// A recording that arrives bin by bin.
struct Job {
    way: Way,
    isa: Isa,
    model: ClusterlessDecoder,
    edges: Vec<f64>,
    bins: Vec<Bin>,
    /// Index of the next bin.
    next: usize,
    workspace: Workspace,
    /// The streaming decoder, which owns its model.
    stream: Option<Stream>,
    /// Results `[N, B]`, and the rows of one bin.
    out: Vec<f32>,
    rows: Vec<f32>,
    /// Whether each row of the results was decoded since poisoning.
    decoded: Vec<bool>,
    problem: Option<KdeError>,
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
            ClusterlessDecoder::fit(arrays.track(), &arrays.grid, &arrays.encoding(), &arrays.bandwidth, method)
                .map_err(input_error)?;
        let electrodes = arrays.decoding_spikes();
        let decoding = arrays.decoding(&electrodes);
        decoding.check(&model).map_err(input_error)?;
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
            next: 0,
            workspace: Workspace::default(),
            stream,
            out: vec![f32::NAN; decoding.time_edges.len() * width],
            rows: vec![0.0; 2 * width],
            decoded: vec![false; decoding.time_edges.len()],
            problem: None,
            model,
        })
    }

    fn decode(&mut self) -> Result<(), KdeError> {
        let (at, width) = (self.next, self.model.bins());
        self.next = (at + 1) % self.bins.len();
        self.decoded[at] = true;
        let bin = &self.bins[at];
        let out = &mut self.out[at * width..(at + 1) * width];
        if let Some(stream) = &mut self.stream {
            let spikes: Vec<Arrival<'_>> =
                bin.spikes.iter().map(|(electrode, mark)| Arrival { electrode: *electrode, mark }).collect();
            return stream.bin(&spikes, out);
        }
        let spike_lists = bin.times.iter().zip(&bin.features).zip(self.model.n_features());
        let electrodes: Vec<Spikes<'_>> =
            spike_lists.map(|((times, features), n_features)| Spikes { times, features, n_features }).collect();
        let decoding = Decoding { time_edges: &self.edges[at..at + 2], electrodes: &electrodes };
        if self.way == Way::Exact {
            let exact = self.model.predict_exactly(&decoding)?;
            out.iter_mut().zip(exact).for_each(|(out, exact)| *out = exact as f32);
        } else {
            let options = Options::new(Method::Simd(self.isa));
            self.model.predict_into(&decoding, &options, &mut self.workspace, &mut self.rows)?;
            out.copy_from_slice(&self.rows[..width]);
        }
        Ok(())
    }
}

impl Prepared for Job {
    /// A sample is one bin, so that slow bins are visible.
    fn most_iterations(&self) -> u64 {
        1
    }

    fn run(&mut self) {
        if let Err(problem) = self.decode() {
            self.problem = Some(problem);
        }
    }

    fn poison(&mut self, poison: Poison) {
        self.problem = None;
        poison.fill(&mut self.out);
        self.decoded.fill(false);
    }

    /// Rows of bins not decoded since poisoning are NaN.
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        if let Some(problem) = &self.problem {
            return Err(DeviceError::new(problem.to_string()));
        }
        let shape = [self.edges.len(), self.model.bins()];
        let mut out = self.out.clone();
        let rows = out.chunks_mut(self.model.bins()).zip(&self.decoded);
        rows.filter(|(_, decoded)| !**decoded).for_each(|(row, _)| row.fill(f32::NAN));
        Ok(Tensors::new().with("log_likelihood", Tensor::new(&shape, &out[..])?))
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
