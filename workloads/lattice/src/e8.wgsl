
// E8, with doubled coordinates.

const D: u32 = 8;
const SCALE: i32 = 2;

fn settle(f: ptr<function, Point>, r: ptr<function, Point>, unit: i32) {
    var sum = 0;
    var negative = 0;
    var total = 0;
    var largest = 0;
    var smallest = 0x7fffffff;
    for (var k = 0; k < 8; k++) {
        let size = abs((*r)[k]);
        sum += (*f)[k];
        negative += select(0, 1, (*r)[k] < 0);
        total += size;
        largest = max(largest, size << 3u | (7 - k));
        smallest = min(smallest, size << 3u | k);
    }
    let odd_whole = (sum & 1) != 0;
    let odd_half = ((sum - negative) & 1) != 0;
    let at_largest = 7 - (largest & 7);
    let at_smallest = smallest & 7;
    let whole_cost = select(0, unit - 2 * (largest >> 3u), odd_whole);
    let half_cost = select(0, 2 * (smallest >> 3u), odd_half);
    let difference = total - 2 * unit + whole_cost - half_cost;
    let first = select(-1, 1, (*r)[0] >= 0);
    let first_half = select(1, -1, odd_half && at_smallest == 0);
    let first_whole = select(0, 2, odd_whole && at_largest == 0);
    let take_half = difference > 0 || (difference == 0 && first * first_half < first * first_whole);
    let plain = select(0, 1, take_half);
    let turned = select(2, -1, take_half);
    let flipped = select(select(-1, at_largest, odd_whole), select(-1, at_smallest, odd_half), take_half);
    for (var k = 0; k < 8; k++) {
        let step = select(-1, 1, (*r)[k] >= 0) * select(plain, turned, k == flipped);
        (*f)[k] = 2 * (*f)[k] + step;
        (*r)[k] -= step * (unit >> 1u);
    }
}

fn coordinates(y: ptr<function, Point>, z: ptr<function, Point>) {
    var tail = 0;
    for (var j = 0; j < 6; j++) {
        let i = 6 - j;
        tail += (*y)[i];
        (*z)[i] = (tail - (7 - i) * (*y)[7]) >> 1u;
    }
    (*z)[0] = (tail + (*y)[0] - 7 * (*y)[7]) >> 2u;
    (*z)[7] = (*y)[7];
}

fn combine(b: ptr<function, Point>, g: ptr<function, Point>) {
    for (var k = 0; k < 8; k++) {
        (*g)[k] = (*b)[7];
    }
    (*g)[0] += 4 * (*b)[0] - 2 * (*b)[1];
    for (var k = 1; k < 6; k++) {
        (*g)[k] += 2 * ((*b)[k] - (*b)[k + 1]);
    }
    (*g)[6] += 2 * (*b)[6];
}
