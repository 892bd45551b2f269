//! The clip that is encoded: a moving gradient with grain and a ball, the same bytes on every machine.

use rav1e::Frame;

pub(crate) const WIDTH: usize = 320;
pub(crate) const HEIGHT: usize = 192;

/// Grain of one pixel: a hash of its position and time, 0 to 7.
fn grain(x: usize, y: usize, at: usize) -> usize {
    let mixed = (x * 374_761_393 + y * 668_265_263 + at * 2_147_483_647).wrapping_mul(1_274_126_177);
    (mixed >> 16) & 7
}

fn luma(x: usize, y: usize, at: usize) -> u8 {
    let (ball_x, ball_y) = (40 + 6 * at, 60 + 3 * at);
    let is_ball = x.abs_diff(ball_x).pow(2) + y.abs_diff(ball_y).pow(2) < 30 * 30;
    let level = if is_ball { 200 } else { (x + 2 * at) / 3 + y / 4 };
    (level + grain(x, y, at)).min(255) as u8
}

/// Fills frame number `at`: luma, and chroma at half the resolution.
pub(crate) fn draw(frame: &mut Frame<u8>, at: usize) {
    let [y, u, v] = &mut frame.planes;
    let bytes = |width, height, value: &dyn Fn(usize, usize) -> u8| -> Vec<u8> {
        (0..width * height).map(|index| value(index % width, index / width)).collect()
    };
    y.copy_from_raw_u8(&bytes(WIDTH, HEIGHT, &|x, y| luma(x, y, at)), WIDTH, 1);
    let (width, height) = (WIDTH / 2, HEIGHT / 2);
    u.copy_from_raw_u8(&bytes(width, height, &|x, _| (96 + x / 4) as u8), width, 1);
    v.copy_from_raw_u8(&bytes(width, height, &|_, y| (160 - y / 3) as u8), width, 1);
}
