//! Codes that must never change: testdata/lattice/golden.txt, made by golden.py beside it, an
//! oracle in exact rational arithmetic that shares nothing with this crate.

use super::*;

const GOLDEN: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/lattice/golden.txt"));

#[test]
fn digits_are_those_of_the_oracle() {
    let mut lines = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        // lattice q M | x * 16 | digits, level 0 first | overload
        let fields: Vec<&str> = line.split('|').collect();
        let code: Vec<&str> = fields[0].split_whitespace().collect();
        let lattice: Lattice = code[0].parse().unwrap();
        let codec = Codec::new(params(lattice, code[1].parse().unwrap(), code[2].parse().unwrap())).unwrap();
        let x: Vec<f32> = fields[1].split_whitespace().map(|v| v.parse::<f32>().unwrap() / 16.0).collect();
        let digits: Vec<u8> = fields[2].split_whitespace().map(|v| v.parse().unwrap()).collect();
        let overload: u8 = fields[3].trim().parse().unwrap();
        for method in methods() {
            let (packed, flags, _) = encode(&codec, method, &x);
            assert_eq!(codec.digits(&packed, 1).unwrap(), digits, "{method:?}: {line}");
            assert_eq!(flags, [overload], "{method:?}: {line}");
        }
        lines += 1;
    }
    assert!(lines >= 300, "{lines} golden lines only");
}

#[test]
fn packing_is_little_endian_level_zero_first() {
    let codec = Codec::new(params(Lattice::D4, 4, 2)).unwrap();
    // Level 0 digits 1 2 3 0 -> 0b01101100, level 1 digits 0 0 0 2 -> 0b00000010.
    assert_eq!(codec.pack(&[1, 2, 3, 0, 0, 0, 0, 2]).unwrap(), [0b0110_1100, 0b0000_0010]);
    // Four bits a vector (q 3: nine points a level), the first vector lowest.
    let codec = Codec::new(params(Lattice::Z2, 3, 1)).unwrap();
    assert_eq!(codec.pack(&[0, 1, 2, 2, 1, 0]).unwrap(), [0x81, 0x03]);
}
