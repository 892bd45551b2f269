//! Encodes a short clip with rav1e and profiles it: `cargo run --release -p example-av1 -- [FRAMES [FILE [all]]]`.
//! Without FILE nothing is recorded: comparing the two shows the cost of the profiler.
#![allow(clippy::print_stdout)]

use std::error::Error;

use ellwand_profile::layer::ProfileLayer;
use ellwand_profile::{Options, get_profiler};
use rav1e::{Config, Context, EncoderConfig, EncoderStatus};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;

mod clip;

/// Functions called too often for a span per call, as a first profile of all functions showed: 96 % of the calls.
const FREQUENT: [&str; 11] = [
    "encode_block_post_cdef",
    "encode_block_pre_cdef",
    "select_segment",
    "motion_compensate",
    "luma_chroma_mode_rdo",
    "get_best_predictor",
    "fullpel_diamond_search",
    "full_pixel_me",
    "get_subset_predictors",
    "setup_mvref_list",
    "subpel_diamond_search",
];

/// Encodes the clip; returns the bytes of all packets.
fn encode(frames: usize) -> Result<usize, Box<dyn Error>> {
    let encoder = EncoderConfig {
        width: clip::WIDTH,
        height: clip::HEIGHT,
        min_key_frame_interval: 1,
        max_key_frame_interval: 12,
        ..EncoderConfig::with_speed_preset(8)
    };
    let mut context: Context<u8> = Config::new().with_encoder_config(encoder).with_threads(2).new_context()?;
    for at in 0..frames {
        let mut frame = context.new_frame();
        clip::draw(&mut frame, at);
        context.send_frame(frame)?;
    }
    context.flush();
    let mut bytes = 0;
    loop {
        match context.receive_packet() {
            Ok(packet) => bytes += packet.data.len(),
            Err(EncoderStatus::Encoded) => {}
            Err(EncoderStatus::LimitReached) => return Ok(bytes),
            Err(status) => return Err(status.into()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let frames = arguments.next().map_or(Ok(12), |frames| frames.parse())?;
    let Some(file) = arguments.next() else {
        println!("{frames} frames, {} bytes", encode(frames)?);
        return Ok(());
    };
    let all = arguments.next().is_some_and(|which| which == "all");
    // A span rejected by the filter costs as much as a disabled one: `tracing` asks once for each place in the source.
    let layer = ProfileLayer::of_threads().with_filter(filter_fn(move |span| all || !FREQUENT.contains(&span.name())));
    tracing_core::dispatcher::set_global_default(tracing_core::Dispatch::new(
        tracing_subscriber::registry().with(layer),
    ))?;
    get_profiler().start(Options::default())?;
    let bytes = encode(frames)?;
    let trace = get_profiler().finish();
    println!("{frames} frames, {bytes} bytes\n{}", trace.summary());
    trace.save(file)?;
    Ok(())
}
