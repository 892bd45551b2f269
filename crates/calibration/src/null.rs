//! `null`: a call that does nothing, the minimum cost of any call through the instrument.

use ellwand_core::{
    Case, Description, DeviceError, Implementation, InputError, Poison, Prepared, Registry, Tensor, Tensors, Work,
    Workload,
};

struct Null(Description);

impl Workload for Null {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, _: &Case) -> u64 {
        64
    }
    fn inputs(&self, _: &Case, _: u64) -> Result<Tensors, InputError> {
        Ok(Tensors::new())
    }
    fn reference(&self, _: &Case, _: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("called", Tensor::vector(&[1_u8][..])))
    }
    fn work(&self, _: &Case) -> Work {
        Work::items("calls", 1)
    }
}

/// Writes one byte, which shows the check that it ran; [`Prepared::run_times`] keeps the optimiser from merging the
/// writes.
#[derive(Default)]
struct Empty {
    called: u8,
}

impl Prepared for Empty {
    fn run(&mut self) {
        self.called = 1;
    }
    fn poison(&mut self, poison: Poison) {
        self.called = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("called", Tensor::vector(&[self.called][..])))
    }
}

pub(super) fn register(registry: &mut Registry) {
    let about = "does nothing: the cost of one call through the instrument";
    registry.workload(Null(Description::new("null", about).group("calibration").baseline("empty")));
    registry.implementation(Implementation::cpu("null", "empty", "writes one byte", |_, _, _| {
        Ok(Box::new(Empty::default()))
    }));
}
