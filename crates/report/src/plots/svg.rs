//! Renders a scene as SVG. Text remains text, so that it can be searched and read aloud.

use std::fmt::Write;

use super::scene::{Anchor, Color, Scene, Shape};

pub(super) fn svg(scene: &Scene) -> String {
    let (w, h) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
         font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n<title>{}</title>\n<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n",
        escape(&scene.title)
    );
    for shape in &scene.shapes {
        // Writing to a String cannot fail.
        let _ = element(shape, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

fn element(shape: &Shape, out: &mut String) -> std::fmt::Result {
    match shape {
        Shape::Line { points, width, color, dash } => {
            write!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"",
                coordinates(points),
                hex(*color)
            )?;
            if !dash.is_empty() {
                let lengths: Vec<String> = dash.iter().map(f32::to_string).collect();
                write!(out, " stroke-dasharray=\"{}\"", lengths.join(" "))?;
            }
            writeln!(out, "/>")
        }
        Shape::Polygon { points, fill, stroke, width } => writeln!(
            out,
            "<polygon points=\"{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            coordinates(points),
            hex(*fill),
            hex(*stroke)
        ),
        Shape::Circle { centre, radius, fill, stroke, width } => writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            centre.0,
            centre.1,
            hex(*fill),
            hex(*stroke)
        ),
        Shape::Text { at, text, size, bold, anchor, color, upwards } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let (x, y) = at;
            write!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\"",
                hex(*color)
            )?;
            if *bold {
                write!(out, " font-weight=\"bold\"")?;
            }
            if *upwards {
                write!(out, " transform=\"rotate(-90 {x:.1} {y:.1})\"")?;
            }
            writeln!(out, ">{}</text>", escape(text))
        }
    }
}

fn coordinates(points: &[(f32, f32)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn hex(color: Color) -> String {
    format!("#{:02x}{:02x}{:02x}", color[0], color[1], color[2])
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
