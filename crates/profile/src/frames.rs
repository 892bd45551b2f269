//! A trace divided by a repeated span (an iteration, a training step, a frame): the components of each repetition.

use crate::summary::Row;
use crate::trace::{Span, Trace};

/// The components of a repeated span.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    /// Duration of each frame in nanoseconds.
    pub wall_ns: Vec<f64>,
    /// Number of frames that each entry is the mean of: 1, unless frames were pooled.
    pub sizes: Vec<u32>,
    /// Spans inside frames and spans of other threads that began during one; each after its parent. The self times on
    /// the frames' thread and the time outside all spans add up to the duration of the frames.
    pub rows: Vec<FrameRow>,
}

/// A row of a summary with its time in every frame.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameRow {
    /// The row; its path starts inside the frame.
    pub row: Row,
    /// True if the spans are on the frames' thread; false if they ran on others at the same time.
    pub inside: bool,
    /// Total time in each frame, in nanoseconds.
    pub total_ns: Vec<f64>,
    /// Self time in each frame, in nanoseconds.
    pub self_ns: Vec<f64>,
}

impl Trace {
    /// Divides the trace by [its spans](Trace::frame_spans) called `name`. Skips spans outside all frames and frames that
    /// did not end.
    #[inline]
    pub fn frames(&self, name: &str) -> Frames {
        self.frames_pooled(name, usize::MAX)
    }

    /// As [`Trace::frames`], without the frames of these ascending indices.
    #[inline]
    pub fn frames_without(&self, name: &str, left_out: &[usize]) -> Frames {
        self.divided(name, usize::MAX, left_out)
    }

    /// As [`Trace::frames`], but with at most `most` entries per row: consecutive frames are pooled into groups of
    /// nearly equal number, and each entry is the mean of a group. Bounds the memory, and makes entries of neighbouring
    /// frames that influence each other nearly independent.
    #[inline]
    pub fn frames_pooled(&self, name: &str, most: usize) -> Frames {
        self.divided(name, most, &[])
    }

    /// The lane and the indices of the ended spans called `name`, on the first lane that has any: the outermost spans of the
    /// lane, or if no lane has an outermost span of this name, those inside other spans, but not inside each other.
    #[inline]
    pub fn frame_spans(&self, name: &str) -> Option<(usize, Vec<usize>)> {
        let of = |spans: &[Span], nested: bool| {
            let mut inside = vec![false; spans.len()];
            let mut found = Vec::new();
            for (index, span) in spans.iter().enumerate() {
                // A parent precedes its children.
                let around = inside.get(span.parent as usize).copied();
                let is_frame =
                    around != Some(true) && (nested || around.is_none()) && !span.is_open() && self.name(span) == name;
                inside[index] = is_frame || around == Some(true);
                found.extend(is_frame.then_some(index));
            }
            found
        };
        let first = |nested| {
            let lanes = self.lanes.iter().map(|lane| of(&lane.spans, nested)).enumerate();
            lanes.into_iter().find(|(_, found)| !found.is_empty())
        };
        first(false).or_else(|| first(true))
    }

    // As for the functions around it: programs that do not use frames do not compile it.
    #[inline]
    fn divided(&self, name: &str, most: usize, left_out: &[usize]) -> Frames {
        let Some((home, all)) = self.frame_spans(name) else {
            return Frames { wall_ns: Vec::new(), sizes: Vec::new(), rows: Vec::new() };
        };
        let spans = &self.lanes[home].spans;
        // The spans of a lane are stored in order of their start, so frames do not overlap.
        let all = all.into_iter().enumerate();
        let frames: Vec<usize> =
            all.filter(|(frame, _)| left_out.binary_search(frame).is_err()).map(|(_, index)| index).collect();
        let groups = frames.len().min(most.max(1));
        let group = |frame: usize| frame * groups / frames.len().max(1);
        let mut sizes = vec![0_u32; groups];
        (0..frames.len()).for_each(|frame| sizes[group(frame)] += 1);
        // The frame of each span on the home lane; a parent precedes its children.
        let mut own: Vec<Option<usize>> = Vec::with_capacity(spans.len());
        for (index, span) in spans.iter().enumerate() {
            let around = own.get(span.parent as usize).copied().flatten();
            own.push(around.or_else(|| frames.binary_search(&index).ok()));
        }
        let at = |ticks: u64| {
            let after = frames.partition_point(|frame| spans[*frame].start <= ticks);
            let frame = after.checked_sub(1)?;
            (ticks < spans[frames[frame]].end).then_some(frame)
        };
        let select = |lane: usize, index: usize| {
            let site = self.lanes.get(lane).and_then(|lane| lane.spans.get(index)).map_or(0, |span| span.site);
            if self.is_own(site) {
                None
            } else if lane == home {
                let frame = own.get(index).copied().flatten().filter(|_| frames.binary_search(&index).is_err());
                frame.map(|frame| (group(frame), false))
            } else {
                at(self.lanes[lane].spans[index].start).map(|frame| (group(frame), true))
            }
        };
        let mean = |times: &[[f64; 2]], which: usize| -> Vec<f64> {
            times.iter().zip(&sizes).map(|(time, size)| time[which] / f64::from(*size)).collect()
        };
        let rows = self.tree(groups, &select).into_iter().map(|(row, elsewhere, times)| FrameRow {
            row,
            inside: !elsewhere,
            total_ns: mean(&times, 0),
            self_ns: mean(&times, 1),
        });
        let mut wall_ns = vec![0.0; groups];
        for (number, frame) in frames.iter().enumerate() {
            wall_ns[group(number)] += self.duration_ns(&spans[*frame]);
        }
        wall_ns.iter_mut().zip(&sizes).for_each(|(ns, size)| *ns /= f64::from(*size));
        let rows = rows.collect();
        Frames { wall_ns, sizes, rows }
    }
}
