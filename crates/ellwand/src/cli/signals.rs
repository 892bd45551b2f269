//! Ctrl-C, and panics that belong to an implementation under measurement.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::exit::Exit;
use super::output::note;

static STOP: AtomicBool = AtomicBool::new(false);

/// Makes the first Ctrl-C ask the instrument to stop between two rounds and a second one end the program at once.
/// Returns the flag that the first one sets.
pub(super) fn stop_on_ctrl_c() -> &'static AtomicBool {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    &STOP
}

fn install() {
    let installed = ctrlc::set_handler(|| {
        if STOP.swap(true, SeqCst) {
            // Workers end with us; what a shell has started does not.
            ellwand_bench::commands::end_running();
            std::process::exit(Exit::Interrupted.code());
        }
        note("\nstopping after this round; what is measured is kept (Ctrl-C again to end at once)");
    });
    if let Err(error) = installed {
        // Without the handler Ctrl-C ends the program at once, and the record still holds every finished cell.
        note(&format!("note: Ctrl-C cannot be caught ({error})"));
    }
}

/// A panic inside an implementation becomes a row of the result; its message need not be shouted as well.
pub(super) fn quiet_panics_of_implementations() {
    let shout = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !ellwand_bench::check::guarding() {
            shout(info);
        }
    }));
}
