
// The square lattice.

const D: u32 = 2;
const SCALE: i32 = 1;

fn settle(f: ptr<function, Point>, r: ptr<function, Point>, unit: i32) {}

fn coordinates(y: ptr<function, Point>, z: ptr<function, Point>) {
    *z = *y;
}

fn combine(b: ptr<function, Point>, g: ptr<function, Point>) {
    *g = *b;
}
