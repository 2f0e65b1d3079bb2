//! From the name of a model to its checkpoint, and whether there is memory for it.

mod device;

use anyhow::Context;

use super::error::Failure;
use super::pull;
use crate::checkpoint::{Checkpoint, Config};
use crate::hub::{Hub, Located, ModelRef, decimal_bytes as bytes};
use crate::session::memory::{Fit, Machine, Plan};
use crate::settings::{Settings, Source};
pub use device::{Place, Room, check_device, choose_device, place};

/// Opens the model of the settings. What is not there is offered for download when `interactive`.
///
/// # Errors
/// When there is no such model, it is not here, or its files are not what they should be.
pub fn open(settings: &Settings, interactive: bool) -> anyhow::Result<Checkpoint> {
    let model = named(settings)?;
    let opened = files(&model, interactive);
    let checkpoint = match &model {
        ModelRef::Directory(_) => opened.context("--model")?,
        _ => opened?,
    };
    check_context(settings, &checkpoint.config)?;
    Ok(checkpoint)
}

/// Opens the model that is named in the chat.
///
/// # Errors
/// As [`open`], without a word of flags.
pub fn open_named(model: &ModelRef, settings: &Settings) -> anyhow::Result<Checkpoint> {
    let checkpoint = files(model, false)?;
    check_context(settings, &checkpoint.config)?;
    Ok(checkpoint)
}

fn files(model: &ModelRef, interactive: bool) -> anyhow::Result<Checkpoint> {
    Ok(match model {
        ModelRef::Tiny => Checkpoint::tiny(),
        ModelRef::Directory(directory) => Checkpoint::open(directory)?,
        ModelRef::Repo { .. } => {
            let snapshot = pull::ensure(model, &Hub::from_env()?, interactive)?;
            Checkpoint::open(&snapshot)
                .with_context(|| format!("`{model}` in the cache cannot be used"))?
        }
    })
}

/// Checks what can be told at once: that a model on this machine is one, and that its context holds what was asked
/// for. A model that only a saved session names need not be there.
///
/// # Errors
/// What is wrong with it.
pub fn check(settings: &Settings, of_session: bool) -> anyhow::Result<()> {
    match config(settings) {
        Ok(Some(config)) => check_context(settings, &config),
        Ok(None) => Ok(()),
        Err(_) if of_session => Ok(()),
        Err(error) => Err(error),
    }
}

/// The configuration of the model, where it is on this machine.
fn config(settings: &Settings) -> anyhow::Result<Option<Config>> {
    let model = named(settings)?;
    let config = match &model {
        ModelRef::Tiny => Checkpoint::tiny().config,
        ModelRef::Directory(directory) => Checkpoint::config_of(directory).context("--model")?,
        ModelRef::Repo { id, revision } => {
            match Hub::from_env()?.locate(id, revision.as_deref())? {
                Located::Complete(snapshot) => Checkpoint::config_of(&snapshot)
                    .with_context(|| format!("`{model}` in the cache cannot be used"))?,
                Located::Incomplete { .. } | Located::Absent => return Ok(None),
            }
        }
    };
    Ok(Some(config))
}

fn check_context(settings: &Settings, config: &Config) -> anyhow::Result<()> {
    let most = config.max_position_embeddings;
    match settings.context {
        Some(context) if context > most => {
            let (name, given) = match settings.context_source {
                Source::Flag => ("--context", format!("--context {context}")),
                Source::Variable => ("GPTOSS_CONTEXT", format!("GPTOSS_CONTEXT={context}")),
                Source::File => (
                    "`context`",
                    format!("`context = {context}` in the configuration"),
                ),
            };
            Err(Failure::usage(
                format!("{given} is more than the {most} positions of this model"),
                format!("give at most {most}, or leave {name} out"),
            )
            .into())
        }
        _ => Ok(()),
    }
}

/// The model of the settings. (Flags were read as such before; this is about the other sources.)
///
/// # Errors
/// When there can be no model of that name.
pub fn named(settings: &Settings) -> anyhow::Result<ModelRef> {
    settings.model.parse().map_err(|error| {
        let message = format!("the `model` that is configured cannot be used: {error}");
        Failure::usage(message, "").into()
    })
}

/// What is worth saying about `plan` before the model is loaded.
///
/// # Errors
/// When it cannot work on this machine.
pub fn check_memory(plan: &Plan, machine: Machine) -> anyhow::Result<Option<String>> {
    let fit = plan.fit(machine);
    let without_copy = if plan.as_published().fit(machine) == fit {
        String::new()
    } else {
        format!("; --dense bf16 needs {} less", bytes(plan.dense_copy))
    };
    match fit {
        Fit::Fits => Ok(None),
        Fit::Crowded => Ok(Some(format!(
            "{} of memory are needed and {} are free now: other programs may slow it down{without_copy}",
            bytes(plan.needed()),
            bytes(machine.available),
        ))),
        Fit::WeightsFromDisk => Ok(Some(format!(
            "the weights ({}) do not stay in memory here ({}): they are read from the disk again \
             for every token, which is slow{without_copy}",
            bytes(plan.weights),
            bytes(machine.total),
        ))),
        Fit::TooLarge => {
            let room = machine.total.saturating_add(plan.weights);
            let most = |plan: Plan| plan.context_within(room);
            let hint = match (most(*plan), most(plan.as_published())) {
                (0, 0) => "a smaller model is needed".to_owned(),
                (0, published) => {
                    format!("--dense bf16 --context {published} is the most that fits")
                }
                (context, published) if context < published => format!(
                    "--context {context} is the most that fits, and {published} with --dense bf16"
                ),
                (context, _) => format!("--context {context} is the most that fits"),
            };
            let copies = match plan.dense_copy {
                0 => String::new(),
                copy => format!(", 8-bit weights {}", bytes(copy)),
            };
            Err(Failure::new(
                format!(
                    "a context of {} tokens takes {}{copies} and this machine has {}",
                    plan.context,
                    bytes(plan.history()),
                    bytes(machine.total),
                ),
                hint,
            )
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 20b with a context of 100,000 tokens.
    const PLAN: Plan = Plan {
        weights: 13_800_000_000,
        dense_copy: 0,
        work: 250_000_000,
        history_per_token: 50_000,
        context: 100_000,
    };

    fn check(total: u64, available: u64) -> Result<Option<String>, String> {
        let gigabytes = |count| count * 1_000_000_000;
        let machine = Machine {
            total: gigabytes(total),
            available: gigabytes(available),
        };
        check_memory(&PLAN, machine).map_err(|error| error.to_string())
    }

    #[test]
    fn says_what_memory_will_be_like() {
        assert_eq!(check(32, 28), Ok(None));
        assert_eq!(
            check(24, 10),
            Ok(Some(
                "19.1 GB of memory are needed and 10.0 GB are free now: other programs may slow it \
                 down"
                .into()
            ))
        );
        assert_eq!(
            check(16, 14),
            Ok(Some(
                "the weights (13.8 GB) do not stay in memory here (16.0 GB): they are read from the \
                 disk again for every token, which is slow"
                .into()
            ))
        );
        assert_eq!(
            check(4, 3),
            Err("a context of 100000 tokens takes 5.0 GB and this machine has 4.0 GB".into())
        );
    }

    #[test]
    fn says_which_context_fits() {
        let machine = Machine {
            total: 4_000_000_000,
            available: 0,
        };
        let error = check_memory(&PLAN, machine).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert!(
            format!("{failure:?}").contains("--context 75000 is the most that fits"),
            "{failure:?}"
        );
    }

    #[test]
    fn says_what_8_bit_weights_cost_where_it_matters() {
        let plan = Plan {
            dense_copy: 2_000_000_000,
            ..PLAN
        };
        let machine = |total, available| Machine { total, available };
        let said = |machine| {
            check_memory(&plan, machine).map_err(|error| {
                let (message, hint) = crate::cli::error::parts(&error);
                format!("{message}; {}", hint.unwrap_or_default())
            })
        };
        assert_eq!(said(machine(32_000_000_000, 28_000_000_000)), Ok(None));
        assert_eq!(
            said(machine(20_000_000_000, 18_000_000_000)),
            Ok(Some(
                "the weights (13.8 GB) do not stay in memory here (20.0 GB): they are read from the disk again for \
                 every token, which is slow; --dense bf16 needs 2.0 GB less"
                    .to_owned()
            ))
        );
        assert_eq!(
            said(machine(6_000_000_000, 6_000_000_000)),
            Err(
                "a context of 100000 tokens takes 5.0 GB, 8-bit weights 2.0 GB and this machine has 6.0 GB; \
                 --context 75000 is the most that fits, and 100000 with --dense bf16"
                    .to_owned()
            )
        );
        assert_eq!(
            said(machine(2_200_000_000, 2_200_000_000)),
            Err(
                "a context of 100000 tokens takes 5.0 GB, 8-bit weights 2.0 GB and this machine has 2.2 GB; \
                 --dense bf16 --context 39000 is the most that fits"
                    .to_owned()
            )
        );
    }
}
