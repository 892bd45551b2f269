
// Four integers with an even sum.

const D: u32 = 4;
const SCALE: i32 = 1;

fn settle(f: ptr<function, Point>, r: ptr<function, Point>, unit: i32) {
    var largest = 0;
    for (var k = 0; k < 4; k++) {
        largest = max(largest, abs((*r)[k]) << 2u | (3 - k));
    }
    let odd = ((*f)[0] + (*f)[1] + (*f)[2] + (*f)[3]) & 1;
    for (var k = 0; k < 4; k++) {
        let sign = select(-1, 1, (*r)[k] >= 0);
        let step = select(0, sign * odd, (abs((*r)[k]) << 2u | (3 - k)) == largest);
        (*f)[k] += step;
        (*r)[k] -= step * unit;
    }
}

fn coordinates(y: ptr<function, Point>, z: ptr<function, Point>) {
    let tail = (*y)[1] + (*y)[2] + (*y)[3];
    (*z)[0] = (-(*y)[0] - tail) >> 1u;
    (*z)[1] = ((*y)[0] - tail) >> 1u;
    (*z)[2] = -(*y)[2] - (*y)[3];
    (*z)[3] = -(*y)[3];
}

fn combine(b: ptr<function, Point>, g: ptr<function, Point>) {
    (*g)[0] = (*b)[1] - (*b)[0];
    (*g)[1] = (*b)[2] - (*b)[0] - (*b)[1];
    (*g)[2] = (*b)[3] - (*b)[2];
    (*g)[3] = -(*b)[3];
}
