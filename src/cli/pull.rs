//! STUB
use std::path::PathBuf;
/// x
#[derive(clap::Args, Debug)]
pub struct Args {
    name: String,
}
pub fn run(args: Args) -> anyhow::Result<()> {
    let _ = args.name;
    todo!()
}
pub fn ensure(
    model: &crate::hub::ModelRef,
    hub: &crate::hub::Hub,
    interactive: bool,
) -> anyhow::Result<PathBuf> {
    let _ = (model, hub, interactive);
    todo!()
}
