//! Ctrl-C, SIGTERM and SIGHUP, and panics that belong to an implementation under measurement.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, Once, PoisonError};

use super::exit::Exit;
use super::output::note;

static STOP: AtomicBool = AtomicBool::new(false);
static BECOMES: Mutex<&str> = Mutex::new(NOTHING_KEPT);

/// What happens to finished work on Ctrl-C.
pub(super) const NOTHING_KEPT: &str = "nothing measured so far is saved";
pub(super) const CELLS_KEPT: &str = "finished cells are saved";
#[cfg(feature = "sweep")]
pub(super) const SHARD_LOST: &str = "nothing of this shard is saved";
#[cfg(feature = "sweep")]
pub(super) const TASKS_GO_ON: &str = "tasks continue without this command";
pub(super) const ROWS_PRINTED: &str = "finished rows are printed, and nothing is saved";
pub(super) const DECIDED_KEPT: &str = "decisions so far are printed (and saved with -o)";
pub(super) const NO_CERTIFICATE: &str = "decisions so far are printed, and no certificate is saved";

/// Makes the first Ctrl-C ask the instrument to stop between two rounds, and a second one end the program at once. The
/// first one prints what `becomes` of the finished work, which holds until this is called again. Returns the flag that
/// the first one sets.
pub(super) fn stop_on_ctrl_c(becomes: &'static str) -> &'static AtomicBool {
    static INSTALLED: Once = Once::new();
    *BECOMES.lock().unwrap_or_else(PoisonError::into_inner) = becomes;
    INSTALLED.call_once(install);
    &STOP
}

/// The flag that the first Ctrl-C sets.
pub(super) fn flag() -> &'static AtomicBool {
    &STOP
}

fn install() {
    let installed = ctrlc::set_handler(|| {
        if STOP.swap(true, SeqCst) {
            // Guards end workers and commands with this process.
            std::process::exit(Exit::Interrupted.code());
        }
        let becomes = *BECOMES.lock().unwrap_or_else(PoisonError::into_inner);
        note(&format!("\nstopping after the current step; {becomes} (Ctrl-C again to end at once)"));
    });
    if let Err(error) = installed {
        // Without the handler, Ctrl-C ends the program at once, and the record still contains every finished cell.
        note(&format!("note: Ctrl-C cannot be caught ({error})"));
    }
}

/// A panic inside an implementation becomes a row of the result, so its message is not printed as well.
pub(super) fn quiet_panics_of_implementations() {
    let shout = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !ellwand_bench::check::guarding() {
            shout(info);
        }
    }));
}
