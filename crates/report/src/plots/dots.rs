//! Dot charts: one line per implementation, for results without a numeric axis; bar charts of the parts of a whole.

use super::axis::Axis;
use super::chart::{Area, Dots};
use super::font::Fonts;
use super::lines::draw_ticks;
use super::scene::{Anchor, GREY, GRID, INK, Scene};
use super::style::NEUTRAL;

const LINE: f32 = 34.0;
const HEAD: f32 = 32.0;
const AXIS: f32 = 62.0;
const BAR: f32 = 18.0;
const TEXT: f32 = 14.0;

/// Height of the chart, in pixels.
pub(super) fn height(chart: &Dots) -> f32 {
    let heads = chart.groups.iter().filter(|(title, _)| !title.is_empty()).count() as f32;
    let dots: usize = chart.groups.iter().map(|(_, dots)| dots.len()).sum();
    (heads * HEAD + dots as f32 * LINE + AXIS + 16.0).max(220.0)
}

pub(super) fn draw(chart: &Dots, area: Area, fonts: &Fonts, scene: &mut Scene) {
    let every = || chart.groups.iter().flat_map(|(_, dots)| dots);
    let values = every().flat_map(|dot| [dot.low, dot.value, dot.high]).chain(chart.reference);
    let values = values.chain(chart.bars.then_some(0.0));
    let Some(x) = Axis::over(values, chart.scale.log) else { return };
    let name = |text: &str| fonts.cut(text, TEXT, false, 320.0);
    let widest = every().map(|dot| fonts.width(&name(&dot.label), TEXT, false)).fold(0.0, f32::max);
    let beside = every().map(|dot| fonts.width(&dot.text, TEXT, false)).fold(0.0, f32::max);
    let plot = Area {
        left: area.left + widest + 40.0,
        right: area.right - beside - 24.0,
        top: area.top + 4.0,
        bottom: area.bottom - AXIS,
    };
    draw_ticks(&x.ticks(&chart.scale.unit, 8), &x, plot, fonts, scene);
    if let Some(reference) = chart.reference {
        let at = plot.x(&x, reference);
        scene.segment((at, plot.top), (at, plot.bottom), 1.4, NEUTRAL);
    }
    scene.segment((plot.left, plot.bottom), (plot.right, plot.bottom), 1.2, GREY);
    scene.text(((plot.left + plot.right) / 2.0, plot.bottom + 46.0), &chart.scale.label, TEXT, Anchor::Middle, INK);
    let mut y = plot.top + 8.0;
    for (title, dots) in &chart.groups {
        if !title.is_empty() {
            let title = fonts.cut(title, TEXT, true, area.right - area.left);
            scene.bold((area.left, y + 18.0), &title, TEXT, Anchor::Start);
            y += HEAD;
        }
        for dot in dots {
            let at = y + LINE / 2.0 - 4.0;
            scene.text((plot.left - 14.0, at + 5.0), &name(&dot.label), TEXT, Anchor::End, INK);
            scene.line(vec![(plot.left, at), (plot.right + 10.0, at)], 1.0, GRID, &[1.5, 3.0]);
            let (low, high) = (plot.x(&x, dot.low), plot.x(&x, dot.high));
            if high - low >= 1.0 {
                scene.segment((low, at), (high, at), 1.6, dot.style.color());
                for end in [low, high] {
                    scene.segment((end, at - 5.0), (end, at + 5.0), 1.6, dot.style.color());
                }
            }
            if chart.bars {
                scene.segment((plot.x(&x, 0.0), at), (plot.x(&x, dot.value), at), BAR, dot.style.color());
            } else {
                dot.style.marker(scene, (plot.x(&x, dot.value), at), 6.0);
            }
            scene.text((plot.right + 16.0, at + 5.0), &dot.text, TEXT, Anchor::Start, INK);
            y += LINE;
        }
    }
}
