//! `gptoss devices`: what there is to run on, and why something is not used.

use std::fmt::Write;

use serde::Serialize;

use super::config;
use crate::hub::decimal_bytes as bytes;
use crate::session::devices::{self, Choice, Device, DriverFault};
use crate::session::memory::Machine;
use crate::settings::Given;

/// What to do where no driver is installed.
const INSTALL: &str = if cfg!(target_os = "linux") {
    "no driver of a graphics card is found: NVIDIA's cards need NVIDIA's, and the CUDA toolkit where Vulkan is not to \
     do; others need one of Vulkan (Debian: mesa-vulkan-drivers)"
} else {
    "no driver of a graphics card is found: install that of its maker"
};

/// `gptoss devices`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Everything that is shown, in the order of the JSON object.
#[derive(Debug, Serialize)]
struct Facts {
    /// What `--device auto` takes for a model that fits.
    auto: String,
    /// What is taken without `--device`, where that is not `auto`.
    configured: Option<String>,
    devices: Vec<Row>,
    faults: Vec<Fault>,
    /// Why what is configured cannot be taken.
    #[serde(skip)]
    refused: Option<String>,
}

/// A driver that is installed and gives no device.
#[derive(Debug, Serialize)]
struct Fault {
    api: &'static str,
    file: Option<String>,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Row {
    /// For `--device`.
    device: String,
    name: String,
    kind: &'static str,
    memory_bytes: Option<u64>,
    largest_buffer_bytes: Option<u64>,
    driver: Option<String>,
    usable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Runs `gptoss devices` and gives what it prints.
///
/// # Errors
/// What is wrong with the configuration. What cannot be asked is not there.
pub fn run(args: &Args) -> anyhow::Result<Vec<u8>> {
    let configured = config::load(Given::default())?.settings().device;
    let devices = devices::list();
    let (auto, _) = devices::select(&devices, &Choice::Auto, 0)?;
    let facts = Facts {
        auto: auto.choice().to_string(),
        configured: (configured != Choice::Auto).then(|| configured.to_string()),
        refused: devices::select(&devices, &configured, 0)
            .err()
            .map(|error| error.to_string()),
        faults: devices::driver_faults()
            .into_iter()
            .map(Fault::of)
            .collect(),
        devices: std::iter::once(cpu())
            .chain(devices.iter().map(Row::of))
            .collect(),
    };
    let text = if args.json {
        serde_json::to_string_pretty(&facts)? + "\n"
    } else {
        facts.text()
    };
    Ok(text.into_bytes())
}

fn cpu() -> Row {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plural = if cores == 1 { "" } else { "s" };
    Row {
        device: "cpu".to_owned(),
        name: format!("the processor, {cores} thread{plural}"),
        kind: "cpu",
        memory_bytes: Machine::here().map(|machine| machine.total),
        largest_buffer_bytes: None,
        driver: None,
        usable: true,
        reason: None,
    }
}

impl Fault {
    fn of(fault: DriverFault) -> Self {
        Self {
            api: fault.api.name(),
            file: fault.file,
            reason: fault.reason,
        }
    }
}

impl Row {
    fn of(device: &Device) -> Self {
        Self {
            device: device.to_string(),
            name: device.name.clone(),
            kind: device.kind.name(),
            memory_bytes: device.memory,
            largest_buffer_bytes: Some(device.largest_binding),
            driver: Some(device.driver.clone()),
            usable: device.usable.is_ok(),
            reason: device.usable.clone().err(),
        }
    }

    fn cells(&self) -> [String; 6] {
        let size = |size: Option<u64>| size.map_or_else(|| "unknown".to_owned(), bytes);
        let buffer = match self.largest_buffer_bytes {
            None => "any".to_owned(),
            some => size(some),
        };
        [
            self.device.clone(),
            self.kind.to_owned(),
            size(self.memory_bytes),
            buffer,
            if self.usable { "yes" } else { "no" }.to_owned(),
            match &self.driver {
                Some(driver) if !driver.is_empty() => format!("{}; {driver}", self.name),
                _ => self.name.clone(),
            },
        ]
    }
}

impl Facts {
    /// For people: a table, and below it why what is not usable is not.
    fn text(&self) -> String {
        let head = [
            "device",
            "kind",
            "memory",
            "buffer",
            "usable",
            "name; driver",
        ];
        let rows: Vec<[String; 6]> = std::iter::once(head.map(str::to_owned))
            .chain(self.devices.iter().map(Row::cells))
            .collect();
        let mut text = String::new();
        // Writing to a string cannot fail.
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = rows.iter().map(|row| row[column].chars().count()).max();
                let _ = write!(line, "{cell:<0$}  ", width.unwrap_or(0));
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for row in &self.devices {
            if let Some(reason) = &row.reason {
                let _ = writeln!(text, "\n{} is not usable: {reason}", row.device);
            }
        }
        for fault in &self.faults {
            let file = fault.file.iter().map(|file| format!(": {file}"));
            let file = file.collect::<String>();
            let _ = writeln!(text, "\n{}{file}: {}", fault.api, fault.reason);
        }
        if self.devices.len() == 1 && self.faults.is_empty() {
            let _ = writeln!(text, "\n{INSTALL}");
        }
        let _ = writeln!(
            text,
            "\n--device auto takes {} for a model that fits",
            self.auto
        );
        if let Some(configured) = &self.configured {
            let refused = self.refused.iter().map(|why| format!(": {why}"));
            let refused = refused.collect::<String>();
            let _ = writeln!(text, "--device {configured} is configured{refused}");
        }
        text
    }
}
