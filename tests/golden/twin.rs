//! The twins alone are a complete model, on every burn backend that is here.

use gptoss::checkpoint::Checkpoint;
use gptoss::engine::twin;

use crate::model::{GREEDY, exact, follows_the_reference};

#[test]
fn plain_burn_operations_on_candle_follow_the_reference() {
    let mut model = twin::load_on_candle(&Checkpoint::tiny(), &exact()).unwrap();
    let worst = follows_the_reference(model.as_mut(), 2e-3, GREEDY);
    println!("twin on candle: largest difference of a logit {worst:e}");
}

// lavapipe needs a second for a token this way, so few of the greedy ones are compared.
#[cfg(feature = "wgpu")]
#[test]
fn plain_burn_operations_on_wgpu_follow_the_reference() {
    let mut model = twin::load_on_wgpu(&Checkpoint::tiny(), &exact()).unwrap();
    let worst = follows_the_reference(model.as_mut(), 5e-3, 4);
    println!(
        "twin on {}: largest difference of a logit {worst:e}",
        model.describe()
    );
}
