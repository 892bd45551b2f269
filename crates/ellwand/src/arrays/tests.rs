//! Files as users provide them: correct files of every kind, and every kind of error.

use super::*;

/// A version 1 `.npy` file with this header text and these bytes, written by hand so that the reader is not tested
/// against itself.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut header = header.to_string();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn header(descr: &str, fortran: bool, shape: &str) -> String {
    let order = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn refused(file: &[u8]) -> String {
    let message = npy::parse("input x=f.npy", file).unwrap_err().to_string();
    assert!(message.starts_with("input x=f.npy: "), "{message}");
    assert!(message.contains("expected"), "{message}");
    message
}

#[test]
fn plain_big_endian_fortran_scalar_and_empty_arrays_are_read() {
    let tensor = npy::parse("x", &npy(&header("<f4", false, "(2, 2)"), &floats(&[1.0, 2.0, 3.0, 4.0]))).unwrap();
    assert_eq!((tensor.shape(), tensor.f32().unwrap()), (&[2, 2][..], &[1.0, 2.0, 3.0, 4.0][..]));
    let big: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|value| value.to_be_bytes()).collect();
    assert_eq!(npy::parse("x", &npy(&header(">f4", false, "(2,)"), &big)).unwrap().f32().unwrap(), &[1.0, 2.0]);
    // Columns first: the array [[1, 2, 3], [4, 5, 6]] is stored as 1 4 2 5 3 6.
    let fortran = npy(&header("<f4", true, "(2, 3)"), &floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    assert_eq!(npy::parse("x", &fortran).unwrap().f32().unwrap(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(npy::parse("x", &npy(&header("<f4", false, "()"), &floats(&[7.0]))).unwrap().shape(), &[] as &[usize]);
    assert!(npy::parse("x", &npy(&header("<f4", false, "(0, 4)"), &[])).unwrap().is_empty());
}

#[test]
fn unsupported_types_are_named() {
    assert!(refused(&npy(&header("<f2", false, "(2,)"), &[0; 4])).contains("float16"));
    assert!(refused(&npy(&header("<c8", false, "(1,)"), &[0; 8])).contains("not supported"));
    assert!(refused(&npy(&header("<U3", false, "(1,)"), &[0; 12])).contains("not supported"));
    assert!(refused(&npy(&header("|O", false, "(1,)"), &[0; 8])).contains("not supported"));
}

#[test]
fn truncated_lying_and_foreign_files_are_refused() {
    let whole = npy(&header("<f4", false, "(2, 2)"), &floats(&[1.0, 2.0, 3.0, 4.0]));
    assert!(refused(&whole[..whole.len() - 1]).contains("truncated"));
    assert!(refused(&[whole.clone(), vec![0]].concat()).contains("bytes follow the array"));
    assert!(refused(&npy(&header("<f4", false, "(1000000000000000,)"), &[0; 4])).contains("truncated"));
    refused(&npy(&header("<f4", false, "(9223372036854775807, 9223372036854775807)"), &[0; 4]));
    let headers = [
        "{'descr': '<f4', 'fortran_order': False, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1, }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    ];
    for header in headers {
        assert!(refused(&npy(header, &[0; 4])).contains("its header is not one that NumPy writes"), "{header}");
    }
    let spaced = "{\"shape\":(2 ,1),'descr' : '>i2','fortran_order':True}";
    assert_eq!(npy::parse("x", &npy(spaced, &[0, 1, 0, 2])).unwrap().i16().unwrap(), &[1, 2]);
    let none = npy(&header("<f4", false, "(0,)"), &[]);
    assert!(npy::parse("x", &none).is_ok() && npy::parse("x", &none[..none.len() - 1]).is_err());
    refused(b"PK\x03\x04 not an array");
    refused(b"");
    for cut in 0..whole.len() {
        assert!(npy::parse("x", &whole[..cut]).is_err(), "{cut} bytes were taken for the whole file");
    }
}

#[test]
fn every_mutated_byte_is_either_read_or_refused() {
    let whole = npy(&header("<f4", false, "(2, 2)"), &floats(&[1.0, 2.0, 3.0, 4.0]));
    for at in 0..whole.len() {
        for value in [0, 1, b'(', b'9', 0x7f, 0xff] {
            let mut file = whole.clone();
            file[at] = value;
            // Whatever the result, it must not panic; a file that is read has the number of elements that its shape
            // implies.
            if let Ok(tensor) = npy::parse("x", &file) {
                assert_eq!(tensor.len(), tensor.shape().iter().product::<usize>());
            }
        }
    }
}

#[test]
fn written_arrays_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("y.npy");
    let tensor = Tensor::new(&[3, 1], &[1_u8, 2, 255][..]).unwrap();
    write(&path, &tensor).unwrap();
    let back = read(&[format!("y={}", path.display())]).unwrap();
    assert_eq!(back.get("y").unwrap().shape(), &[3, 1]);
    assert_eq!(back.u8("y").unwrap(), &[1, 2, 255]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the partial file is gone");
    let bytes = std::fs::read(&path).unwrap();
    let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, ), }";
    assert_eq!(bytes, [npy(text, &[]), vec![1, 2, 255]].concat());
    let error = write(&dir.path().join("no/such/dir.npy"), &tensor).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn archives_bind_by_name() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("both.npz");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, value) in [("x", 1.0_f32), ("weight", 2.0)] {
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&npy(&header("<f4", false, "(1,)"), &floats(&[value]))).unwrap();
    }
    archive.finish().unwrap();
    let file = path.display();
    assert_eq!(read(&[file.to_string()]).unwrap().len(), 2);
    assert_eq!(read(&[format!("x={file}:weight")]).unwrap().f32("x").unwrap(), &[2.0]);
    let message = read(&[format!("x={file}")]).unwrap_err().to_string();
    assert!(message.contains("holds 2 arrays") && message.contains("hint"), "{message}");
    assert!(read(&[format!("x={file}:wieght")]).unwrap_err().to_string().contains("did you mean weight?"));
    let twice = read(&[file.to_string(), format!("x={file}:weight")]).unwrap_err().to_string();
    assert!(twice.contains("given twice"), "{twice}");
    let bytes = std::fs::read(&path).unwrap();
    let cut = dir.path().join("cut.npz");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    assert!(read(&[cut.display().to_string()]).unwrap_err().to_string().contains("not a readable zip"));
}

#[test]
fn safetensors_are_read_and_damage_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let json = br#"{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"h":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}}"#;
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend(json);
    file.extend(floats(&[1.5, -2.0]));
    file.extend([0; 4]);
    let path = dir.path().join("m.safetensors");
    std::fs::write(&path, &file).unwrap();
    assert_eq!(read(&[format!("x={}:w", path.display())]).unwrap().f32("x").unwrap(), &[1.5, -2.0]);
    assert!(read(&[format!("x={}:h", path.display())]).unwrap_err().to_string().contains("F16"));
    std::fs::write(&path, &file[..file.len() - 3]).unwrap();
    assert!(read(&[format!("x={}:w", path.display())]).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn missing_names_and_unreadable_files_are_errors() {
    assert!(read(&["x=/no/such/file.npy".into()]).unwrap_err().to_string().contains("No such file"));
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("notes.txt");
    std::fs::write(&text, "hello").unwrap();
    assert!(read(&[format!("x={}", text.display())]).unwrap_err().to_string().contains(".npy, .npz or .safetensors"));
    let npy = dir.path().join("a.npy");
    std::fs::write(&npy, "x").unwrap();
    assert!(read(&[npy.display().to_string()]).unwrap_err().to_string().contains("NAME=FILE.npy"));
}

#[test]
fn nested_values_are_refused_wherever_they_are_in_a_header() {
    let nested = format!("{{'dxscr': {}1{}, 'fortran_order': False, 'shape': (1,), }}", "(".repeat(40), ")".repeat(40));
    assert!(refused(&npy(&nested, &[0; 4])).contains("its header"));
    let shape = header("<f4", false, &format!("{}1{}", "[".repeat(40), "]".repeat(40)));
    assert!(refused(&npy(&shape, &[0; 4])).contains("its header"));
}

#[test]
fn a_header_is_as_long_as_it_claims() {
    // Without a check, four GiB would be allocated before the missing bytes are noticed.
    assert!(refused(b"\x93NUMPY\x02\x00\xf4\xff\xff\xfe{'descr': '<f4'").contains("its header has 4278190068 bytes"));
}
