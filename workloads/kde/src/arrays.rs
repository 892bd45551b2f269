//! The public arrays: ragged lists are concatenated and delimited by offsets.

use ellwand_core::{Case, InputError, Tensor, Tensors};

use super::data::{Bandwidth, Spikes, Track};
use super::generate::{Data, Ragged};
use super::rows::Decoding;

/// Owned copies of a decoder's arguments, read from arrays. Epochs that a task does not use are absent.
#[derive(Debug, Clone)]
pub(super) struct Arrays {
    pub(super) dims: usize,
    pub(super) position_time: Vec<f64>,
    pub(super) position: Vec<f64>,
    pub(super) grid: Vec<f64>,
    pub(super) n_features: Vec<usize>,
    pub(super) bandwidth: Bandwidth,
    pub(super) encoding: Epoch,
    pub(super) decoding: Option<(Vec<f64>, Epoch)>,
    pub(super) dec_track: Option<(Vec<f64>, Vec<f64>)>,
}

/// The spikes of one epoch.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    times: Vec<f64>,
    offsets: Vec<usize>,
    features: Vec<f64>,
}

/// The elements of a numeric array, converted to f64.
fn numbers(given: &Tensors, name: &str) -> Result<Vec<f64>, InputError> {
    Ok(given.get(name)?.data().to_f64())
}

/// Whole numbers from an array of any integer or float type.
fn counts(given: &Tensors, name: &str) -> Result<Vec<usize>, InputError> {
    let values = numbers(given, name)?;
    let whole = |(at, v): (usize, &f64)| {
        if v.fract() == 0.0 && (0.0..9e15).contains(v) {
            return Ok(*v as usize);
        }
        Err(InputError::new(name, format!("value {at} is {v}"), "whole numbers from 0 up"))
    };
    values.iter().enumerate().map(whole).collect()
}

/// Positions with the dimensions of `position`; `rows` names their number in the message.
fn places(given: &Tensors, name: &str, rows: &str, dims: usize) -> Result<Vec<f64>, InputError> {
    match given.get(name)?.shape() {
        [_] if dims == 1 => {}
        [_, columns] if *columns == dims => {}
        shape => {
            let one = if dims == 1 { format!(" or [{rows}]") } else { String::new() };
            let expected = format!("[{rows}, {dims}]{one}, with the dimensions of position");
            return Err(InputError::new(name, format!("its shape is {shape:?}"), expected));
        }
    }
    numbers(given, name)
}

fn offsets(given: &Tensors, name: &str, electrodes: usize, end: usize) -> Result<Vec<usize>, InputError> {
    let offsets = counts(given, name)?;
    let why = format!("one more than the {electrodes} electrodes of n_features");
    super::error::length(name, offsets.len(), electrodes + 1, &why)?;
    let bad = |at: usize| {
        InputError::new(name, format!("offset {at} is {}", offsets[at]), format!("ascending offsets from 0 to {end}"))
    };
    if offsets[0] != 0 {
        return Err(bad(0));
    }
    if let Some(at) = (1..offsets.len()).find(|&at| offsets[at] < offsets[at - 1] || offsets[at] > end) {
        return Err(bad(at));
    }
    if offsets[electrodes] != end {
        return Err(bad(electrodes));
    }
    Ok(offsets)
}

fn epoch(given: &Tensors, list: &str, n_features: &[usize]) -> Result<Epoch, InputError> {
    let times = numbers(given, &format!("{list}_spike_times"))?;
    let offsets = offsets(given, &format!("{list}_spike_times_offsets"), n_features.len(), times.len())?;
    let name = format!("{list}_features_flat");
    let features = numbers(given, &name)?;
    let expected = offsets.windows(2).zip(n_features).map(|(w, f)| (w[1] - w[0]) * f).sum();
    super::error::length(&name, features.len(), expected, "spikes times features, summed over electrodes")?;
    Ok(Epoch { times, offsets, features })
}

impl Arrays {
    /// Reads the arrays: with decoding spikes if `decoding`, and the decoding track if `local`.
    pub(super) fn read(given: &Tensors, decoding: bool, local: bool) -> Result<Self, InputError> {
        let position = given.get("position")?;
        let dims = match position.shape() {
            [_] => 1,
            [_, dims] => *dims,
            shape => return Err(InputError::new("position", format!("its shape is {shape:?}"), "[T] or [T, D]")),
        };
        let n_features = counts(given, "n_features")?;
        let widths = |name: &str| if given.find(name).is_some() { numbers(given, name).map(Some) } else { Ok(None) };
        let default = Bandwidth::default();
        let bandwidth = Bandwidth {
            position: widths("position_std")?.unwrap_or(default.position),
            waveform: widths("waveform_std")?.unwrap_or(default.waveform),
        };
        let encoding = epoch(given, "enc", &n_features)?;
        let decoding =
            if decoding { Some((numbers(given, "time_edges")?, epoch(given, "dec", &n_features)?)) } else { None };
        let dec_track = if local {
            Some((numbers(given, "dec_position_time")?, places(given, "dec_position", "T", dims)?))
        } else {
            None
        };
        Ok(Self {
            dims,
            position_time: numbers(given, "position_time")?,
            position: numbers(given, "position")?,
            grid: places(given, "grid", "B", dims)?,
            n_features,
            bandwidth,
            encoding,
            decoding,
            dec_track,
        })
    }

    pub(super) fn track(&self) -> Track<'_> {
        Track { time: &self.position_time, position: &self.position, dims: self.dims }
    }

    pub(super) fn dec_track(&self) -> Option<Track<'_>> {
        self.dec_track.as_ref().map(|(time, position)| Track { time, position, dims: self.dims })
    }

    /// The decoding track; only a local task has one.
    pub(super) fn checked_track(&self) -> Result<Track<'_>, InputError> {
        let track = self.dec_track();
        let track = track.ok_or_else(|| {
            InputError::new("dec_position_time", "it is missing", "the times of the animal's positions")
        })?;
        track.check("dec_position_time", "dec_position")?;
        Ok(track)
    }

    pub(super) fn encoding(&self) -> Vec<Spikes<'_>> {
        self.encoding.spikes(&self.n_features)
    }

    pub(super) fn decoding_spikes(&self) -> Vec<Spikes<'_>> {
        self.decoding.as_ref().map_or_else(Vec::new, |(_, epoch)| epoch.spikes(&self.n_features))
    }

    pub(super) fn decoding<'a>(&'a self, electrodes: &'a [Spikes<'a>]) -> Decoding<'a> {
        Decoding { time_edges: self.decoding.as_ref().map_or(&[], |(edges, _)| edges), electrodes }
    }
}

impl Epoch {
    fn spikes(&self, n_features: &[usize]) -> Vec<Spikes<'_>> {
        let mut at = 0;
        let cut = |(w, &f): (&[usize], &usize)| {
            let n = (w[1] - w[0]) * f;
            at += n;
            Spikes { times: &self.times[w[0]..w[1]], features: &self.features[at - n..at], n_features: f }
        };
        self.offsets.windows(2).zip(n_features).map(cut).collect()
    }
}

fn epoch_tensors(arrays: &mut Tensors, list: &str, spikes: &Ragged) {
    arrays.insert(&format!("{list}_spike_times"), Tensor::vector(&spikes.times[..]));
    arrays.insert(&format!("{list}_spike_times_offsets"), Tensor::vector(&spikes.offsets[..]));
    arrays.insert(&format!("{list}_features_flat"), Tensor::vector(&spikes.features[..]));
}

/// Converts a data set to the public arrays.
pub(super) fn tensors(data: &Data, dims: usize, decoding: bool, local: bool) -> Result<Tensors, InputError> {
    let rows = |values: &[f64]| Tensor::new(&[values.len() / dims, dims], values);
    let bandwidth = Bandwidth::default();
    let mut arrays = Tensors::new()
        .with("position_time", Tensor::vector(&data.position_time[..]))
        .with("position", rows(&data.position)?)
        .with("grid", rows(&data.grid)?)
        .with("n_features", Tensor::vector(&data.n_features[..]))
        .with("position_std", Tensor::vector(&vec![bandwidth.position[0]; dims][..]))
        .with("waveform_std", Tensor::vector(&bandwidth.waveform[..]));
    epoch_tensors(&mut arrays, "enc", &data.encoding);
    if decoding {
        arrays.insert("time_edges", Tensor::vector(&data.time_edges[..]));
        epoch_tensors(&mut arrays, "dec", &data.decoding);
    }
    if local {
        arrays.insert("dec_position_time", Tensor::vector(&data.dec_position_time[..]));
        arrays.insert("dec_position", rows(&data.dec_position)?);
    }
    Ok(arrays)
}

/// Sets the axes of a case to the sizes of the arrays.
pub(super) fn describe(case: &mut Case, arrays: &Arrays) {
    let mean = |n: usize| (n as f64 / arrays.n_features.len().max(1) as f64).round().max(1.0) as i64;
    case.set("data", "given");
    case.set("samples", arrays.position_time.len() as i64);
    case.set("electrodes", arrays.n_features.len() as i64);
    case.set("enc-spikes", mean(arrays.encoding.times.len()));
    case.set("bins", (arrays.grid.len() / arrays.dims) as i64);
    case.set("features", arrays.n_features.iter().copied().max().unwrap_or(0) as i64);
    case.set("dims", arrays.dims as i64);
    if let Some((edges, epoch)) = &arrays.decoding {
        case.set("edges", edges.len() as i64);
        case.set("dec-spikes", mean(epoch.times.len()));
    }
}
