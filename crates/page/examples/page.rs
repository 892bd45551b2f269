//! `cargo run -p ellwand-page --example page -- profile.json page.html [baseline.json]`: the page of a profile.

use std::error::Error;
use std::fs;
use std::io::BufWriter;

use ellwand_page::{Document, Extras, profile_page, run_page};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (from, to) =
        args.next().zip(args.next()).ok_or("expected a profile (or a report) in JSON and the page to write")?;
    let baseline =
        args.next().map(|path| Ok::<_, Box<dyn Error>>(Document::from_json(&fs::read(path)?)?)).transpose()?;
    let text = fs::read(&from)?;
    let mut out = BufWriter::new(fs::File::create(to)?);
    match Document::from_json(&text) {
        Ok(document) => {
            let extras = Extras { baseline: baseline.as_ref(), ..Extras::default() };
            profile_page(&document, &extras, &mut out)?;
        }
        Err(_) => run_page(&serde_json::from_slice(&text)?, &mut out)?,
    }
    Ok(())
}
